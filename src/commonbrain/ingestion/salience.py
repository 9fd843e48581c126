"""Salience models: the learned models that score how much new memories matter.

A failing model neither fails nor delays a write: the fixed rule scores instead, and the outcome
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Final

from commonbrain.clock import Clock
from commonbrain.learning.serving import (
    InvalidModelError,
    ModelLimits,
    ModelPool,
    ScoringFailure,
    ServingCache,
)
from commonbrain.learning.usefulness import KINDS_SCORED, UNKNOWN_AUTHOR, features_of
from commonbrain.model.kinds import EventDetail
from commonbrain.model.limits import SALIENCE_MS_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.model.scope import Caller
from commonbrain.model.values import dataclass, replace
from commonbrain.services import Services

if TYPE_CHECKING:
    from commonbrain.ingestion.preparation import PreparedDraft
    from commonbrain.learning.interface import Salience
    from commonbrain.storage.store import Store

_TERMS: Final = ModelLimits(limit_ms=SALIENCE_MS_MAX, failures=1, cooldown_ms=30_000.0)
"""Nothing rolls back a salience model that fails, so a few failures suspend it."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The saliences of memories, in order."""

    saliences: tuple[float, ...]


class SalienceModels:
    """Scores with the active model of each tenant; safe to use from several threads."""

    def __init__(
        self,
        load: Callable[[str], Salience],
        *,
        store: Store,
        clock: Clock,
        limits: ModelLimits = _TERMS,
    ) -> None:
        """Load models by the digests of their artifacts; a model beyond its limits is suspended."""
        self._store = store
        self._known = ServingCache(clock)
        self._models: ModelPool[ModelCard, Salience] = ModelPool(
            lambda card: _loaded(load, card), clock=clock, terms=limits
        )

    def score(
        self, tenant: str, memories: Callable[[], Sequence[Memory]]
    ) -> Scored | ScoringFailure | None:
        """Score memories, built only if a model serves; None if none does."""
        card = self._active(tenant)
        if card is None:
            return None
        scored = memories()
        return self._models.ready(tenant, card) or self._models.ask(
            tenant, card, question=lambda one: Scored(_scores(one, scored))
        )

    def forget(self, tenant: str) -> None:
        """Look up the serving model of a tenant again, after a transition."""
        self._known.forget(tenant)

    def close(self) -> None:
        """Release every model without waiting for calls in progress."""
        self._models.close()

    def _active(self, tenant: str) -> ModelCard | None:
        """Return the model that serves a tenant, cached for a short time."""
        known = self._known.serving(tenant, lambda: self._serving(tenant))
        return next((one for one in known if one.state is ModelState.ACTIVE), None)

    def _serving(self, tenant: str) -> Sequence[ModelCard]:
        with self._store.snapshot(tenant) as tx:
            return tx.models.serving(ModelRole.SALIENCE)


def _loaded(load: Callable[[str], Salience], card: ModelCard) -> Salience:
    salience = load(card.digest)
    if tuple(salience.features) != card.features:
        raise InvalidModelError("its features are not those of its card")
    return salience


def _scores(salience: Salience, memories: Sequence[Memory]) -> tuple[float, ...]:
    # Already loaded by the embedder.
    import numpy as np  # noqa: PLC0415

    feature_rows = [
        features_of(one, author=salience.authors.get(one.agent, UNKNOWN_AUTHOR)) for one in memories
    ]
    rows = np.array(
        [[one[name] for name in salience.features] for one in feature_rows], dtype=np.float32
    )
    values: list[float] = salience.scores(rows).tolist()
    if len(values) != len(memories) or not all(isfinite(one) and 0 <= one <= 1 for one in values):
        raise InvalidModelError("it gave no salience of 0 to 1 to each memory")
    return tuple(round(one, 4) for one in values)


def with_salience(
    ready: Sequence[PreparedDraft], caller: Caller, *, services: Services
) -> list[PreparedDraft]:
    """Set the salience that the tenant's model predicts on new drafts.

    If the model does not answer, the rule scores, and the outcome says so. Stored memories keep
    their salience.
    """
    # Every open store has these models, and only writing needs the rules of a memory.
    from commonbrain.ingestion.commit import build_memory  # noqa: PLC0415

    now = services.clock.now()
    unscored = [one for one in ready if _is_open(one)]

    def memories() -> Sequence[Memory]:
        return [build_memory(one, caller, now=now, revision_number=0) for one in unscored]

    result = services.saliences.score(caller.tenant, memories) if unscored else None
    if result is None:
        return list(ready)
    if not isinstance(result, Scored):
        warning = f"Its salience is the rule's: the learnt one did not answer: {result.reason}."
        return [
            replace(one, warnings=(*one.warnings, warning)) if _is_open(one) else one
            for one in ready
        ]
    saliences = iter(result.saliences)
    return [replace(one, salience=next(saliences)) if _is_open(one) else one for one in ready]


def _is_open(one: PreparedDraft) -> bool:
    """Return whether neither the author nor the kind has set the salience."""
    detail = one.admitted.detail
    has_importance = isinstance(detail, EventDetail) and detail.importance is not None
    return one.admitted.kind in KINDS_SCORED and not has_importance
