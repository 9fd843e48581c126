"""What came of recalls: each summed up from the ledger, and many of them as figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, quantiles
from typing import Final

from commonbrain.domain.ledger import Entry, Mark, Weighed
from commonbrain.domain.query import TRUST_MIN_DEFAULT, LeftOut
from commonbrain.domain.recollection import Verdict

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
class Outcome:
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


def outcome_of(entry: Entry) -> Outcome:
    """Sum up one recall."""
    helped = {id_ for id_, marks in entry.marks.items() if marks & {Mark.USED, Mark.USEFUL}}
    misled = {id_ for id_, marks in entry.marks.items() if Mark.WRONG in marks}
    places = (place for place, id_ in enumerate(entry.packed, 1) if id_ in helped - misled)
    first = next(places, None)
    taken = entry.stages_ms
    rerank_ms = taken.get(RERANK, 0.0)
    # A process loads a model once, however many recalls it goes on to serve.
    total_ms = sum(taken.values()) - taken.get(LOAD, 0.0)
    # What all the rest of the same recall took tells a slow model from a busy machine.
    is_slow = rerank_ms > max(SLOW_MS, total_ms - rerank_ms)
    is_named = any(one.startswith(RERANKER) for one in entry.degraded)
    return Outcome(
        asked_at=entry.asked_at,
        who=entry.session or entry.agent,
        is_failed=is_named and (is_slow or rerank_ms <= SLOW_MS),
        is_unordered=is_named,
        is_unanswered=entry.verdict == Verdict.BELOW_THRESHOLD,
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
    allowed = [one for one in entry.considered if one.left_out != LeftOut.NOT_ALLOWED]
    if not any(BY_WEIGHTS in one.features for one in allowed):
        return 0
    packed = set(entry.packed)
    by_weights = sorted(allowed, key=_by_weights)[: len(packed)]
    shown = sum(_is_risky(one) for one in allowed if one.memory_id in packed)
    return shown - sum(map(_is_risky, by_weights))


def _by_weights(one: Weighed) -> tuple[float, float]:
    return -one.features.get("skill", 0.0), -one.features.get(BY_WEIGHTS, 0.0)


def _is_risky(one: Weighed) -> bool:
    """Say whether it is of low trust, contradicted, or rests on what has fallen."""
    told = one.features
    is_flagged = bool(told.get("needs_review") or told.get("contradicted"))
    return is_flagged or told.get("trust", 0.0) < TRUST_MIN_DEFAULT


def figures_of(outcomes: Sequence[Outcome]) -> Figures:
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
