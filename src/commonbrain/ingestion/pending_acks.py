"""Pending acknowledgements: the one place where action items block writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.escaping import inert_line
from commonbrain.model.memory import Memory
from commonbrain.model.scope import Caller

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_NAMED_MAX: Final = 10
"""Action items that a rejection names; it counts the others."""


def pending_items(
    tx: Transaction, caller: Caller, *, project: str | None, now: datetime
) -> list[Memory]:
    """List the action items that bind a caller in a project, oldest first."""
    reach = _reach(caller, [project])
    pending = tx.acks.pending(caller, projects=reach, now=now)
    memories = tx.memories.get(pending)
    return [memories[id_] for id_ in pending if id_ in memories]


def check_pending_acks(
    tx: Transaction,
    caller: Caller,
    *,
    projects: Iterable[str | None] | None,
    now: datetime,
    settles: Collection[int] = (),
) -> None:
    """Reject a write while action items bind where it is made; called in its transaction.

    `projects` are the projects written to, None for any; `settles` names what the write completes
    or removes. A write that does this to action items only is allowed.

    Raises:
        RejectedError: `action_items_pending` names them and the next call.

    """
    reach = None if projects is None else _reach(caller, projects)
    pending = tx.acks.pending(caller, projects=reach, now=now)
    if pending and not (settles and set(settles) <= set(pending)):
        raise _refusal(tx, pending)


def check_pending_acks_of(
    tx: Transaction,
    caller: Caller,
    *,
    memories: Collection[Memory],
    now: datetime,
    is_resolving: bool = False,
) -> None:
    """Reject a change of memories while action items bind where they are.

    `is_settling` tells whether the change completes or removes them.

    Raises:
        RejectedError: `action_items_pending` names them and the next call.

    """
    if memories:
        settles = [one.id for one in memories] if is_resolving else []
        projects = {one.project for one in memories}
        check_pending_acks(tx, caller, projects=projects, now=now, settles=settles)


def _reach(caller: Caller, projects: Iterable[str | None]) -> frozenset[str]:
    return frozenset(one for one in (*projects, caller.project) if one is not None)


def _refusal(tx: Transaction, pending: list[int]) -> RejectedError:
    memories = tx.memories.get(pending[:_NAMED_MAX])
    named = [f"{_shown(id_)} ({inert_line(one.headline)})" for id_, one in memories.items()]
    more = f", and {len(pending) - len(named)} more" if len(pending) > len(named) else ""
    count = "1 action item wants" if len(pending) == 1 else f"{len(pending)} action items want"
    return RejectedError(
        f"{count} an answer before anything is written: {', '.join(sorted(named))}{more}.",
        code="action_items_pending",
        hint=f"Answer each, then repeat this call: revise ack {_shown(pending[0])} with value "
        "will_execute; or already_done or not_relevant, with a reason; or deferred, with due_at.",
    )


def _shown(id_: int) -> str:
    return ids.show(ids.MEMORY, id_)
