"""What episodes keep of the evidence of questions, and what recall gains or loses by them.

Every corpus is reflected on as the job does it. A question's evidence is kept as far as the words
of its turns are in the episode that is made of them; chance and first sentences, the plain ways to
choose, have the same turns and the same tokens. Then the same questions are asked of the store
before and after, at equal budgets of tokens. An episode shows evidence if it has the clause that is
nearest to the question.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.jobs.worker import Worker
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import (
    RECALL_TOKENS_DEFAULT,
    RECALL_TOKENS_MAX,
    REFLECT_HOURS_MAX,
)
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Memory
from commonbrain.model.recall_result import RecallResult
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.text.reports import clauses_of, read_content, without_lead
from commonbrain.text.segmentation import pieces
from commonbrain.text.tokens import estimate
from commonbrain_evals.measures import Estimate, estimate_mean
from commonbrain_evals.reflection import BUDGETS
from commonbrain_evals.retrieval.corpora import Question
from commonbrain_evals.retrieval.datasets import choose, get_dataset
from commonbrain_evals.retrieval.eval_store import EvalStore, open_eval_store
from commonbrain_evals.retrieval.runs import EvalRequest

_FIRST: Final = 10
_REFLECTED: Final = 0.4
"""About the share of a corpus's time that filling its store and reflecting on it take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodesReport:
    """What came out, over all questions that name their evidence."""

    corpora: int
    questions: int
    memories: int
    episodes: int
    candidates: int
    tokens_of_sources: int
    tokens_of_episodes: int
    covered: Estimate
    """Questions all of whose evidence is among the sources of episodes."""
    kept: Mapping[str, Estimate]
    """The share of the words of the evidence that the text keeps, by how it was chosen."""
    whole: Mapping[str, Estimate]
    """The share of the evidence whose sentence nearest to the question it contains."""
    gained: Mapping[str, Estimate]
    """What episodes keep more than each plain choice, question by question."""
    recalled: Mapping[str, Estimate]
    """Before and after, and what changed, by what is counted."""


@dataclass(slots=True, kw_only=True)
class _EpisodeTally:
    """One row a question of everything that is measured."""

    rows: dict[str, list[float]] = field(default_factory=dict[str, "list[float]"])
    corpora: int = 0
    memories: int = 0
    episodes: int = 0
    candidates: int = 0
    of_sources: int = 0
    of_episodes: int = 0

    def add(self, name: str, value: float) -> None:
        """Note what one question came to."""
        self.rows.setdefault(name, []).append(value)

    def estimate(self, name: str, *, seed: int) -> Estimate:
        """Return the mean of what all questions came to."""
        return estimate_mean(self.rows[name], seed=seed)

    def change(self, name: str, *, since: str, seed: int) -> Estimate:
        """Return by how much questions came to more."""
        pairs = zip(self.rows[name], self.rows[since], strict=True)
        return estimate_mean([one - other for one, other in pairs], seed=seed)


def evaluate(
    request: EvalRequest, *, settings: Settings, on_progress: Progress = ignore_progress
) -> EpisodesReport:
    """Reflect on public data in stores of its own; the user's store is not opened.

    Raises:
        InvalidInputError: there is no such data set, the data is missing or malformed, or a library
            of the extra is.

    """
    dataset = get_dataset(request.dataset)
    files = dataset.files(request.path)
    sample = choose(
        {corpus.name: corpus.questions for corpus in dataset.read(files)},
        questions=request.questions,
        conversations=request.conversations,
        seed=request.seed,
    )
    tally, done = _EpisodeTally(), 0
    for corpus in dataset.read(files):
        own = [one for one in sample.own.get(corpus.name, ()) if one.gold and one.is_answerable]
        if not own:
            continue
        with open_eval_store(corpus, settings=settings, seed=request.seed) as eval_store:
            _visit(eval_store, own, tally=tally, seed=request.seed)
        done += 1
        on_progress(done / len(sample.own))
    if not tally.corpora:
        raise InvalidInputError(
            "There is no question that names its evidence.", hint="Give other data."
        )
    return _report(tally, seed=request.seed)


def _visit(
    eval_store: EvalStore, questions: Sequence[Question], *, tally: _EpisodeTally, seed: int
) -> None:
    """Ask one store before it is reflected on, reflect, and ask it again."""
    before = [_recalled(eval_store, question, made={}) for question in questions]
    _reflect(eval_store.brain)
    made = _episodes(eval_store)
    tally.corpora += 1
    tally.memories += len(eval_store.memories)
    tally.episodes += len(made)
    tally.candidates += len(eval_store.brain.review("proposals", limit=100).proposals)
    tally.of_episodes += sum(estimate(one.text) for one, _ in made.values())
    tally.of_sources += sum(
        estimate(eval_store.memories[id_].text) for _, of in made.values() for id_ in of
    )
    texts = {
        "episodes": {id_: one.text for id_, (one, _) in made.items()},
        "chance": _chosen(eval_store, made, order=partial(_shuffle, seed=seed)),
        "first sentences": _chosen(eval_store, made, order=list),
    }
    by_source = {eval_store.source(id_): id_ for id_ in eval_store.memories}
    of_episode = {source: id_ for id_, (_, of) in made.items() for source in of}
    for question, recalled_before in zip(questions, before, strict=True):
        gold = [by_source[one] for one in question.gold if one in by_source]
        tally.add("covered", float(bool(gold) and all(one in of_episode for one in gold)))
        for name, chosen in texts.items():
            held = [
                (eval_store.memories[one].text, chosen.get(of_episode.get(one, 0), ""))
                for one in gold
            ]
            tally.add(name, _mean(_content_share(text, stored) for text, stored in held))
            answering = [
                (_answering_sentence(text, question.text), stored) for text, stored in held
            ]
            tally.add(
                f"{name}, whole",
                _mean(float(_has_clause(stored, one)) for one, stored in answering),
            )
        for name, value in recalled_before.items():
            tally.add(f"before, {name}", value)
        for name, value in _recalled(eval_store, question, made=made).items():
            tally.add(f"after, {name}", value)


def _reflect(brain: Brain) -> None:
    job = brain.jobs.run("reflect", {"window_hours": REFLECT_HOURS_MAX, "max_candidates": 32})
    Worker(services=brain.services, name="evaluation").sweep()
    done = brain.jobs.show(job.id)
    if done.state != "done":
        raise InvalidInputError(f"The reflection ended {done.state}: {done.reason}.")


Made = Mapping[int, tuple[Memory, Sequence[int]]]
"""Episodes by their ids, each with its sources in their order."""


def _episodes(eval_store: EvalStore) -> Made:
    brain = eval_store.brain
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        links = tx.links.touching(list(eval_store.memories), types=[LinkType.DERIVED_FROM])
        known = tx.memories.get(sorted({link.from_id for link in links}))
    sources: dict[int, list[int]] = {}
    for link in sorted(links, key=lambda one: one.to_id):
        if link.from_id in known and known[link.from_id].kind is Kind.EPISODE:
            sources.setdefault(link.from_id, []).append(link.to_id)
    return {
        id_: (known[id_], sorted(of, key=lambda one: (eval_store.memories[one].occurred_at, one)))
        for id_, of in sources.items()
    }


def _chosen(
    eval_store: EvalStore, made: Made, *, order: Callable[[list[str]], list[str]]
) -> Mapping[int, str]:
    """Return as many tokens of the same sources as each episode has, chosen in another order."""
    texts: dict[int, str] = {}
    for id_, (episode, of) in made.items():
        budget, sentences_chosen = estimate(episode.text), list[str]()
        for sentence in order(list(_by_turn(eval_store.memories[one] for one in of))):
            cost = estimate(sentence) + 1
            if cost <= budget:
                sentences_chosen.append(sentence)
                budget -= cost
        texts[id_] = "\n".join(sentences_chosen)
    return texts


def _by_turn(memories: Iterable[Memory]) -> Iterable[str]:
    """Yield the first sentence of every text, then the second of each, and so on."""
    every = [[memory.text[start:end] for start, end in pieces(memory.text)] for memory in memories]
    for place in range(max(map(len, every), default=0)):
        yield from (of[place] for of in every if place < len(of))


def _shuffle(sentences: list[str], *, seed: int) -> list[str]:
    random_source = random.Random(seed)  # noqa: S311 it is meant to be foreseen
    return random_source.sample(sentences, len(sentences))


def _content_share(text: str, within: str) -> float:
    """Return the share of the content words of a text that another contains."""
    words = read_content(text).all
    return len(words & read_content(within).all) / len(words) if words else 0.0


def _answering_sentence(text: str, question: str) -> str:
    """Return the longest sentence of those that share most words with a question."""
    terms = read_content(question).all

    def shared(sentence: str) -> tuple[int, int]:
        return len(terms & read_content(sentence).all), len(sentence)

    return max((text[start:end] for start, end in pieces(text)), key=shared, default=text)


def _has_clause(kept: str, sentence: str) -> bool:
    """Return whether a text has a clause of a sentence, without its opening and final mark."""
    return any(without_lead(clause) in kept for clause in clauses_of(sentence))


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / max(len(listed), 1)


def _recalled(eval_store: EvalStore, question: Question, *, made: Made) -> Mapping[str, float]:
    """Return whether all evidence is recalled: by itself, or by an episode that is made of it."""
    brain = eval_store.brain
    if question.asked_at is not None:
        brain = eval_store.at(question.asked_at)
    gold = set(question.gold)
    ranked = brain.recall(question.text, max_items=_FIRST, max_tokens=RECALL_TOKENS_MAX, bump=False)
    alone, through_episodes = _sources(eval_store, ranked, question=question, made=made)
    rates = {
        f"R@{_FIRST} all": float(gold <= alone),
        f"R@{_FIRST} all, or by an episode": float(gold <= alone | through_episodes),
    }
    for budget in (*BUDGETS, RECALL_TOKENS_DEFAULT):
        served = brain.recall(question.text, max_tokens=budget, bump=False)
        packed, by_episodes = _sources(eval_store, served, question=question, made=made)
        rates[f"shown in {budget} tokens"] = float(gold <= packed | by_episodes)
    return rates


def _sources(
    eval_store: EvalStore, result: RecallResult, *, question: Question, made: Made
) -> tuple[set[str], set[str]]:
    """Return what was recalled itself, and what episodes among it say of their sources."""
    own: set[str] = set()
    by_episodes: set[str] = set()
    for item in result.items:
        id_ = ids.parse(ids.MEMORY, item.id)
        if not (item.body or item.excerpt):
            continue
        if id_ in eval_store.memories:
            own.add(eval_store.source(id_))
        for source in made[id_][1] if id_ in made else ():
            sentence = _answering_sentence(eval_store.memories[source].text, question.text)
            if _has_clause(item.shown_text, sentence):
                by_episodes.add(eval_store.source(source))
    return own, by_episodes


def _report(tally: _EpisodeTally, *, seed: int) -> EpisodesReport:
    plain = ("chance", "first sentences")
    counted = [name.removeprefix("before, ") for name in tally.rows if name.startswith("before, ")]
    recalled: dict[str, Estimate] = {}
    for name in counted:
        recalled[f"before, {name}"] = tally.estimate(f"before, {name}", seed=seed)
        recalled[f"after, {name}"] = tally.estimate(f"after, {name}", seed=seed)
        recalled[f"change, {name}"] = tally.change(
            f"after, {name}", since=f"before, {name}", seed=seed
        )
    return EpisodesReport(
        corpora=tally.corpora,
        questions=len(tally.rows["covered"]),
        memories=tally.memories,
        episodes=tally.episodes,
        candidates=tally.candidates,
        tokens_of_sources=tally.of_sources,
        tokens_of_episodes=tally.of_episodes,
        covered=tally.estimate("covered", seed=seed),
        kept={name: tally.estimate(name, seed=seed) for name in ("episodes", *plain)},
        whole={name: tally.estimate(f"{name}, whole", seed=seed) for name in ("episodes", *plain)},
        gained={name: tally.change("episodes", since=name, seed=seed) for name in plain},
        recalled=recalled,
    )


def show_episodes(report: EpisodesReport) -> None:
    """Print a report."""
    console = Console(highlight=False)
    fraction = report.tokens_of_episodes / max(report.tokens_of_sources, 1)
    console.print(
        f"{report.corpora} stores, {report.memories:,} memories, {report.questions:,} questions: "
        f"{report.episodes:,} episodes that take {fraction:.0%} of the tokens of their sources, "
        f"{report.candidates:,} proposals",
        markup=False,
    )
    table = Table(box=box.SIMPLE)
    for name in ("what", "mean", "95%"):
        table.add_column(name)
    rows = [
        ("all evidence is among the sources of episodes", report.covered),
        *((f"words of the evidence kept: {name}", one) for name, one in report.kept.items()),
        *((f"answering sentences kept: {name}", one) for name, one in report.whole.items()),
        *((f"words kept more than by {name}", one) for name, one in report.gained.items()),
        *report.recalled.items(),
    ]
    for name, one in rows:
        table.add_row(name, f"{one.mean:.1%}", f"{one.low:.1%} to {one.high:.1%}")
    console.print(table)
