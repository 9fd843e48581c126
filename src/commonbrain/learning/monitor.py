"""The guards of models: they look at what came of recalls, and roll back what does harm.

They look whenever recalls that a model ordered have been kept, in the process that kept them, so
that no worker and no person is needed; whichever process is the first moves the card.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.clock import Clock
from commonbrain.learning.outcomes import RERANKER, Figures, figures_of, outcome_of, riskier
from commonbrain.learning.rollout import (
    RISKS_MAX,
    WINDOW,
    Evidence,
    Interval,
    Promote,
    RollBack,
    Statistics,
    Verdict,
    judge_canary,
)
from commonbrain.learning.transitions import Actor, model_name, promote, roll_back
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.model_card import PERCENT_DEFAULT, ModelCard, ModelRole, ModelState
from commonbrain.model.query import Trace
from commonbrain.model.scope import NO_POLICY
from commonbrain.storage.interface import EntryFilter

if TYPE_CHECKING:
    from commonbrain.storage.store import Store, Transaction

_LOG: Final = logging.getLogger(__name__)
MONITOR_AGENT: Final = "guards"
"""Who moves a model where nobody does."""
_CANARY_INTERVAL_MS: Final = 2000.0
"""How long after one look at a canary the next is due, where nothing failed since."""
_ACTIVE_INTERVAL_MS: Final = 60_000.0
"""The same of an active model, which has stood its trial."""
_CONTROLS: Final = 2.0
"""Recalls of the control for one of the canary: many more would tell little more."""
_TENANTS_MAX: Final = 10_000
"""Tenants of whom the last look is remembered; past it all are looked at anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEvaluation:
    """A model that serves, its figures and those of its control, and what is to become of it."""

    card: ModelCard
    served: Figures
    control: Figures
    riskier: int
    """In how many of the latest recalls it showed more that should not be trusted."""
    verdict: Verdict


class CanaryMonitor:
    """Judges the models of every tenant; several threads and processes may at once."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        statistics: Callable[[], Statistics],
        moved: Callable[[str], None],
    ) -> None:
        """Judge by a library that is loaded when figures are compared; tell of who was moved."""
        self._store = store
        self._clock = clock
        self._statistics = statistics
        self._moved = moved
        self._checked_ms: dict[tuple[str, int], float] = {}

    def on_traces_written(self, tenant: str, traces: Sequence[Trace]) -> None:
        """Look at models whose recalls were kept just now; roll back and promote what is due."""
        rerankers = {trace.ranker for trace in traces if trace.ranker is not None}
        if not rerankers:
            return
        failing = {one.ranker for one in traces if _has_failed(one)}
        try:
            with self._store.snapshot(tenant) as tx:
                judged = [
                    self.judged(tx, card)
                    for card in tx.models.serving(ModelRole.RERANKER)
                    if card.id in rerankers and self._is_due(tenant, card, failing=failing)
                ]
                policy = getattr(tx.credentials.tenant(), "policy", NO_POLICY)
            for one in judged:
                self._apply(tenant, one, may_promote=policy.is_promotion_automatic)
        except CommonbrainError as error:
            _LOG.warning("The models of %s could not be judged: %s", tenant, error.message)

    def judged(self, tx: Transaction, card: ModelCard) -> ModelEvaluation:
        """Judge a model that serves, and move nothing."""
        evidence = load_evidence(tx, card)
        return ModelEvaluation(
            card=card,
            served=figures_of(evidence.served),
            control=figures_of(evidence.control),
            riskier=sum(one > 0 for one in evidence.risks),
            verdict=judge_canary(evidence, _LazyStatistics(self._statistics)),
        )

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
        """Move a model as its verdict says, unless another process was faster."""
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


@dataclass(frozen=True, slots=True)
class _LazyStatistics:
    """Statistics that are loaded when they are asked: most looks end before."""

    make: Callable[[], Statistics]

    def difference(
        self, ones: Sequence[float], others: Sequence[float], *, confidence: float
    ) -> Interval:
        return self.make().difference(ones, others, confidence=confidence)

    def chance(self, more: int, fewer: int) -> float:
        return self.make().chance(more, fewer)


def load_evidence(tx: Transaction, card: ModelCard) -> Evidence:
    """Read what a model is judged by, the latest of what the ledger holds of it."""
    mine = EntryFilter(since=card.moved_at, ranker=card.id)
    served = tx.recall_log.latest(mine, limit=WINDOW, is_brief=True)
    since = served[-1].asked_at if served else card.moved_at
    control = tx.recall_log.latest(_control(tx, card, since=since), limit=2 * WINDOW, is_brief=True)
    return Evidence(
        served=[outcome_of(entry) for entry in served],
        control=[outcome_of(entry) for entry in control],
        risks=[riskier(entry) for entry in tx.recall_log.latest(mine, limit=RISKS_MAX)],
        is_canary=card.state is ModelState.CANARY,
    )


def _control(tx: Transaction, card: ModelCard, *, since: datetime) -> EntryFilter:
    """Say what a model is held against: who serves beside a canary, or its own time as one."""
    if card.state is ModelState.ACTIVE:
        return EntryFilter(until=card.moved_at, ranker=card.id)
    serving = tx.models.serving(card.role)
    active = next((one.id for one in serving if one.state is ModelState.ACTIVE), None)
    # A canary has few of all recalls: of the others as many are drawn as it takes, over the same
    # time, and not the latest of them, which nobody has come to mark yet.
    percent = min(card.percent or PERCENT_DEFAULT, 50.0)
    share = min(1.0, _CONTROLS * percent / (100 - percent))
    return EntryFilter(since=since, ranker=active, is_by_weights=active is None, share=share)


def _has_failed(trace: Trace) -> bool:
    return any(one.startswith(RERANKER) for one in trace.degraded)
