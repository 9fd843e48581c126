"""Compare two embedding spaces by their answers to the same queries."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import fmean, median
from typing import Final

from commonbrain.model import ids
from commonbrain.model.errors import NotFoundError
from commonbrain.model.limits import (
    COMPARED_MAX,
    COMPARED_PAGE,
    COMPARED_PAGES_MAX,
    RECALL_TOKENS_MAX,
)
from commonbrain.model.query import Entry, FeedbackMark
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import Caller
from commonbrain.observability.interface import SILENT
from commonbrain.retrieval.service import Recall
from commonbrain.retrieval.write_behind import RecallLogPolicy, WriteBehindQueue
from commonbrain.services import Services
from commonbrain.storage.interface import EntryFilter
from commonbrain.storage.maintenance import Progress

TOP: Final = 10
"""Items compared of each answer; few agents read further."""
_RESAMPLES: Final = 1000
"""Enough for the ends of an interval to vary by less than 0.01."""
_TAIL: Final = 0.025
"""The probability outside either end of a 95% interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of one space to one query."""

    ids: tuple[int, ...]
    """Best first."""
    is_answered: bool
    """Whether the verdict was `found`."""
    took_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One query in both spaces, and the memories that helped the agent."""

    one: Answer
    other: Answer
    helped: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one space."""

    space: str
    mrr: float | None
    """Mean reciprocal rank of the first helpful memory; None without feedback."""
    unanswered: float
    """The share of queries without an answer."""
    median_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How another space would answer in place of the serving one."""

    questions: int
    marked: int
    """Queries with feedback."""
    serving: Figures
    other: Figures
    overlap: float
    """The mean share of the first ten that both return."""
    gain: tuple[float, float] | None
    """Bounds of the other space's gain in MRR at 95% confidence; None without feedback."""

    @property
    def better(self) -> str | None:
        """The space that ranks helpful memories higher; None if that is uncertain."""
        if self.gain is None or self.gain[0] <= 0 <= self.gain[1]:
            return None
        return self.other.space if self.gain[0] > 0 else self.serving.space


def overlap(one: Sequence[int], other: Sequence[int]) -> float:
    """Return the share of the first ten that two answers have in common; 1 if both are empty."""
    first, second = set(one[:TOP]), set(other[:TOP])
    longer = max(len(first), len(second))
    return len(first & second) / longer if longer else 1.0


def reciprocal_rank(ids: Sequence[int], helped: Collection[int]) -> float:
    """Return 1 / rank of the first helpful memory among the first ten; 0 if there is none."""
    ranks = (rank for rank, id_ in enumerate(ids[:TOP], 1) if id_ in helped)
    return 1 / next(ranks, float("inf"))


def compare(
    asked: Sequence[Compared], *, names: tuple[str, str], draw: Callable[[int], int]
) -> Comparison:
    """Summarize one or more queries to the serving space and another.

    Args:
        asked: the answers of both.
        names: the two spaces.
        draw: returns a uniform random number from 0 to one less than its argument.

    """
    marked = [one for one in asked if one.helped]
    ranks = [
        [reciprocal_rank(answer.ids, one.helped) for one, answer in zip(marked, own, strict=True)]
        for own in ([one.one for one in marked], [one.other for one in marked])
    ]
    gains = [after - before for before, after in zip(*ranks, strict=True)]
    return Comparison(
        questions=len(asked),
        marked=len(marked),
        serving=_figures(names[0], [one.one for one in asked], ranks=ranks[0]),
        other=_figures(names[1], [one.other for one in asked], ranks=ranks[1]),
        overlap=fmean(overlap(one.one.ids, one.other.ids) for one in asked),
        gain=interval(gains, draw=draw) if gains else None,
    )


def interval(values: Sequence[float], *, draw: Callable[[int], int]) -> tuple[float, float]:
    """Return the 95% bootstrap percentile interval of a mean (Efron 1979)."""
    count = len(values)
    means = sorted(fmean(values[draw(count)] for _ in values) for _ in range(_RESAMPLES))
    beyond = int(_RESAMPLES * _TAIL)
    return means[beyond], means[-1 - beyond]


def _figures(name: str, answers: Sequence[Answer], *, ranks: Sequence[float]) -> Figures:
    return Figures(
        space=name,
        mrr=fmean(ranks) if ranks else None,
        unanswered=fmean(not one.is_answered for one in answers),
        median_ms=median(one.took_ms for one in answers),
    )


_HELPED: Final = frozenset({FeedbackMark.USED, FeedbackMark.USEFUL})
LOOKBACK: Final = timedelta(days=30)
"""Older queries say less about future ones."""
_DRAWN_BITS: Final = 32
"""Enough bits that the remainder of a division by a few hundred is uniform."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A past query, and the memories that helped."""

    query: str
    agent: str
    helped: frozenset[int]


def compare_spaces(
    services: Services, other: Services, *, caller: Caller, on_progress: Progress
) -> Comparison:
    """Ask the latest logged queries in both embedding spaces.

    Raises:
        NotFoundError: the recall log has no query.
        UnavailableError: an embedder or the store does not answer.

    """
    questions = past_questions(services, caller)
    if not questions:
        raise NotFoundError(
            "The ledger holds no question that could be asked again.",
            hint="Use the store for a while with COMMONBRAIN_TRACE_SAMPLE_RATE above 0.",
        )
    done: list[Compared] = []
    for one in questions:
        as_asked = replace(caller, agent=one.agent)
        answers = [_answer(each, as_asked, query=one.query) for each in (services, other)]
        done.append(Compared(one=answers[0], other=answers[1], helped=one.helped))
        on_progress(len(done) / len(questions))
    return compare(
        done,
        names=(services.store.space.name, other.store.space.name),
        draw=lambda count: services.random_source.bits(_DRAWN_BITS) % count,
    )


def past_questions(services: Services, caller: Caller) -> list[Question]:
    """Return the latest queries of a tenant, each once, preferring those with feedback."""
    latest: dict[str, Question] = {}
    for entry in _entries(services, caller):
        # What helped once helps everyone with the same query.
        known = latest.pop(entry.query, None)
        helped = _helped(entry).union(known.helped if known else ())
        latest[entry.query] = Question(query=entry.query, agent=entry.agent, helped=helped)
    # A stable sort puts queries with feedback last, each group in order of age.
    by_worth = sorted(latest.values(), key=lambda one: bool(one.helped))
    return by_worth[-COMPARED_MAX:]


def _entries(services: Services, caller: Caller) -> Iterator[Entry]:
    """Read the recall log of the last weeks page by page."""
    criteria = EntryFilter(since=services.clock.now() - LOOKBACK)
    after = 0
    for _ in range(COMPARED_PAGES_MAX):
        with services.store.snapshot(caller.tenant) as tx:
            page = tx.recall_log.entries(criteria, after=after, limit=COMPARED_PAGE)
        yield from (one for one in page if one.query)
        if len(page) < COMPARED_PAGE:
            return
        after = page[-1].id


def _helped(entry: Entry) -> frozenset[int]:
    return frozenset(
        id_
        for id_, marks in entry.marks.items()
        if marks & _HELPED and FeedbackMark.WRONG not in marks
    )


def _answer(services: Services, caller: Caller, *, query: str) -> Answer:
    """Run a query without leaving a trace."""
    no_log = RecallLogPolicy(share=0.0)
    journal = WriteBehindQueue(services.store, services.screen, clock=services.clock, ledger=no_log)
    silent_services = replace(services, journal=journal, telemetry=SILENT)
    began_ms = services.clock.elapsed_ms()
    result = Recall(silent_services, caller)(
        query, max_items=TOP, max_tokens=RECALL_TOKENS_MAX, bump=False
    )
    return Answer(
        ids=tuple(ids.parse(ids.MEMORY, item.id) for item in result.items),
        is_answered=result.verdict is ResultStatus.FOUND,
        took_ms=services.clock.elapsed_ms() - began_ms,
    )
