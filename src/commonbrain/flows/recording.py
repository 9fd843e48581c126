"""What every change leaves behind in its own transaction: a line of audit and an event."""

from datetime import datetime
from typing import Final, Literal

from commonbrain.domain.memory import Memory
from commonbrain.domain.scope import Caller
from commonbrain.ports.store import AuditEntry, Transaction

Action = Literal["create", "forget", "supersede"]
_TOPICS: Final = {
    "create": "memory.created",
    "forget": "memory.forgotten",
    "supersede": "memory.superseded",
}


def record(
    tx: Transaction,
    memory: Memory,
    *,
    action: Action,
    caller: Caller,
    reason: str | None,
    at: datetime,
) -> None:
    """Say who did what to a memory, and tell the workers."""
    entry = AuditEntry(
        action=action,
        memory_id=memory.id,
        agent=caller.agent,
        session=caller.session,
        reason=reason,
        content=memory.text,
        at=at,
    )
    tx.records.audit(entry)
    tx.records.publish(_TOPICS[action], memory.id, at=at)
