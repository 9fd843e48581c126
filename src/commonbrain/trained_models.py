"""Models that order the results of recall: a reranker of the user, and trained ones by tenant.

The package that runs trained models is loaded for the first; a store without one runs nothing of
it: its folder of artifacts does not exist, so that not even a row is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.model_card import ModelCard, ModelRole

if TYPE_CHECKING:
    from pathlib import Path

    from commonbrain.clock import Clock
    from commonbrain.ingestion.preparation import PreparedDraft
    from commonbrain.model.query import RecallTrace
    from commonbrain.model.scope import Caller
    from commonbrain.retrieval.plan import QueryPlan
    from commonbrain.retrieval.retrieve import Deadline
    from commonbrain.retrieval.table import Table
    from commonbrain.storage.store import Store

_LOG: Final = logging.getLogger(__name__)
SERVING_CACHE_MS: Final = 2000.0
"""Cache lifetime of the serving models: every process sees a change within it."""
EMPTY_CACHE_MS: Final = 10_000.0
"""The same without a model in service.

There is nothing to roll back, and a first model may wait.
"""
_TENANTS_MAX: Final = 10_000
"""Tenants in the cache; past it the cache is cleared."""


class Reranker(Protocol):
    """Orders the best candidates by reading each with the query; used from several threads.

    If it fails, the order stays, and `degraded` says so.
    """

    @property
    def name(self) -> str:
        """Its name, shown to all callers."""
        ...

    def reranker(self, plan: QueryPlan, *, deadline: Deadline) -> Callable[[Table], None]:
        """Load the model if need be, and return what orders candidates by it."""
        ...

    def check(self) -> None:
        """Load the model, and score one pair.

        Raises:
            CommonbrainError: It does not work.

        """
        ...

    def close(self) -> None:
        """Release the model without waiting."""
        ...


class ModelRunner(Protocol):
    """Runs the models of a store; the extra `learn` brings it. Safe to use from several threads.

    A model that fails or is slow never fails a call: fixed weights and rules answer, and say so.
    """

    def reranker(
        self, cards: Sequence[ModelCard], plan: QueryPlan, *, deadline: Deadline
    ) -> Callable[[Table], None] | None:
        """Load the model that serves a caller, and return what orders candidates by it."""
        ...

    def rate(
        self, cards: Sequence[ModelCard], drafts: Sequence[PreparedDraft], *, caller: Caller
    ) -> Sequence[PreparedDraft]:
        """Return drafts with the salience that the active model predicts."""
        ...

    def on_traces_written(self, tenant: str, traces: Sequence[RecallTrace]) -> None:
        """Judge the models by the traces of recalls that they ranked, after these were stored."""
        ...

    def close(self) -> None:
        """Release all models without waiting."""
        ...


class TrainedModels:
    """Knows which models serve which callers; safe to use from several threads."""

    def __init__(
        self,
        make_runner: Callable[[], ModelRunner],
        *,
        store: Store,
        clock: Clock,
        artifacts: Path | None = None,
    ) -> None:
        """Create it; nothing is read or loaded yet.

        Args:
            make_runner: loads the package; raises `extra_missing` without it.
            store: the store with the cards.
            clock: ages what is cached.
            artifacts: the folder of artifacts, which training makes: without it no model serves.
                None if they are in a bucket.

        """
        self._make_runner = make_runner
        self._store = store
        self._clock = clock
        self._artifacts = artifacts
        self._known: dict[str, tuple[float, Sequence[ModelCard]]] = {}
        self._runner: ModelRunner | None = None
        self.missing: InvalidInputError | None = None
        """Why no model is run, though one serves."""

    def serving(self, tenant: str, role: ModelRole) -> Sequence[ModelCard]:
        """Return the models of a role that serve a tenant, cached for some seconds."""
        if self._artifacts is not None and not self._artifacts.exists():
            return ()
        now_ms = self._clock.elapsed_ms()
        known = self._known.get(tenant)
        if known is None or now_ms >= known[0]:
            cards = self._store.read(tenant, lambda tx: tx.models.serving())
            known = (now_ms + (SERVING_CACHE_MS if cards else EMPTY_CACHE_MS), cards)
            if len(self._known) >= _TENANTS_MAX:
                self._known.clear()
            self._known[tenant] = known
        return [card for card in known[1] if card.role is role]

    def forget(self, tenant: str) -> None:
        """Read the models of a tenant again before their next use, after a transition."""
        self._known.pop(tenant, None)

    def runner(self) -> ModelRunner | None:
        """Return what runs models; None if the package is not installed, which is logged once."""
        if self._runner is None and self.missing is None:
            try:
                self._runner = self._make_runner()
            except InvalidInputError as error:
                self.missing = error
                _LOG.warning("A trained model is in service, but is not used: %s", error)
        return self._runner

    def reranker(self, plan: QueryPlan, *, deadline: Deadline) -> Callable[[Table], None] | None:
        """Return what orders the candidates of a recall; None if no model serves its caller."""
        cards = self.serving(plan.caller.tenant, ModelRole.RERANKER)
        runner = self.runner() if cards else None
        return None if runner is None else runner.reranker(cards, plan, deadline=deadline)

    def rate(self, drafts: Sequence[PreparedDraft], caller: Caller) -> Sequence[PreparedDraft]:
        """Return drafts with the salience that a model predicts; unchanged if none serves."""
        cards = self.serving(caller.tenant, ModelRole.SALIENCE)
        runner = self.runner() if cards else None
        return drafts if runner is None else runner.rate(cards, drafts, caller=caller)

    def on_traces_written(self, tenant: str, traces: Sequence[RecallTrace]) -> None:
        """Let the models be judged that ranked some of these recalls."""
        if any(trace.ranker is not None for trace in traces) and (runner := self.runner()):
            runner.on_traces_written(tenant, traces)

    def close(self) -> None:
        """Release all models without waiting."""
        if self._runner is not None:
            self._runner.close()
