"""Which sessions a canary serves: a sticky share of them, and the agents that it is tried on."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from commonbrain.domain.model_card import ModelCard, ModelState
from commonbrain.domain.scope import Caller

PERCENT_DEFAULT: Final = 5.0
"""Of the sessions; so few are harmed by a bad model, and a good one is told apart in days."""
_BYTES: Final = 6
"""Of the hash: 48 bits are a fraction below 1 that a float holds exactly."""


def place_of(model: int, *, tenant: str, who: str) -> float:
    """Give the place of a session before a model, from 0 to below 100, the same for ever.

    It is drawn from the SHA-256 of all three: even over sessions, and of one model it says nothing
    about that of another.
    """
    named = f"{model}:{tenant}:{who}".encode(errors="replace")
    return int.from_bytes(sha256(named).digest()[:_BYTES]) / 256**_BYTES * 100


def serves(card: ModelCard, caller: Caller) -> bool:
    """Say whether a model that serves at all serves this caller; more percent keep who had it."""
    if card.state is not ModelState.CANARY:
        return card.state is ModelState.ACTIVE
    who = caller.session or caller.agent
    is_drawn = place_of(card.id, tenant=caller.tenant, who=who) < card.percent
    return is_drawn or caller.agent in card.allow


def serving_of(cards: Iterable[ModelCard], caller: Caller) -> ModelCard | None:
    """Give the model that serves a caller: the canary where it may, else the active one."""
    serving = [card for card in cards if serves(card, caller)]
    return min(serving, key=lambda card: card.state is ModelState.ACTIVE, default=None)
