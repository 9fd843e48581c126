"""What came of recalls: each summed up from the ledger, and many of them as figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, quantiles
from typing import Final

from commonbrain.model.query import (
    TRUST_MIN_DEFAULT,
    Entry,
    ExclusionReason,
    FeedbackMark,
    RankedCandidate,
    ShownExtent,
)
from commonbrain.model.recall_result import ResultStatus

RERANK: Final = "rerank"
"""The stage in which a model orders candidates."""
LOAD: Final = "load"
"""The stage in which the first recall of a process waits for a model to be loaded."""
RERANKER: Final = "reranker"
"""Begins what a degraded answer says of the model."""
BY_WEIGHTS: Final = "fixed"
"""The feature that holds what fixed weights gave, where a model orders."""
SLOW_MS: Final = 20.0
"""What ordering may take before it is slow: the promise for a whole recall is 25 at p95."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOutcome:
    """What came of one recall."""

    asked_at: datetime
    who: str
    """The session it was asked in, or the agent where there was none."""
    is_failed: bool
    """Whether the model did not answer, and the machine was not merely busy."""
    is_unordered: bool
    """Whether it did not answer, whatever kept it."""
    is_unanswered: bool
    is_marked: bool
    marks: int
    """1 where something of it helped, less 1 where something misled."""
    reciprocal: float
    """1 over the place of the first that helped; 0 where none did."""
    is_slow: bool
    rerank_ms: float
    total_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Recalls summed up, for people; None where there is nothing to sum up."""

    recalls: int
    sessions: int
    marked: int
    failed: int
    marks: float | None
    """The share in which something helped, less that in which something misled."""
    order: float | None
    """The mean of 1 over the place of the first that helped, over the marked."""
    unanswered: float | None
    rerank_p95_ms: float | None
    recall_p95_ms: float | None


def outcome_of(entry: Entry) -> RecallOutcome:
    """Sum up one recall."""
    helped = {
        id_
        for id_, marks in entry.marks.items()
        if marks & {FeedbackMark.USED, FeedbackMark.USEFUL}
    }
    misled = {id_ for id_, marks in entry.marks.items() if FeedbackMark.WRONG in marks}
    places = (place for place, id_ in enumerate(entry.packed, 1) if id_ in helped - misled)
    first = next(places, None)
    taken = entry.stages_ms
    rerank_ms = taken.get(RERANK, 0.0)
    # A process loads a model once, however many recalls it goes on to serve.
    total_ms = sum(taken.values()) - taken.get(LOAD, 0.0)
    # What all the rest of the same recall took tells a slow model from a busy machine.
    is_slow = rerank_ms > max(SLOW_MS, total_ms - rerank_ms)
    is_named = any(one.startswith(RERANKER) for one in entry.degraded)
    return RecallOutcome(
        asked_at=entry.asked_at,
        who=entry.session or entry.agent,
        is_failed=is_named and (is_slow or rerank_ms <= SLOW_MS),
        is_unordered=is_named,
        is_unanswered=entry.verdict == ResultStatus.BELOW_THRESHOLD,
        is_marked=bool(entry.marks),
        marks=bool(first) - bool(misled),
        reciprocal=1 / first if first else 0.0,
        is_slow=is_slow,
        rerank_ms=rerank_ms,
        total_ms=total_ms,
    )


def riskier(entry: Entry) -> int:
    """Count how many more a model shows that should not be trusted than fixed weights would.

    The same candidates are put in the order that fixed weights gave them, and as many of them
    taken as were shown.
    """
    allowed = [one for one in entry.considered if one.left_out != ExclusionReason.NOT_ALLOWED]
    if not any(BY_WEIGHTS in one.features for one in allowed):
        return 0
    packed = set(entry.packed)
    by_weights = sorted(allowed, key=_by_weights)[: len(packed)]
    shown = sum(_is_risky(one) for one in allowed if one.memory_id in packed)
    return shown - sum(map(_is_risky, by_weights))


def _by_weights(one: RankedCandidate) -> tuple[float, float]:
    return -one.features.get("skill", 0.0), -one.features.get(BY_WEIGHTS, 0.0)


def _is_risky(one: RankedCandidate) -> bool:
    """Say whether it is of low trust, contradicted, or rests on what has fallen."""
    told = one.features
    is_flagged = bool(told.get("needs_review") or told.get("contradicted"))
    return is_flagged or told.get("trust", 0.0) < TRUST_MIN_DEFAULT


def figures_of(outcomes: Sequence[RecallOutcome]) -> Figures:
    """Sum up recalls."""
    marked = [one.reciprocal for one in outcomes if one.is_marked]
    return Figures(
        recalls=len(outcomes),
        sessions=len({one.who for one in outcomes}),
        marked=len(marked),
        failed=sum(one.is_failed for one in outcomes),
        marks=_mean([one.marks for one in outcomes]),
        order=_mean(marked),
        unanswered=_mean([one.is_unanswered for one in outcomes]),
        rerank_p95_ms=_p95([one.rerank_ms for one in outcomes]),
        recall_p95_ms=_p95([one.total_ms for one in outcomes]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def _p95(values: Sequence[float]) -> float | None:
    if len(values) < 2:  # noqa: PLR2004 one is its own
        return values[0] if values else None
    return quantiles(values, n=20, method="inclusive")[-1]


UNMARKED: Final = 1
"""Shown beside something that was marked, and left."""
WRONG: Final = 0
"""It misled, whatever else was done with it."""
GRADES: Final[Mapping[FeedbackMark, int]] = {
    FeedbackMark.USED: 2,
    FeedbackMark.USEFUL: 3,
    FeedbackMark.WRONG: WRONG,
}
"""How good an answer each mark says it was: what somebody said tells more than what was done."""
GOOD_FROM: Final = GRADES[FeedbackMark.USED]
_SAID: Final = frozenset({FeedbackMark.USEFUL, FeedbackMark.WRONG})
"""Marks that somebody set, having seen all that was shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One memory that a recall packed: what was known of it, and how good it turned out to be."""

    memory_id: int
    features: Mapping[str, float]
    grade: int
    """0 to 3, the best highest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingExample:
    """One recall of which something is known: what it packed, each graded."""

    trace_id: int
    asked_at: datetime
    group: str
    """The session it was asked in; without one, the agent and the day."""
    shown: tuple[Shown, ...]
    """As they were ordered, best first."""

    @property
    def has_good(self) -> bool:
        """Whether anything of it was good, so that an order can be judged by it."""
        return any(one.grade >= GOOD_FROM for one in self.shown)


def training_example_of(entry: Entry) -> TrainingExample | None:
    """Read a lesson from a recall; None where what it showed is not told apart by its marks."""
    packed = frozenset(entry.packed)
    shown = [one for one in entry.considered if one.memory_id in packed]
    tells_of_read = _tells_of_read(entry, shown)
    graded = tuple(
        Shown(memory_id=one.memory_id, features=_known(one), grade=_grade(_marks(entry, one)))
        for one in shown
        if _marks(entry, one) or _is_judged(one, tells_of_read=tells_of_read)
    )
    if len({one.grade for one in graded}) < 2:  # noqa: PLR2004 one grade alone orders nothing
        return None
    return TrainingExample(
        trace_id=entry.id,
        asked_at=entry.asked_at,
        group=entry.session or f"{entry.agent} {entry.asked_at:%Y-%m-%d}",
        shown=graded,
    )


def _known(one: RankedCandidate) -> Mapping[str, float]:
    """Give what a model would be told; the score that it took the place of is not."""
    return {name: value for name, value in one.features.items() if name != BY_WEIGHTS}


def _marks(entry: Entry, one: RankedCandidate) -> Collection[FeedbackMark]:
    return entry.marks.get(one.memory_id, frozenset())


def _is_judged(one: RankedCandidate, *, tells_of_read: bool) -> bool:
    """Say whether that it was left tells anything: of a bare id nobody knows what it holds."""
    if one.shown is ShownExtent.BARE:
        return False
    return tells_of_read or one.shown is not ShownExtent.WHOLE


def _tells_of_read(entry: Entry, shown: Sequence[RankedCandidate]) -> bool:
    """Say whether the marks tell anything of what was read within the answer itself.

    Who fetches a body leaves a mark; who was shown the whole of it uses it and leaves none. So a
    memory that was merely fetched is held against those of which as little was shown.
    """
    return any(
        one.shown is ShownExtent.WHOLE or not _SAID.isdisjoint(marks)
        for one in shown
        if (marks := _marks(entry, one))
    )


def _grade(marks: Collection[FeedbackMark]) -> int:
    if FeedbackMark.WRONG in marks:
        return WRONG
    return max((GRADES[mark] for mark in marks), default=UNMARKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Lessons parted by time and by session: what is judged is newer than all that is learnt."""

    learnt: tuple[TrainingExample, ...]
    held: tuple[TrainingExample, ...]
    since: datetime
    """Where one part ends and the other begins."""


_ORIGINS: Final = (0.4, 0.6, 0.8)
"""After these shares of the lessons it is asked how what was learnt until then fares next."""


def splits(lessons: Sequence[TrainingExample]) -> tuple[Split, ...]:
    """Part lessons, the oldest first, at three moments, each judged on until the next.

    So each lesson past the first moment is judged once, by what knew only older ones (rolling
    origin; Tashman 2000). A session that goes on past a moment is no part of what is learnt there.
    """
    if not lessons:
        return ()
    moments = [lessons[int(len(lessons) * share)].asked_at for share in _ORIGINS]
    ends = [*moments[1:], None]
    return tuple(
        _split(lessons, since=since, until=until)
        for since, until in zip(moments, ends, strict=True)
    )


def _split(lessons: Sequence[TrainingExample], *, since: datetime, until: datetime | None) -> Split:
    late = {lesson.group for lesson in lessons if lesson.asked_at >= since}
    return Split(
        learnt=tuple(one for one in lessons if one.group not in late),
        held=tuple(
            one
            for one in lessons
            if one.asked_at >= since and (until is None or one.asked_at < until)
        ),
        since=since,
    )
