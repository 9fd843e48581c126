"""What keeps two agents from changing one memory past each other: leases and versions."""

from __future__ import annotations

from datetime import datetime

from commonbrain.domain import ids
from commonbrain.domain.errors import Refused
from commonbrain.domain.kinds import TaskDetail
from commonbrain.domain.lease import holder_of, is_leased
from commonbrain.domain.memory import Memory
from commonbrain.domain.scope import Caller
from commonbrain.domain.times import show_instant
from commonbrain.ports.store import Transaction


def version_of(tx: Transaction, memory_id: int) -> int:
    """Count the changes of a memory, its birth the first; marks beside it do not count."""
    return tx.changes.versions([memory_id]).get(memory_id, 0)


def check_version(tx: Transaction, memory_id: int, *, version: int | None) -> None:
    """Let a change through that rests on what the memory says now; None does not care.

    Raises:
        Refused: `version_conflict` names the current version.

    """
    current = version_of(tx, memory_id) if version is not None else None
    if current != version:
        id_ = ids.show(ids.MEMORY, memory_id)
        raise Refused(
            f"{id_} is at version {current} now, and this change rests on version {version}.",
            code="version_conflict",
            hint=f"Get {id_} again, then decide anew; history tells who changed it.",
        )


def check_lease(tx: Transaction, caller: Caller, *, memory: Memory, now: datetime) -> None:
    """Let a caller move a task on that nobody else has claimed.

    Raises:
        Refused: `lease_held` names the holder and until when.

    """
    detail = memory.detail
    if not isinstance(detail, TaskDetail) or not is_held(tx, detail, now=now):
        return
    if detail.lease_holder == holder_of(caller) or detail.lease_until is None:
        return
    id_ = ids.show(ids.MEMORY, memory.id)
    raise Refused(
        f"{id_} is claimed by {detail.lease_holder} until {show_instant(detail.lease_until)}.",
        code="lease_held",
        hint="Wait, take another task, or ask the holder by a message. An admin may release it.",
    )


def is_held(tx: Transaction, detail: TaskDetail, *, now: datetime) -> bool:
    """Say whether a task is claimed by somebody whose time is not up and who is not gone."""
    holder = detail.lease_holder
    return holder is not None and is_leased(detail, now=now) and not tx.duties.has_ended(holder)
