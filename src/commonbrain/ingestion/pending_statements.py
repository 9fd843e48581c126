"""What users said in prompts that waits for a person."""

from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.values import replace
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.store import Transaction

SAID: Final = "said_by_user"
"""The key in the payload of what a user said, with the place; no caller can set it."""
PENDING_MAX: Final = 50
"""What users said that waits; nobody decides on more."""
_READ_MAX: Final = 4 * PENDING_MAX
"""Memories that wait for a person, of which some are what a user said."""
_KINDS: Final = (Kind.FACT, Kind.RULE)


def pending_statements(tx: Transaction, scope: QueryScope, *, limit: int) -> list[Memory]:
    """Return what users said in a project that waits for a person, newest first."""
    criteria = Filter(
        states=(State.QUARANTINED,), project=scope.caller.project, trust_min=0, kinds=_KINDS
    )
    hits = tx.memories.newest(replace(scope, filter=criteria), limit=_READ_MAX)
    waiting = tx.memories.get([hit.id for hit in hits]).values()
    statements = sorted((one for one in waiting if SAID in one.payload), key=lambda one: -one.id)
    return statements[:limit]
