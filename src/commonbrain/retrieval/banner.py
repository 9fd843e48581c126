"""What stands above or instead of a memory that no longer holds."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import ERASED, Memory, State
from commonbrain.model.timestamps import show_instant

FORGOTTEN: Final = "(forgotten)"
"""Stands for the headline of what was forgotten: no word of it is shown again."""
DEPRECATED: Final = "DEPRECATED"
"""How a rule reads that another has replaced."""

_TOLD: Final[Mapping[State, str]] = {
    State.FORGOTTEN: "Forgotten: no longer held to be true or wanted; its text is not shown.",
    State.QUARANTINED: "Quarantined: it awaits review, binds nobody and is not recalled.",
    State.CANDIDATE: "Candidate: proposed and not yet approved; it is not recalled.",
    State.EXPIRED: "Expired: it is not recalled any more.",
}


def banner(memory: Memory, head: Memory, *, now: datetime) -> str | None:
    """Say why a memory does not hold, and which does; None when it is current.

    `head` is the memory at the end of its chain of revisions.
    """
    if memory.state is State.SUPERSEDED:
        return f"{_superseded(memory)} {_successor(head)}"
    if memory.state is State.FORGOTTEN and memory.headline == ERASED:
        return "Erased: every word of it was taken out of the store."
    if memory.state in _TOLD:
        return _TOLD[memory.state]
    if memory.expires_at is not None and memory.expires_at <= now:
        return f"Expired at {show_instant(memory.expires_at)}: it is not recalled any more."
    return None


def _superseded(memory: Memory) -> str:
    return f"{DEPRECATED}, superseded:" if memory.kind is Kind.RULE else "Superseded:"


def _successor(head: Memory) -> str:
    shown = ids.show(ids.MEMORY, head.id)
    if head.state is State.FORGOTTEN:
        done = "erased" if head.headline == ERASED else "forgotten"
        return f"by {shown}, which was {done} since."
    return f"{shown} holds now: {head.headline}"
