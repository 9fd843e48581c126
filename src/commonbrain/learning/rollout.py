"""How a model that serves is judged: by what came of its recalls, beside those of a control.

What fails, is slow or shows what should not be trusted is told by a handful of recalls. Whether
answers are worse takes many: they are compared by sessions, for it is sessions that a canary was
drawn from, and at doublings of the traffic alone, each with its share of the error allowed, so
that looking often finds no more than looking once. docs/explanation/learning.md tells more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Protocol

from commonbrain.learning.outcomes import SLOW_MS, RecallOutcome

RECENT: Final = 20
"""The latest recalls, in which failing and being slow are counted."""
BAD_MAX: Final = 5
"""So many of the latest that failed, or were slow, are too many."""
UNORDERED_MAX: Final = 15
"""So many of the latest without an answer are too many, however busy the machine may be.

Where the rest of a recall takes long by itself, nothing else tells a model that never answers.
"""
RISKS_MAX: Final = 50
"""The latest recalls in which is counted what should not be trusted."""
RISKIER_MIN: Final = 5
_RISKIER_BY_CHANCE: Final = 0.005
"""How seldom chance alone may look so; it is asked often, over a window that moves on."""
WINDOW: Final = 500
"""Recalls of each side that are compared at most, the latest."""
RECALLS_MIN: Final = 50
"""Of each side, before answers are compared at all."""
SESSIONS_MIN: Final = 10
PROMOTED_RECALLS_MIN: Final = 200
"""Of the canary, before it may take the place of what serves."""
PROMOTED_SESSIONS_MIN: Final = 20
PROMOTED_MARKED_MIN: Final = 30
"""Recalls of each side of which anybody said or did anything."""
_ERROR: Final = 0.05
"""How often all looks together may take a model for worse that is not, for each measure."""
MARGIN: Final = 0.1
"""How much worse a promoted model may still be, for all that is known, in marks and in order."""
SLOWER_MAX: Final = 0.25
"""The share by which whole recalls may take longer than those of the control."""


class Statistics(Protocol):
    """What is asked of a library of statistics; the same figures give the same answer."""

    def difference(
        self, ones: Sequence[float], others: Sequence[float], *, confidence: float
    ) -> Interval:
        """Say where the mean of ones lies above that of others."""
        ...

    def chance(self, more: int, fewer: int) -> float:
        """Say how probable it is that so many of them or more are by chance `more`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A difference, and between what it lies."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a model is judged by, the latest first."""

    served: Sequence[RecallOutcome]
    """Since it came into its state."""
    control: Sequence[RecallOutcome]
    """Of what serves the other sessions meanwhile; for an active model, its own before that."""
    risks: Sequence[int]
    """How many more than fixed weights would, the model shows that should not be trusted."""
    is_canary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepCanary:
    """It goes on as it is."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEnoughTraffic:
    """Nothing speaks against it yet, and answers cannot be compared: what is lacking."""

    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promote:
    """It is not worse, on enough traffic."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBack:
    """It is to serve no more."""

    guard: str
    reason: str


Verdict = KeepCanary | NotEnoughTraffic | Promote | RollBack


def judge_canary(evidence: Evidence, statistics: Statistics) -> Verdict:
    """Say what is to become of a model; what is unsafe or fails does not wait for traffic."""
    for name, finds in SWIFT.items():
        reason = finds(evidence, statistics)
        if reason is not None:
            return RollBack(guard=name, reason=reason)
    compared = _compared(evidence)
    if isinstance(compared, NotEnoughTraffic):
        return compared
    for name, sees in SETTLED.items():
        reason = sees(compared, statistics)
        if reason is not None:
            return RollBack(guard=name, reason=reason)
    return (
        _promoted(evidence, statistics)
        if evidence.is_canary
        else KeepCanary(reason="No guard objects.")
    )


def _errors(evidence: Evidence, _: Statistics) -> str | None:
    recent = evidence.served[:RECENT]
    failed = sum(one.is_failed for one in recent)
    if failed >= BAD_MAX:
        return f"{failed} of the last {len(recent)} recalls failed"
    unordered = sum(one.is_unordered for one in recent)
    if unordered >= UNORDERED_MAX:
        return f"{unordered} of the last {len(recent)} recalls got no answer of it in time"
    return None


def _slowness(evidence: Evidence, _: Statistics) -> str | None:
    recent = evidence.served[:RECENT]
    slow = sum(one.is_slow for one in recent)
    if slow < BAD_MAX:
        return None
    return f"{slow} of the last {len(recent)} recalls took over {SLOW_MS:.0f} ms to order"


def _safety(evidence: Evidence, statistics: Statistics) -> str | None:
    more = sum(one > 0 for one in evidence.risks)
    fewer = sum(one < 0 for one in evidence.risks)
    if more < RISKIER_MIN or statistics.chance(more, fewer) >= _RISKIER_BY_CHANCE:
        return None
    return (
        f"{more} of the last {len(evidence.risks)} recalls showed more of low trust or flagged "
        f"than fixed weights would have, {fewer} less"
    )


SWIFT: Final[Mapping[str, Callable[[Evidence, Statistics], str | None]]] = {
    "errors": _errors,
    "slowness": _slowness,
    "safety": _safety,
}
"""Guards that act on a handful of recalls."""


_Measure = Callable[[RecallOutcome], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """Two sides of enough recalls, as of one look."""

    served: Sequence[RecallOutcome]
    control: Sequence[RecallOutcome]
    confidence: float

    def difference(self, statistics: Statistics, of: _Measure) -> Interval | None:
        """Compare both by sessions; None where a side has none of whom it can be said."""
        ones, others = (list(_by_session(side, of)) for side in (self.served, self.control))
        if min(len(ones), len(others)) < SESSIONS_MIN:
            return None
        return statistics.difference(ones, others, confidence=self.confidence)


def _marks(one: RecallOutcome) -> float:
    return one.marks


def _order(one: RecallOutcome) -> float | None:
    return one.reciprocal if one.is_marked else None


def _abstained(one: RecallOutcome) -> float:
    return one.is_unanswered


def _taken(one: RecallOutcome) -> float:
    return one.total_ms


def _compared(evidence: Evidence) -> _Compared | NotEnoughTraffic:
    """Take the recalls up to the latest doubling, and those of the control in the same time."""
    lacking = tuple(_lacking(evidence, recalls=RECALLS_MIN, sessions=SESSIONS_MIN))
    if lacking:
        return NotEnoughTraffic(needs=lacking)
    looks = (len(evidence.served) // RECALLS_MIN).bit_length()
    served = sorted(evidence.served, key=lambda one: one.asked_at)
    served = served[: RECALLS_MIN * 2 ** (looks - 1)]
    until = served[-1].asked_at
    control = [one for one in evidence.control if one.asked_at <= until]
    # What is spent of the error allowed halves with each look, so that all looks keep within it.
    return _Compared(served=served, control=control, confidence=1 - _ERROR / 2**looks)


def _lacking(evidence: Evidence, *, recalls: int, sessions: int) -> Iterator[str]:
    for name, side in (("the model", evidence.served), ("its control", evidence.control)):
        there = len({one.who for one in side})
        if len(side) < recalls:
            yield f"{name} has {len(side)} of {recalls} recalls"
        if there < sessions:
            yield f"{name} has {there} of {sessions} sessions"


def _worse_marks(compared: _Compared, statistics: Statistics) -> str | None:
    found = compared.difference(statistics, _marks)
    if found is None or found.high >= 0:
        return None
    return f"answers helped less often: by {_shown(found)}"


def _worse_order(compared: _Compared, statistics: Statistics) -> str | None:
    found = compared.difference(statistics, _order)
    if found is None or found.high >= 0:
        return None
    return f"what helped stood further down: mean reciprocal rank by {_shown(found)}"


def _abstention(compared: _Compared, statistics: Statistics) -> str | None:
    found = compared.difference(statistics, _abstained)
    if found is None or found.low <= 0:
        return None
    return f"more questions found no answer: by {_shown(found)}"


def _latency(compared: _Compared, statistics: Statistics) -> str | None:
    found = compared.difference(statistics, _taken)
    if found is None or found.low <= SLOWER_MAX * _level(compared.control):
        return None
    return f"recalls took longer: by {found.value:.1f} ms ({found.low:.1f} to {found.high:.1f})"


SETTLED: Final[Mapping[str, Callable[[_Compared, Statistics], str | None]]] = {
    "quality": _worse_marks,
    "order": _worse_order,
    "abstention": _abstention,
    "latency": _latency,
}
"""Guards that compare, where there is enough to be compared."""


def _promoted(evidence: Evidence, statistics: Statistics) -> Verdict:
    """Say whether a canary that nothing speaks against has shown that it is not worse."""
    lacking = list(_lacking(evidence, recalls=PROMOTED_RECALLS_MIN, sessions=PROMOTED_SESSIONS_MIN))
    marked = min(sum(one.is_marked for one in s) for s in (evidence.served, evidence.control))
    if marked < PROMOTED_MARKED_MIN:
        lacking.append(f"{marked} of {PROMOTED_MARKED_MIN} recalls of each side are marked")
    if lacking:
        return NotEnoughTraffic(needs=tuple(lacking))
    both = _Compared(served=evidence.served, control=evidence.control, confidence=1 - _ERROR)
    unsure = list(_unsure(both, statistics))
    if unsure:
        return KeepCanary(reason=f"It may still be worse: {'; '.join(unsure)}.")
    return Promote(reason=f"It is not worse, in {len(evidence.served)} recalls.")


def _unsure(both: _Compared, statistics: Statistics) -> Iterator[str]:
    for name, measure in (("marks", _marks), ("order", _order)):
        found = both.difference(statistics, measure)
        if found is None:
            yield f"{name} in too few sessions"
        elif found.low <= -MARGIN:
            yield f"{name} {_shown(found)}"
    slower = both.difference(statistics, _taken)
    if slower is not None and slower.high > SLOWER_MAX * _level(both.control):
        yield f"time {slower.value:+.1f} ms (up to {slower.high:.1f})"


def _by_session(outcomes: Iterable[RecallOutcome], of: _Measure) -> Iterator[float]:
    """Give the mean of each session in which there is anything to tell."""
    told: defaultdict[str, list[float]] = defaultdict(list)
    for one in outcomes:
        value = of(one)
        if value is not None:
            told[one.who].append(value)
    return map(fmean, told.values())


def _level(control: Sequence[RecallOutcome]) -> float:
    return fmean(one.total_ms for one in control)


def _shown(found: Interval) -> str:
    return f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})"
