"""Model cards: a trained model, its training, and its state transitions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.limits import ARTIFACT_RETENTION_DAYS
from commonbrain.model.values import dataclass, replace


class ModelRole(StrEnum):
    """The purpose of a model."""

    RERANKER = "reranker"
    SALIENCE = "salience"


class ModelState(StrEnum):
    """The state of a model."""

    CANDIDATE = "candidate"
    CANARY = "canary"
    """Serves a fixed share of its tenant's sessions and is monitored."""
    ACTIVE = "active"
    RETIRED = "retired"
    """Served until another replaced it, or was retired by hand."""
    ROLLED_BACK = "rolled_back"
    """Was worse, slow, failing or unsafe; it never serves again."""


RERANK: Final = "rerank"
"""The stage in which a model ranks candidates."""
LOAD: Final = "load"
"""The stage in which the first recall of a process waits for a model to load."""
RERANKER: Final = "reranker"
"""Prefix of the degradation that a reranker causes."""
CROSS_ENCODER: Final = "cross_encoder"
"""The stage in which a cross-encoder orders the best candidates, its feature and degradation."""
BETTER: Final = "better"
"""The outcome of a model that beat the serving one at training."""
SERVING: Final = frozenset({ModelState.CANARY, ModelState.ACTIVE})
"""States of models that answer; of each role a tenant has at most one in either."""
_OVER: Final = frozenset({ModelState.RETIRED, ModelState.ROLLED_BACK})
_NEXT: Final[Mapping[ModelState, frozenset[ModelState]]] = {
    ModelState.CANDIDATE: frozenset({ModelState.CANARY, ModelState.ACTIVE, ModelState.RETIRED}),
    ModelState.CANARY: frozenset({ModelState.ACTIVE, ModelState.RETIRED, ModelState.ROLLED_BACK}),
    ModelState.ACTIVE: frozenset({ModelState.RETIRED, ModelState.ROLLED_BACK}),
    # If the successor of a retired model is rolled back, the model is active again.
    ModelState.RETIRED: frozenset({ModelState.CANARY, ModelState.ACTIVE}),
    ModelState.ROLLED_BACK: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """One model of one tenant; its artifact is stored as a blob under its digest."""

    id: int
    role: ModelRole
    state: ModelState = ModelState.CANDIDATE
    digest: str
    """SHA-256 of the artifact in hexadecimal, 64 characters; empty once it was purged."""
    features: tuple[str, ...]
    """Its input features, in order."""
    told: Mapping[str, object]
    """Training data, parameters and evaluation, as JSON values."""
    parent: int | None = None
    """The model that served when this one was trained; None for fixed weights."""
    percent: float = 0.0
    """Share of the tenant's sessions that a canary serves, 0..100."""
    allow: tuple[str, ...] = ()
    """Agents that a canary serves regardless of the share."""
    made_at: datetime
    moved_at: datetime
    """The time of its last transition."""
    reason: str | None = None
    """The reason of its last transition."""

    @property
    def outcome(self) -> str:
        """The outcome at training; better if none is recorded."""
        return str(self.told.get("outcome", BETTER))

    @property
    def is_over(self) -> bool:
        """Return whether it neither serves nor will serve."""
        is_refused = self.state is ModelState.CANDIDATE and self.outcome != BETTER
        return is_refused or self.state in _OVER

    def moved(self, to: ModelState, *, at: datetime, reason: str | None = None) -> ModelCard:
        """Return the card in another state.

        Raises:
            RejectedError: `model_state`, the transition is not allowed; or `artifact_dropped`, it
                should serve but its artifact was purged.

        """
        if to not in _NEXT[self.state]:
            ways = ", ".join(sorted(_NEXT[self.state])) or "nowhere"
            raise RejectedError(
                f"The model is {self.state} and cannot become {to}.",
                code="model_state",
                hint=f"From there it goes to: {ways}.",
            )
        if to in SERVING and not self.digest:
            raise RejectedError(
                f"The artifact of the model was dropped; it cannot become {to}.",
                code="artifact_dropped",
                hint=f"Train another; retired models keep it for {ARTIFACT_RETENTION_DAYS} days.",
            )
        return replace(self, state=to, moved_at=at, reason=reason)


def model_name(card: ModelCard) -> str:
    """Return the public id of a model."""
    return ids.show(ids.MODEL, card.id)


def replacement_reason(card: ModelCard) -> str:
    """Return the reason of the retirement of the model that this one replaced."""
    return f"{model_name(card)} took its place"
