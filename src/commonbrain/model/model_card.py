"""A model card: what a trained model is, what it was made of, and every way it moves on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final

from commonbrain.model.errors import RejectedError
from commonbrain.model.limits import ARTIFACTS_KEPT_DAYS
from commonbrain.model.scope import Caller


class ModelRole(StrEnum):
    """What a model is for."""

    RERANKER = "reranker"
    SALIENCE = "salience"


class ModelState(StrEnum):
    """Where a model stands between its making and its end."""

    CANDIDATE = "candidate"
    CANARY = "canary"
    """Serves a sticky share of the sessions of its tenant, and is watched."""
    ACTIVE = "active"
    RETIRED = "retired"
    """Served well until another took its place, or was taken out by hand."""
    ROLLED_BACK = "rolled_back"
    """Was found worse, slow, failing or unsafe; it never serves again."""


BETTER: Final = "better"
"""The outcome of a model that was found better than what served when it was made."""
SERVING: Final = frozenset({ModelState.CANARY, ModelState.ACTIVE})
"""States of models that answer; of each role one tenant has at most one of either."""
_OVER: Final = frozenset({ModelState.RETIRED, ModelState.ROLLED_BACK})
_NEXT: Final[Mapping[ModelState, frozenset[ModelState]]] = {
    ModelState.CANDIDATE: frozenset({ModelState.CANARY, ModelState.ACTIVE, ModelState.RETIRED}),
    ModelState.CANARY: frozenset({ModelState.ACTIVE, ModelState.RETIRED, ModelState.ROLLED_BACK}),
    ModelState.ACTIVE: frozenset({ModelState.RETIRED, ModelState.ROLLED_BACK}),
    # What took the place of a retired model may be rolled back: then it is active again.
    ModelState.RETIRED: frozenset({ModelState.CANARY, ModelState.ACTIVE}),
    ModelState.ROLLED_BACK: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """One model of one tenant; its bytes lie under their digest among the blobs."""

    id: int
    role: ModelRole
    state: ModelState = ModelState.CANDIDATE
    digest: str
    """SHA-256 of the artifact, in hexadecimal: 64 characters, or none once it was dropped."""
    features: tuple[str, ...]
    """What it is given, in this order."""
    told: Mapping[str, object]
    """Of what it was made, how, and how it fared before it served: plain JSON values."""
    parent: int | None = None
    """The model that served when this one was made; None where fixed weights did."""
    percent: float = 0.0
    """Of the sessions of its tenant a canary serves, 0..100."""
    allow: tuple[str, ...] = ()
    """Agents that a canary serves whatever their share."""
    made_at: datetime
    moved_at: datetime
    """When it came into its state."""
    reason: str | None = None
    """Why it did."""

    @property
    def outcome(self) -> str:
        """How it was found when it was made; better where nothing is told of that."""
        return str(self.told.get("outcome", BETTER))

    @property
    def is_over(self) -> bool:
        """Say whether it does not serve and is not about to: it has ended, or was refused."""
        is_refused = self.state is ModelState.CANDIDATE and self.outcome != BETTER
        return is_refused or self.state in _OVER

    def moved(self, to: ModelState, *, at: datetime, reason: str | None = None) -> ModelCard:
        """Bring it into another state.

        Raises:
            RejectedError: `model_state`, there is no way from where it stands to there; or
                `artifact_dropped`, it is to serve and nothing is left of it but its card.

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
                hint=f"Train another: what ended may serve again for {ARTIFACTS_KEPT_DAYS} days.",
            )
        return replace(self, state=to, moved_at=at, reason=reason)


PERCENT_DEFAULT: Final = 5.0
"""Of the sessions; so few are harmed by a bad model, and a good one is told apart in days."""
_BYTES: Final = 6
"""Of the hash: 48 bits are a fraction below 1 that a float holds exactly."""


def bucket_of(model: int, *, tenant: str, who: str) -> float:
    """Give the place of a session before a model, from 0 to below 100, the same for ever.

    It is drawn from the SHA-256 of all three: even over sessions, and of one model it says nothing
    about that of another.
    """
    named = f"{model}:{tenant}:{who}".encode(errors="replace")
    return int.from_bytes(sha256(named).digest()[:_BYTES]) / 256**_BYTES * 100


def is_in_canary(card: ModelCard, caller: Caller) -> bool:
    """Say whether a model that serves at all serves this caller; more percent keep who had it."""
    if card.state is not ModelState.CANARY:
        return card.state is ModelState.ACTIVE
    who = caller.session or caller.agent
    is_drawn = bucket_of(card.id, tenant=caller.tenant, who=who) < card.percent
    return is_drawn or caller.agent in card.allow


def serving_of(cards: Iterable[ModelCard], caller: Caller) -> ModelCard | None:
    """Give the model that serves a caller: the canary where it may, else the active one."""
    serving = [card for card in cards if is_in_canary(card, caller)]
    return min(serving, key=lambda card: card.state is ModelState.ACTIVE, default=None)
