"""Outcomes of recalls: one summary per trace, and figures over many."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, quantiles
from typing import Final

from commonbrain.model.model_card import CROSS_ENCODER, LOAD, RERANK, RERANKER
from commonbrain.model.query import (
    PROACTIVE,
    TRUST_MIN_DEFAULT,
    ExclusionReason,
    FeedbackMark,
    RankedCandidate,
    RecallLogEntry,
    ShownExtent,
)
from commonbrain.model.recall_result import ResultStatus

BY_WEIGHTS: Final = "fixed"
"""The feature that holds the score of fixed weights when a model ranks."""
SLOW_MS: Final = 20.0
"""Reranking above this is slow: the target for a whole recall is 25 ms at p95."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallOutcome:
    """Outcome of one recall."""

    asked_at: datetime
    who: str
    """The session, or the agent without one."""
    is_failed: bool
    """Whether the model failed although the machine was not busy."""
    is_unordered: bool
    """Whether the model did not answer, for any reason."""
    is_unanswered: bool
    is_marked: bool
    marks: int
    """1 if a result helped, minus 1 if a result misled."""
    reciprocal: float
    """1 / rank of the first result that helped; 0 without one."""
    is_slow: bool
    rerank_ms: float
    total_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures over recalls; None where there is no data."""

    recalls: int
    sessions: int
    marked: int
    failed: int
    marks: float | None
    """Share of recalls in which a result helped, minus the share in which one misled."""
    order: float | None
    """Mean reciprocal rank of the first result that helped, over recalls with feedback."""
    unanswered: float | None
    rerank_p95_ms: float | None
    recall_p95_ms: float | None


def outcome_of(entry: RecallLogEntry) -> RecallOutcome:
    """Summarize one recall."""
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
    # A process loads a model once, for all its recalls.
    total_ms = sum(taken.values()) - taken.get(LOAD, 0.0)
    # The duration of the other stages separates a slow model from a busy machine.
    is_slow = rerank_ms > max(SLOW_MS, total_ms - rerank_ms)
    is_named = any(one.startswith(RERANKER) for one in entry.degraded)
    return RecallOutcome(
        asked_at=entry.asked_at,
        who=entry.session or entry.agent,
        is_failed=is_named and (is_slow or rerank_ms <= SLOW_MS),
        is_unordered=is_named,
        is_unanswered=entry.status == ResultStatus.BELOW_THRESHOLD,
        is_marked=bool(entry.marks),
        marks=bool(first) - bool(misled),
        reciprocal=1 / first if first else 0.0,
        is_slow=is_slow,
        rerank_ms=rerank_ms,
        total_ms=total_ms,
    )


def riskier(entry: RecallLogEntry) -> int:
    """Count how many more untrusted memories a model returned than fixed weights would.

    Ranks the same candidates by the score of fixed weights and takes as many of them.
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
    """Whether a memory has low trust, is contradicted, or rests on an invalidated one."""
    features = one.features
    is_flagged = bool(features.get("needs_review") or features.get("contradicted"))
    return is_flagged or features.get("trust", 0.0) < TRUST_MIN_DEFAULT


def figures_of(outcomes: Sequence[RecallOutcome]) -> Figures:
    """Summarize recalls."""
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
"""Returned together with a marked memory, but not marked."""
WRONG: Final = 0
"""Misled, whatever else happened."""
GRADES: Final[Mapping[FeedbackMark, int]] = {
    FeedbackMark.USED: 2,
    FeedbackMark.USEFUL: 3,
    FeedbackMark.WRONG: WRONG,
}
"""Relevance grade by feedback: explicit feedback counts more than use."""
GOOD_FROM: Final = GRADES[FeedbackMark.USED]
_EXPLICIT: Final = frozenset({FeedbackMark.USEFUL, FeedbackMark.WRONG})
"""Feedback given explicitly, after seeing all results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMemory:
    """One memory that a recall returned: its features and its relevance grade."""

    memory_id: int
    features: Mapping[str, float]
    grade: int
    """0 to 3, higher is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingExample:
    """One recall with feedback: its results, graded."""

    trace_id: int
    asked_at: datetime
    group: str
    """The session; without one, the agent and the day."""
    shown: tuple[ShownMemory, ...]
    """Best first."""

    @property
    def has_good(self) -> bool:
        """Whether any result is relevant, so that rankings can be compared."""
        return any(one.grade >= GOOD_FROM for one in self.shown)


def training_example_of(entry: RecallLogEntry) -> TrainingExample | None:
    """Create a training example from a recall.

    None if the feedback does not separate its results.
    """
    packed = frozenset(entry.packed)
    shown = [one for one in entry.considered if one.memory_id in packed]
    is_read_marked = _is_read_marked(entry, shown)
    graded = tuple(
        ShownMemory(
            memory_id=one.memory_id, features=_model_features(one), grade=_grade(_marks(entry, one))
        )
        for one in shown
        if _marks(entry, one) or _is_judged(one, is_read_marked=is_read_marked)
    )
    if len({one.grade for one in graded}) < 2:  # noqa: PLR2004 one grade alone orders nothing
        return None
    return TrainingExample(
        trace_id=entry.id,
        asked_at=entry.asked_at,
        group=entry.session or f"{entry.agent} {entry.asked_at:%Y-%m-%d}",
        shown=graded,
    )


def _model_features(one: RankedCandidate) -> Mapping[str, float]:
    """Return the features for a model, without the scores that are computed after it."""
    later = {BY_WEIGHTS, CROSS_ENCODER, PROACTIVE}
    return {name: value for name, value in one.features.items() if name not in later}


def _marks(entry: RecallLogEntry, one: RankedCandidate) -> Collection[FeedbackMark]:
    return entry.marks.get(one.memory_id, frozenset())


def _is_judged(one: RankedCandidate, *, is_read_marked: bool) -> bool:
    """Whether the missing mark is informative: a bare id does not show the content."""
    if one.shown is ShownExtent.BARE:
        return False
    return is_read_marked or one.shown is not ShownExtent.WHOLE


def _is_read_marked(entry: RecallLogEntry, shown: Sequence[RankedCandidate]) -> bool:
    """Whether marks tell which results were read within the answer.

    Fetching a body leaves a mark; using a body shown in full leaves none. So fetched memories are
    only compared with results that showed as little.
    """
    return any(
        one.shown is ShownExtent.WHOLE or not _EXPLICIT.isdisjoint(marks)
        for one in shown
        if (marks := _marks(entry, one))
    )


def _grade(marks: Collection[FeedbackMark]) -> int:
    if FeedbackMark.WRONG in marks:
        return WRONG
    return max((GRADES[mark] for mark in marks), default=UNMARKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Examples split by time and by session: evaluation data is newer than all training data."""

    learnt: tuple[TrainingExample, ...]
    held: tuple[TrainingExample, ...]
    since: datetime
    """The time of the split."""


_ORIGINS: Final = (0.4, 0.6, 0.8)
"""Shares of the examples at which training stops and evaluation starts."""


def splits(lessons: Sequence[TrainingExample]) -> tuple[Split, ...]:
    """Split examples (oldest first) at three times; each is evaluated until the next.

    So each example after the first split is evaluated once, by a model of older ones (rolling
    origin; Tashman 2000). A session that spans a split is not used for training there.
    """
    if not lessons:
        return ()
    split_times = [lessons[int(len(lessons) * share)].asked_at for share in _ORIGINS]
    ends = [*split_times[1:], None]
    return tuple(
        _split(lessons, since=since, until=until)
        for since, until in zip(split_times, ends, strict=True)
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
