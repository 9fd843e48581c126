"""Canary analysis: evaluates a model in service by the outcomes of its recalls and a control.

Failures, slowness and untrusted results show within a handful of recalls. Answer quality takes
many: it is compared by session, because canaries are assigned by session, and only when traffic has
doubled, each time with a share of the error budget, so that frequent checks find no more than one.
See docs/explanation/learning.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from statistics import fmean
from typing import TYPE_CHECKING, Final

from commonbrain.model.errors import RejectedError
from commonbrain.model.model_card import ModelCard, ModelState, model_name, replacement_reason
from commonbrain.model.scope import Caller
from commonbrain.storage.interface import AccessEntry
from commonbrain_learn.intervals import MeanDifference, difference, sign_test
from commonbrain_learn.outcomes import SLOW_MS, RecallOutcome

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


_SUBJECT_CHARS_MAX: Final = 160
"""Maximum length of an audit subject: the model id and the beginning of the reason."""
ACTION: Final = "model_"
"""Prefix of the audit action; the new state follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who changes a model's state, when and why."""

    at: datetime
    agent: str
    reason: str
    credential: str | None = None
    request_id: str | None = None


PERCENT_DEFAULT: Final = 5.0
"""Percent of sessions: a bad model harms few, and a good one is recognized in days."""
_BYTES: Final = 6
"""Bytes of the hash: 48 bits give a fraction below 1 that a float represents exactly."""


def bucket_of(model: int, *, tenant: str, who: str) -> float:
    """Return the fixed bucket of a session for a model, from 0 to below 100.

    It is computed from the SHA-256 of all three, so it is uniform over sessions and independent
    between models.
    """
    named = f"{model}:{tenant}:{who}".encode(errors="replace")
    return int.from_bytes(sha256(named).digest()[:_BYTES]) / 256**_BYTES * 100


def is_in_canary(card: ModelCard, caller: Caller) -> bool:
    """Return whether a serving model serves this caller.

    A higher percentage keeps earlier callers.
    """
    if card.state is not ModelState.CANARY:
        return card.state is ModelState.ACTIVE
    who = caller.session or caller.agent
    is_drawn = bucket_of(card.id, tenant=caller.tenant, who=who) < card.percent
    return is_drawn or caller.agent in card.allow


def serving_of(cards: Iterable[ModelCard], caller: Caller) -> ModelCard | None:
    """Return the model that serves a caller: the canary if it applies, else the active one."""
    serving = [card for card in cards if is_in_canary(card, caller)]
    return min(serving, key=lambda card: card.state is ModelState.ACTIVE, default=None)


def start_canary(
    tx: Transaction, card: ModelCard, *, percent: float, allow: Sequence[str], by: Actor
) -> list[ModelCard]:
    """Let a model serve a share of sessions, or change the share of a canary.

    Raises:
        RejectedError: `model_state`: it cannot serve; `canary_taken`: another is on trial; or
            `model_moved`.

    """
    other = _other(tx, card, state=ModelState.CANARY)
    if other is not None:
        raise RejectedError(
            f"{model_name(other)} is the canary already.",
            code="canary_taken",
            hint="Promote it, roll it back or retire it first.",
        )
    shares = replace(card, percent=percent, allow=tuple(allow))
    if card.state is ModelState.CANARY:
        # The trial continues: its outcomes so far still count.
        return [_moved(tx, card, after=shares, by=by)]
    on_trial = shares.moved(ModelState.CANARY, at=by.at, reason=by.reason)
    return [_moved(tx, card, after=on_trial, by=by)]


def promote(tx: Transaction, card: ModelCard, *, by: Actor) -> list[ModelCard]:
    """Let a model serve all sessions and retire the previous one in the same transaction.

    Raises:
        RejectedError: `model_state` or `model_moved`; nothing changed.

    """
    after = card.moved(ModelState.ACTIVE, at=by.at, reason=by.reason)
    before = _other(tx, card, state=ModelState.ACTIVE)
    moved: list[ModelCard] = []
    if before is not None:
        why = replacement_reason(card)
        retired = before.moved(ModelState.RETIRED, at=by.at, reason=why)
        moved.append(_moved(tx, before, after=retired, by=replace(by, reason=why)))
    return [_moved(tx, card, after=after, by=by), *moved]


def roll_back(tx: Transaction, card: ModelCard, *, by: Actor) -> list[ModelCard]:
    """Remove a model from service; if it was active, the model that it replaced serves again.

    Raises:
        RejectedError: `model_state` or `model_moved`; nothing changed.

    """
    after = card.moved(ModelState.ROLLED_BACK, at=by.at, reason=by.reason)
    moved = [_moved(tx, card, after=after, by=by)]
    before = tx.models.replaced_by(card)
    if before is not None:
        why = f"{model_name(card)}, which had its place, was rolled back"
        again = before.moved(ModelState.ACTIVE, at=by.at, reason=why)
        moved.append(_moved(tx, before, after=again, by=replace(by, reason=why)))
    return moved


def retire(tx: Transaction, card: ModelCard, *, by: Actor) -> list[ModelCard]:
    """Retire a model in service, or a candidate, without blame.

    Raises:
        RejectedError: `model_state` or `model_moved`.

    """
    retired = card.moved(ModelState.RETIRED, at=by.at, reason=by.reason)
    return [_moved(tx, card, after=retired, by=by)]


def _other(tx: Transaction, card: ModelCard, *, state: ModelState) -> ModelCard | None:
    serving = tx.models.serving(card.role)
    return next((one for one in serving if one.state is state and one.id != card.id), None)


def _moved(tx: Transaction, before: ModelCard, *, after: ModelCard, by: Actor) -> ModelCard:
    if not tx.models.move(before, after):
        raise RejectedError(
            f"{model_name(before)} was moved by another meanwhile.",
            code="model_moved",
            hint="Look at it again.",
        )
    tx.credentials.note(
        AccessEntry(
            at=by.at,
            action=f"{ACTION}{after.state}",
            agent=by.agent,
            credential=by.credential,
            request_id=by.request_id,
            subject=f"{model_name(after)}: {by.reason}"[:_SUBJECT_CHARS_MAX],
        )
    )
    return after


RECENT: Final = 20
"""Latest recalls, in which failures and slow answers are counted."""
BAD_MAX: Final = 5
"""Failed or slow recalls among the latest that trigger a rollback."""
UNORDERED_MAX: Final = 15
"""Unanswered recalls among the latest that trigger a rollback, even on a busy machine.

When the rest of a recall is slow too, nothing else detects a model that never answers.
"""
RISKS_MAX: Final = 50
"""Latest recalls, in which untrusted results are counted."""
RISKIER_MIN: Final = 5
_RISK_SIGNIFICANCE: Final = 0.005
"""Significance level of the sign test; it runs often, over a moving window."""
WINDOW: Final = 500
"""Maximum recalls of each side that are compared, the latest ones."""
RECALLS_MIN: Final = 50
"""Recalls of each side before quality is compared."""
SESSIONS_MIN: Final = 10
PROMOTED_RECALLS_MIN: Final = 200
"""Recalls of the canary before it can be promoted."""
PROMOTED_SESSIONS_MIN: Final = 20
PROMOTED_MARKED_MIN: Final = 30
"""Recalls with feedback of each side before a promotion."""
_FALSE_POSITIVE_RATE: Final = 0.05
"""False positive rate of all checks together, for each measure."""
MARGIN: Final = 0.1
"""Non-inferiority margin for a promotion, in marks and in order."""
SLOWER_MAX: Final = 0.25
"""Tolerated increase of recall latency over the control, as a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryEvidence:
    """Recalls by which a model is evaluated, latest first."""

    served: Sequence[RecallOutcome]
    """Recalls since the model entered its state."""
    control: Sequence[RecallOutcome]
    """Recalls of the model that serves other sessions; for an active model, its own before."""
    risks: Sequence[int]
    """Additional untrusted results per recall, compared with fixed weights."""
    is_canary: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NoChange:
    """The model stays in its state."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEnoughTraffic:
    """Nothing speaks against the model, but the data is insufficient for a comparison."""

    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promote:
    """The model is not worse, on sufficient traffic."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBack:
    """The model is removed from service."""

    guard: str
    reason: str


CanaryDecision = NoChange | NotEnoughTraffic | Promote | RollBack


def judge_canary(evidence: CanaryEvidence) -> CanaryDecision:
    """Decide on a model; unsafe or failing models are rolled back without waiting for traffic."""
    for name, check in IMMEDIATE_CHECKS.items():
        reason = check(evidence)
        if reason is not None:
            return RollBack(guard=name, reason=reason)
    compared = _compared(evidence)
    if isinstance(compared, NotEnoughTraffic):
        return compared
    for name, check in COMPARATIVE_CHECKS.items():
        reason = check(compared)
        if reason is not None:
            return RollBack(guard=name, reason=reason)
    return _promoted(evidence) if evidence.is_canary else NoChange(reason="No check failed.")


def _errors(evidence: CanaryEvidence) -> str | None:
    recent = evidence.served[:RECENT]
    failed = sum(one.is_failed for one in recent)
    if failed >= BAD_MAX:
        return f"{failed} of the last {len(recent)} recalls failed"
    unordered = sum(one.is_unordered for one in recent)
    if unordered >= UNORDERED_MAX:
        return f"{unordered} of the last {len(recent)} recalls got no answer of it in time"
    return None


def _slowness(evidence: CanaryEvidence) -> str | None:
    recent = evidence.served[:RECENT]
    slow = sum(one.is_slow for one in recent)
    if slow < BAD_MAX:
        return None
    return f"{slow} of the last {len(recent)} recalls took over {SLOW_MS:.0f} ms to order"


def _safety(evidence: CanaryEvidence) -> str | None:
    more = sum(one > 0 for one in evidence.risks)
    fewer = sum(one < 0 for one in evidence.risks)
    if more < RISKIER_MIN or sign_test(more, fewer) >= _RISK_SIGNIFICANCE:
        return None
    return (
        f"{more} of the last {len(evidence.risks)} recalls showed more of low trust or flagged "
        f"than fixed weights would have, {fewer} less"
    )


IMMEDIATE_CHECKS: Final[Mapping[str, Callable[[CanaryEvidence], str | None]]] = {
    "errors": _errors,
    "slowness": _slowness,
    "safety": _safety,
}
"""Checks that need only a handful of recalls."""


_Measure = Callable[[RecallOutcome], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """Both sides of a comparison at one check."""

    served: Sequence[RecallOutcome]
    control: Sequence[RecallOutcome]
    confidence: float

    def difference(self, of: _Measure) -> MeanDifference | None:
        """Compare by session; None if a side has no data for the measure."""
        ones, others = (list(_by_session(side, of)) for side in (self.served, self.control))
        if min(len(ones), len(others)) < SESSIONS_MIN:
            return None
        return difference(ones, others, confidence=self.confidence)


def _marks(one: RecallOutcome) -> float:
    return one.marks


def _order(one: RecallOutcome) -> float | None:
    return one.reciprocal if one.is_marked else None


def _abstained(one: RecallOutcome) -> float:
    return one.is_unanswered


def _latency_of(one: RecallOutcome) -> float:
    return one.total_ms


def _compared(evidence: CanaryEvidence) -> _Compared | NotEnoughTraffic:
    """Take the recalls up to the latest doubling, and the control's of the same period."""
    missing = tuple(_missing(evidence, recalls=RECALLS_MIN, sessions=SESSIONS_MIN))
    if missing:
        return NotEnoughTraffic(needs=missing)
    checks = (len(evidence.served) // RECALLS_MIN).bit_length()
    served = sorted(evidence.served, key=lambda one: one.asked_at)
    served = served[: RECALLS_MIN * 2 ** (checks - 1)]
    until = served[-1].asked_at
    control = [one for one in evidence.control if one.asked_at <= until]
    # The error budget of a check halves each time, so that the sum stays bounded.
    return _Compared(
        served=served, control=control, confidence=1 - _FALSE_POSITIVE_RATE / 2**checks
    )


def _missing(evidence: CanaryEvidence, *, recalls: int, sessions: int) -> Iterator[str]:
    for name, side in (("the model", evidence.served), ("its control", evidence.control)):
        there = len({one.who for one in side})
        if len(side) < recalls:
            yield f"{name} has {len(side)} of {recalls} recalls"
        if there < sessions:
            yield f"{name} has {there} of {sessions} sessions"


def _worse_marks(compared: _Compared) -> str | None:
    interval = compared.difference(_marks)
    if interval is None or interval.high >= 0:
        return None
    return f"answers helped less often: by {_format_interval(interval)}"


def _worse_order(compared: _Compared) -> str | None:
    interval = compared.difference(_order)
    if interval is None or interval.high >= 0:
        return None
    return f"what helped stood further down: mean reciprocal rank by {_format_interval(interval)}"


def _abstention(compared: _Compared) -> str | None:
    interval = compared.difference(_abstained)
    if interval is None or interval.low <= 0:
        return None
    return f"more questions had no answer: by {_format_interval(interval)}"


def _latency(compared: _Compared) -> str | None:
    interval = compared.difference(_latency_of)
    if interval is None or interval.low <= SLOWER_MAX * _level(compared.control):
        return None
    bounds = f"{interval.low:.1f} to {interval.high:.1f}"
    return f"recalls took longer: by {interval.value:.1f} ms ({bounds})"


COMPARATIVE_CHECKS: Final[Mapping[str, Callable[[_Compared], str | None]]] = {
    "quality": _worse_marks,
    "order": _worse_order,
    "abstention": _abstention,
    "latency": _latency,
}
"""Checks that compare, given enough recalls."""


def _promoted(evidence: CanaryEvidence) -> CanaryDecision:
    """Decide whether a canary has shown that it is not worse."""
    missing = list(_missing(evidence, recalls=PROMOTED_RECALLS_MIN, sessions=PROMOTED_SESSIONS_MIN))
    marked = min(sum(one.is_marked for one in s) for s in (evidence.served, evidence.control))
    if marked < PROMOTED_MARKED_MIN:
        missing.append(f"{marked} of {PROMOTED_MARKED_MIN} recalls of each side are marked")
    if missing:
        return NotEnoughTraffic(needs=tuple(missing))
    both = _Compared(
        served=evidence.served, control=evidence.control, confidence=1 - _FALSE_POSITIVE_RATE
    )
    open_questions = list(_open_questions(both))
    if open_questions:
        return NoChange(reason=f"It may still be worse: {'; '.join(open_questions)}.")
    return Promote(reason=f"It is not worse, in {len(evidence.served)} recalls.")


def _open_questions(both: _Compared) -> Iterator[str]:
    for name, measure in (("marks", _marks), ("order", _order)):
        interval = both.difference(measure)
        if interval is None:
            yield f"{name} in too few sessions"
        elif interval.low <= -MARGIN:
            yield f"{name} {_format_interval(interval)}"
    slower = both.difference(_latency_of)
    if slower is not None and slower.high > SLOWER_MAX * _level(both.control):
        yield f"time {slower.value:+.1f} ms (up to {slower.high:.1f})"


def _by_session(outcomes: Iterable[RecallOutcome], of: _Measure) -> Iterator[float]:
    """Return the mean of each session that has data."""
    by_session: defaultdict[str, list[float]] = defaultdict(list)
    for one in outcomes:
        value = of(one)
        if value is not None:
            by_session[one.who].append(value)
    return map(fmean, by_session.values())


def _level(control: Sequence[RecallOutcome]) -> float:
    return fmean(one.total_ms for one in control)


def _format_interval(interval: MeanDifference) -> str:
    return f"{interval.value:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})"
