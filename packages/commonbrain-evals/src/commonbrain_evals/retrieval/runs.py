"""Running an evaluation: every chosen corpus in a fresh store, every chosen question asked."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from commonbrain.config import Settings
from commonbrain.model.errors import InvalidInputError
from commonbrain.retrieval.plan import RetrievalOverrides
from commonbrain.runtime.models import make_embedder
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain_evals.retrieval.ablation import GROUPS, PARTS, parts_of
from commonbrain_evals.retrieval.corpora import Corpus, Form
from commonbrain_evals.retrieval.datasets import Sample, choose, get_dataset
from commonbrain_evals.retrieval.eval_store import REPETITION, open_eval_store
from commonbrain_evals.retrieval.question_runner import QuestionRunner
from commonbrain_evals.retrieval.record import Run, Setup, Times, commit, digest, machine
from commonbrain_evals.retrieval.study import Recipe, shapes
from commonbrain_evals.retrieval.summary import Harvest, latencies, summarize

_RELEVANT_SETTINGS = (
    "embedder",
    "embedder_model",
    "similar_threshold",
    "relevance_threshold",
    "answer_threshold",
    "secrets",
)
"""The settings that decide what is found."""

_FILL_SHARE: Final = 0.25
_SHAPES_SHARE: Final = 0.25
"""About the shares of a corpus's time that filling its store and the study's shapes take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRequest:
    """What is to be run, and how much of it."""

    dataset: str
    path: Path
    seed: int = 0
    questions: int | None = None
    conversations: int | None = None
    without: tuple[str, ...] = ()
    """Parts of recall to leave out throughout."""
    form: Form = Form.MESSAGES
    """How the turns of conversations come into the store."""
    ablates: bool = False
    """Whether each part is left out once, to see what it is worth."""


def run(
    request: EvalRequest, *, settings: Settings, on_progress: Progress = ignore_progress
) -> Run:
    """Run one evaluation in stores of its own; the user's store is not opened.

    Raises:
        InvalidInputError: there is no such data set or part, the data is missing or malformed, or a
            library of the extra is.

    """
    dataset = get_dataset(request.dataset)
    check_parts(request.without, notes=request.form is not Form.MESSAGES)
    files = dataset.files(request.path)
    started, started_ms = datetime.now(UTC), time.perf_counter()
    sample = choose(
        {corpus.name: corpus.questions for corpus in dataset.read(files)},
        questions=request.questions,
        conversations=request.conversations,
        seed=request.seed,
    )
    context = _RunContext(
        request=request,
        sample=sample,
        recipes=dataset.recipes,
        settings=settings,
        on_progress=on_progress,
    )
    harvest = Harvest()
    for corpus in dataset.read(files):
        if corpus.name in sample.own:
            _ask_corpus(context, corpus, harvest=harvest)
    return Run(
        version=version("commonbrain"),
        commit=commit(),
        setup=_setup(request, files, settings=settings),
        machine=machine(),
        times=Times(
            started_at=started.isoformat(timespec="seconds"),
            took_s=round(time.perf_counter() - started_ms, 1),
            memories_per_s=round(harvest.memories / max(harvest.seconds, 1e-6), 1),
            latency_ms=latencies(harvest.answers),
        ),
        corpora=len(sample.own),
        memories=harvest.memories,
        refused=harvest.refused,
        skipped=sample.skipped,
        **summarize(harvest, seed=request.seed, parts=ablated(request)),
    )


def check_parts(names: Sequence[str], *, notes: bool) -> None:
    """Check the names of what is left out; what is given to `remember` has a part more.

    Raises:
        InvalidInputError: there is no such part.

    """
    parts = (*PARTS, REPETITION) if notes else PARTS
    unknown = [name for name in names if name not in parts]
    if unknown:
        raise InvalidInputError(
            f"There is no part {unknown[0][:40]!r} here.", hint=f"Choose of {', '.join(parts)}."
        )


def ablated(request: EvalRequest) -> tuple[str, ...]:
    """Return the parts and groups of parts that are left out in turn."""
    if not request.ablates:
        return ()
    names = (*PARTS, *GROUPS)
    return tuple(name for name in names if not parts_of(name) <= set(request.without))


def _setup(request: EvalRequest, files: Sequence[Path], *, settings: Settings) -> Setup:
    return Setup(
        dataset=request.dataset,
        source=request.path.name,
        sha256=digest(files),
        seed=request.seed,
        questions=request.questions,
        conversations=request.conversations,
        without=request.without,
        form=request.form,
        space=make_embedder(settings).space.name,
        settings={name: getattr(settings, name) for name in _RELEVANT_SETTINGS},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunContext:
    """The inputs of a run that are the same for every corpus."""

    request: EvalRequest
    sample: Sample
    recipes: Mapping[str, Recipe]
    settings: Settings
    on_progress: Progress


def _ask_corpus(context: _RunContext, corpus: Corpus, *, harvest: Harvest) -> None:
    """Fill a store with one corpus and ask all questions of it."""
    request, questions = context.request, context.sample.own[corpus.name]
    done, total = len(harvest.answers), sum(map(len, context.sample.own.values()))

    def move(fraction: float) -> None:
        context.on_progress((done + fraction * len(questions)) / total)

    with open_eval_store(
        corpus,
        settings=context.settings,
        seed=request.seed,
        form=request.form,
        without=request.without,
    ) as eval_store:
        harvest.take(eval_store)
        move(_FILL_SHARE)
        runner = QuestionRunner(
            eval_store=eval_store,
            overrides=RetrievalOverrides(without=frozenset(request.without)),
            # Indexed and embedded once, before anything is timed.
            shapes=shapes(
                eval_store.memories,
                eval_store.services.embedder,
                has_context=any(recipe.has_context for recipe in context.recipes.values()),
                on_progress=lambda fraction: move(_FILL_SHARE + _SHAPES_SHARE * fraction),
            ),
            recipes=context.recipes,
            history_tokens=eval_store.history_tokens(),
            last_session=eval_store.last_session(),
            ablated=ablated(request),
        )
        # What is loaded by the first question is not part of the latency of any.
        runner.abstains(questions[0])
        start = _FILL_SHARE + _SHAPES_SHARE
        for number, question in enumerate(questions, 1):
            harvest.answers.append(runner.ask(question))
            move(start + (1 - start) * number / len(questions))
        harvest.foreign += map(runner.abstains, context.sample.foreign[corpus.name])
