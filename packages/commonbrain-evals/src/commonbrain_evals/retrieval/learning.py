"""Whether learning from use helps: agents mark what answered, a model is trained, others ask.

The conversations of a data set are projects of one store. Of one half every question is asked, in
short sessions, and what of its evidence was shown is rated as agents rate; the job learns from
that ledger, and what it made serves while the questions of the other half are asked. Then the
halves change places. No question is ever asked of a model that has seen its conversation.
"""

import random
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast

from rich.console import Console

from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.extras import load_extra
from commonbrain.jobs.worker import Worker
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert_line
from commonbrain.model.limits import LESSONS_ASKED_MIN, RECALL_TOKENS_MAX
from commonbrain.model.model_card import RERANK
from commonbrain.model.scope import Authority, Caller
from commonbrain.retrieval.plan import RetrievalOverrides
from commonbrain.retrieval.recall import Recall
from commonbrain.runtime.bootstrap import build_services
from commonbrain.services import Services
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.testing.builders import SeededRandom
from commonbrain_evals.retrieval.comparison import Comparison, compare_values
from commonbrain_evals.retrieval.corpora import Corpus, Question
from commonbrain_evals.retrieval.datasets import get_dataset
from commonbrain_evals.retrieval.eval_store import FrozenClock
from commonbrain_evals.retrieval.metrics import DEPTH, METRICS, measure
from commonbrain_evals.retrieval.record import ALL
from commonbrain_evals.retrieval.tables import show_comparison

_KIND: Final = "train_reranker"
_AGENT: Final = "evaluation"
_OF_A_SESSION: Final = 4
"""Questions that one session asks, all of one conversation."""
_CALL_INTERVAL: Final = timedelta(hours=1)
"""From one session to the next."""
_AGENT_QUERY: Final = 0.4
"""About the share of the time that asking one half takes; the rest is filling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnRequest:
    """What is to be learnt from, and how well it is marked."""

    dataset: str
    path: Path
    seed: int = 0
    noise: float = 0.0
    """Share of the marks that are put on something that does not answer, 0..1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedHalf:
    """What was learnt of one half."""

    conversations: tuple[str, ...]
    recalls: int
    marks: int
    job: Mapping[str, object]
    """What the job that trains said."""
    importances: Mapping[str, float]
    """The share of each feature in what was learnt; empty where nothing was."""
    fallback_count: int
    """Recalls of the other half that the model did not order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """What learning changed."""

    dataset: str
    seed: int
    noise: float
    memories: int
    halves: tuple[TrainedHalf, ...]
    comparison: Comparison


@dataclass(slots=True, kw_only=True)
class _Rankings:
    """Rankings of the questions that were asked both ways."""

    questions: list[Question] = field(default_factory=list[Question])
    fixed: dict[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    learnt: dict[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    fallback_count: int = 0


def learn(
    request: LearnRequest, *, settings: Settings, on_progress: Progress = ignore_progress
) -> Learning:
    """Learn from each half, and ask the other with fixed weights and with what was learnt.

    Raises:
        InvalidInputError: there is no such data set, its data is malformed or of one conversation
            only, or a library of an extra is missing.

    """
    load_extra("commonbrain_learn", extra="learn")
    corpora = _read(request)
    rankings, halves = _Rankings(), list[TrainedHalf]()
    with TemporaryDirectory(prefix="commonbrain-eval-") as folder:
        full = Path(folder) / "full.db"
        memories = _fill(full, corpora, settings=settings, seed=request.seed)
        for number, half in enumerate((corpora[::2], corpora[1::2])):
            on_progress(1 - 2 * _AGENT_QUERY + _AGENT_QUERY * number)
            other_half = [corpus for corpus in corpora if corpus not in half]
            copied = _copy_store(full, Path(folder) / f"half-{number}.db")
            with _open_at_end(copied, corpora, settings=settings, seed=request.seed) as services:
                halves.append(
                    _half(services, half, other_half=other_half, request=request, rankings=rankings)
                )
    return Learning(
        dataset=request.dataset,
        seed=request.seed,
        noise=request.noise,
        memories=memories,
        halves=tuple(halves),
        comparison=_compare_rankings(rankings, seed=request.seed),
    )


def _read(request: LearnRequest) -> Sequence[Corpus]:
    dataset = get_dataset(request.dataset)
    corpora = list(dataset.read(dataset.files(request.path)))
    if len(corpora) < 2:  # noqa: PLR2004 one to learn from, one to ask
        raise InvalidInputError(
            f"{request.path.name} holds {len(corpora)} conversation; learning takes two at least.",
            hint="Give data with more of them.",
        )
    return corpora


def _fill(path: Path, corpora: Sequence[Corpus], *, settings: Settings, seed: int) -> int:
    """Store every conversation as a project, through the interface for imports."""
    stored = 0
    with _open_at_end(path, corpora, settings=settings, seed=seed) as services:
        for corpus in corpora:
            then = replace(services, clock=FrozenClock(corpus.ends_at))
            brain = Brain(then, Caller(agent=_AGENT, authority=Authority.PERSON))
            stored += brain.import_(corpus.name, path.parent).stored
    return stored


@contextmanager
def _open_at_end(
    path: Path, corpora: Sequence[Corpus], *, settings: Settings, seed: int
) -> Generator[Services]:
    """Open a store at the moment when everything of all conversations has been said."""
    clock = FrozenClock(max(corpus.ends_at for corpus in corpora))
    # What is remembered and what is asked draw from chances of their own.
    random_source = SeededRandom(seed if path.exists() else ~seed)
    built = build_services(settings, path, clock=clock, random_source=random_source)
    services = replace(built, importers=lambda: {corpus.name: corpus for corpus in corpora})
    with Brain(services, Caller(agent=_AGENT, authority=Authority.PERSON)):
        yield services


def _copy_store(full: Path, path: Path) -> Path:
    for suffix in ("", "-wal", "-shm"):
        source = full.with_name(full.name + suffix)
        if source.exists():
            shutil.copy(source, path.with_name(path.name + suffix))
    return path


def _half(
    services: Services,
    half: Sequence[Corpus],
    *,
    other_half: Sequence[Corpus],
    request: LearnRequest,
    rankings: _Rankings,
) -> TrainedHalf:
    """Let agents use one half, train, and ask the other half."""
    from commonbrain_learn.model_registry import TransitionOptions, models_of  # noqa: PLC0415

    recalls, marks, last = _simulate_use(services, half, request=request)
    brain = Brain(replace(services, clock=last), Caller(agent=_AGENT, authority=Authority.PERSON))
    job = brain.jobs.run(_KIND, {"min_marked": LESSONS_ASKED_MIN})
    Worker(services=brain.services, name=_AGENT, kinds=(_KIND,)).sweep()
    done = brain.jobs.show(job.id)
    result = done.result or {"outcome": done.error or str(done.state), "reason": done.reason}
    before = rankings.fallback_count
    importances: Mapping[str, float] = {}
    if result["outcome"] == "better":
        model = cast("str", result["model"])
        models_of(brain).canary(model, percent=100)
        # No traffic is left that weights order: whether it is better is what is asked here.
        models_of(brain).promote(
            model, move=TransitionOptions(is_forced=True, reason="The other half judges.")
        )
        training_summary = models_of(brain).show(model).models[0].told or {}
        importances = cast("Mapping[str, float]", training_summary["importances"])
    for corpus in other_half:
        _rank_both_ways(brain, corpus, rankings=rankings, is_served=bool(importances))
    return TrainedHalf(
        conversations=tuple(corpus.name for corpus in half),
        recalls=recalls,
        marks=marks,
        job=result,
        importances=importances,
        fallback_count=rankings.fallback_count - before,
    )


def _simulate_use(
    services: Services, half: Sequence[Corpus], *, request: LearnRequest
) -> tuple[int, int, FrozenClock]:
    """Ask all questions of a half in sessions; rate what is shown of their evidence."""
    random_source = random.Random(request.seed)  # noqa: S311 it is meant to be foreseen
    sessions = [of for corpus in half for of in _sessions(corpus, random_source=random_source)]
    random_source.shuffle(sessions)
    recalls = marks = 0
    clock = FrozenClock(services.clock.now())
    for number, (project, questions) in enumerate(sessions):
        clock = FrozenClock(clock.at + _CALL_INTERVAL)
        caller = Caller(agent=_AGENT, session=f"session-{number}", project=project)
        brain = Brain(replace(services, clock=clock), caller)
        for question in questions:
            result = brain.recall(question.text, project=project)
            services.journal.flush()
            recalls += 1
            shown = {item.id: item.source_ref for item in result.items}
            for id_ in _choose_ratings(
                shown, question, noise=request.noise, random_source=random_source
            ):
                brain.revise.rate(id_, "up")
                marks += 1
    return recalls, marks, FrozenClock(clock.at + _CALL_INTERVAL)


def _sessions(
    corpus: Corpus, *, random_source: random.Random
) -> Iterator[tuple[str, Sequence[Question]]]:
    questions = [question for question in corpus.questions if question.gold]
    random_source.shuffle(questions)
    for start in range(0, len(questions), _OF_A_SESSION):
        yield corpus.name, questions[start : start + _OF_A_SESSION]


def _choose_ratings(
    shown: Mapping[str, str | None],
    question: Question,
    *,
    noise: float,
    random_source: random.Random,
) -> Iterator[str]:
    """Yield what is rated of an answer: its evidence, and by mistake something else instead."""
    other_items = [id_ for id_, source in shown.items() if source not in question.gold]
    for id_, source in shown.items():
        if source in question.gold:
            is_mistaken = other_items and random_source.random() < noise
            yield random_source.choice(other_items) if is_mistaken else id_


def _rank_both_ways(brain: Brain, corpus: Corpus, *, rankings: _Rankings, is_served: bool) -> None:
    """Ask all questions of a conversation both ways; where nothing was learnt, one way is both."""
    fixed = Recall(brain.services, brain.caller, RetrievalOverrides(without=frozenset({RERANK})))
    served = Recall(brain.services, brain.caller)
    for question in corpus.questions:
        if not question.gold:
            continue
        rankings.questions.append(question)
        rankings.fixed[question.id], _ = _ranked(fixed, question, project=corpus.name)
        rankings.learnt[question.id] = rankings.fixed[question.id]
        if is_served:
            ranked, is_degraded = _ranked(served, question, project=corpus.name)
            rankings.learnt[question.id] = ranked
            rankings.fallback_count += is_degraded


def _ranked(recall: Recall, question: Question, *, project: str) -> tuple[Sequence[str], bool]:
    result = recall(
        question.text,
        project=project,
        max_items=DEPTH,
        max_tokens=RECALL_TOKENS_MAX,
        bump=False,
    )
    ranked = list(dict.fromkeys(item.source_ref or "" for item in result.items))
    return ranked, bool(result.degraded)


def _compare_rankings(rankings: _Rankings, *, seed: int) -> Comparison:
    """Compare both rankings of every question, by category."""
    gold = {question.id: dict(question.gold) for question in rankings.questions}
    return Comparison(
        system="recall, by fixed weights and by what was learnt",
        questions=len(gold),
        unshared_questions=0,
        unlike=(),
        rows=compare_values(
            {question.id: question.category for question in rankings.questions},
            before=measure(gold, rankings.fixed),
            after=measure(gold, rankings.learnt),
            metrics=METRICS,
            seed=seed,
        ),
    )


_DECISIVE: Final = "nDCG@10"
_HEADINGS: Final = 6
"""Features that are named, those that tell most."""


def show_learning(learning: Learning) -> None:
    """Print what learning changed."""
    console = Console(highlight=False)
    for line in learning_lines(learning):
        console.print(inert_line(line), markup=False)
    show_comparison(learning.comparison)
    console.print(unimproved_categories(learning), markup=False)


def learning_lines(learning: Learning) -> Iterator[str]:
    """Say what was learnt from."""
    yield (
        f"{learning.dataset}: {learning.memories} memories in one store, seed {learning.seed}, "
        f"{learning.noise:.0%} of the marks misplaced"
    )
    for number, half in enumerate(learning.halves, 1):
        yield from _of_half(number, half)


def _of_half(number: int, half: TrainedHalf) -> Iterator[str]:
    half_text = ", ".join(f"{name} {value}" for name, value in half.job.items())
    count = len(half.conversations)
    yield f"half {number}: {count} conversations, {half.recalls} recalls, {half.marks} marks"
    yield f"  the job: {half_text}"
    if half.importances:
        best = list(half.importances.items())[:_HEADINGS]
        yield "  it goes by " + ", ".join(f"{name} {importance:.0%}" for name, importance in best)
        yield f"  recalls of the other half that fixed weights ordered: {half.fallback_count}"
    else:
        yield "  nothing serves: the other half is asked with fixed weights both times"


def unimproved_categories(learning: Learning) -> str:
    """Name the categories in which it did not help beyond noise."""
    rows = [row for row in learning.comparison.rows if row.metric == _DECISIVE]
    names = [row.category for row in rows if row.category != ALL and row.difference.low <= 0]
    return f"No help beyond noise ({_DECISIVE}): {', '.join(names) or 'nowhere'}"
