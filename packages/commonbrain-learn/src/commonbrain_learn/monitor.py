"""Monitoring of models: evaluates the outcomes of recalls and rolls back harmful models.

A check runs in the process that stored the traces of ranked recalls, so that neither a worker nor a
person is needed; the first process to finish updates the card.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.clock import Clock
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.model_card import RERANKER, ModelCard, ModelRole, ModelState, model_name
from commonbrain.model.query import RecallTrace
from commonbrain.model.scope import NO_POLICY
from commonbrain.storage.interface import EntryFilter
from commonbrain_learn.outcomes import Figures, figures_of, outcome_of, riskier
from commonbrain_learn.rollout import (
    PERCENT_DEFAULT,
    RISKS_MAX,
    WINDOW,
    Actor,
    CanaryDecision,
    CanaryEvidence,
    Promote,
    RollBack,
    judge_canary,
    promote,
    roll_back,
)

if TYPE_CHECKING:
    from commonbrain.storage.store import Store, Transaction

_LOG: Final = logging.getLogger(__name__)
MONITOR_AGENT: Final = "guards"
"""Agent name of automatic transitions."""
_CANARY_INTERVAL_MS: Final = 2000.0
"""Interval between checks of a canary, unless a recall failed."""
_ACTIVE_INTERVAL_MS: Final = 60_000.0
"""Interval between checks of an active model, which has passed its trial."""
_CONTROLS: Final = 2.0
"""Recalls of the control per recall of the canary: more would add little precision."""
_TENANTS_MAX: Final = 10_000
"""Tenants whose last check is remembered; past it all are checked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEvaluation:
    """A model in service, its figures, those of its control, and the decision."""

    card: ModelCard
    served: Figures
    control: Figures
    riskier: int
    """Number of recent recalls that returned more untrusted memories than fixed weights would."""
    verdict: CanaryDecision


def evaluate(tx: Transaction, card: ModelCard) -> ModelEvaluation:
    """Evaluate a model without changing its state."""
    evidence = load_evidence(tx, card)
    return ModelEvaluation(
        card=card,
        served=figures_of(evidence.served),
        control=figures_of(evidence.control),
        riskier=sum(one > 0 for one in evidence.risks),
        verdict=judge_canary(evidence),
    )


class CanaryMonitor:
    """Evaluates the models of every tenant; safe in several threads and processes."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        moved: Callable[[str], None],
    ) -> None:
        """Create a monitor; `moved` runs after a transition."""
        self._store = store
        self._clock = clock
        self._moved = moved
        self._checked_ms: dict[tuple[str, int], float] = {}

    def on_traces_written(self, tenant: str, traces: Sequence[RecallTrace]) -> None:
        """Check models after their traces were stored; roll back or promote if due."""
        rerankers = {trace.ranker for trace in traces if trace.ranker is not None}
        if not rerankers:
            return
        failing = {one.ranker for one in traces if _has_failed(one)}
        try:
            with self._store.snapshot(tenant) as tx:
                judged = [
                    evaluate(tx, card)
                    for card in tx.models.serving(ModelRole.RERANKER)
                    if card.id in rerankers and self._is_due(tenant, card, failing=failing)
                ]
                policy = getattr(tx.credentials.tenant(), "policy", NO_POLICY)
            for one in judged:
                self._apply(tenant, one, may_promote=policy.is_promotion_automatic)
        except CommonbrainError as error:
            _LOG.warning("The models of %s could not be judged: %s", tenant, error.message)

    def _is_due(self, tenant: str, card: ModelCard, *, failing: set[int | None]) -> bool:
        now_ms, key = self._clock.elapsed_ms(), (tenant, card.id)
        interval_ms = (
            _CANARY_INTERVAL_MS if card.state is ModelState.CANARY else _ACTIVE_INTERVAL_MS
        )
        last_ms = self._checked_ms.get(key)
        if last_ms is not None and now_ms < last_ms + interval_ms and card.id not in failing:
            return False
        if len(self._checked_ms) >= _TENANTS_MAX:
            self._checked_ms.clear()
        self._checked_ms[key] = now_ms
        return True

    def _apply(self, tenant: str, judged: ModelEvaluation, *, may_promote: bool) -> None:
        """Apply the decision, unless another process was first."""
        now = self._clock.now()
        match judged.verdict:
            case RollBack(guard=guard, reason=reason):
                by = Actor(at=now, agent=MONITOR_AGENT, reason=f"{guard}: {reason}")
                move = roll_back
            case Promote(reason=reason) if may_promote:
                by = Actor(at=now, agent=MONITOR_AGENT, reason=reason)
                move = promote
            case _:
                return
        with self._store.begin(tenant) as tx:
            moved = move(tx, judged.card, by=by)
        self._moved(tenant)
        for card in moved:
            _LOG.warning("%s of %s is %s: %s", model_name(card), tenant, card.state, card.reason)


def load_evidence(tx: Transaction, card: ModelCard) -> CanaryEvidence:
    """Read the latest recalls by which a model is evaluated."""
    mine = EntryFilter(since=card.moved_at, ranker=card.id)
    served = tx.recall_log.latest(mine, limit=WINDOW, is_brief=True)
    since = served[-1].asked_at if served else card.moved_at
    control = tx.recall_log.latest(_control(tx, card, since=since), limit=2 * WINDOW, is_brief=True)
    return CanaryEvidence(
        served=[outcome_of(entry) for entry in served],
        control=[outcome_of(entry) for entry in control],
        risks=[riskier(entry) for entry in tx.recall_log.latest(mine, limit=RISKS_MAX)],
        is_canary=card.state is ModelState.CANARY,
    )


def _control(tx: Transaction, card: ModelCard, *, since: datetime) -> EntryFilter:
    """Return the control.

    The model serving beside a canary, or an active model's time as canary.
    """
    if card.state is ModelState.ACTIVE:
        return EntryFilter(until=card.moved_at, ranker=card.id)
    serving = tx.models.serving(card.role)
    active = next((one.id for one in serving if one.state is ModelState.ACTIVE), None)
    # A canary serves few recalls: sample as many of the others over the same period, not the
    # latest, which have no feedback yet.
    percent = min(card.percent or PERCENT_DEFAULT, 50.0)
    share = min(1.0, _CONTROLS * percent / (100 - percent))
    return EntryFilter(since=since, ranker=active, is_by_weights=active is None, share=share)


def _has_failed(trace: RecallTrace) -> bool:
    return any(one.startswith(RERANKER) for one in trace.degraded)
