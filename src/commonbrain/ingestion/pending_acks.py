"""Pending acknowledgements: the one place where action items block writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.ingestion.validation import Rejection
from commonbrain.model import ids
from commonbrain.model.errors import ACTION_ITEMS_PENDING, RejectedError
from commonbrain.model.escaping import inert_line
from commonbrain.model.memory import Memory
from commonbrain.model.scope import Authority, Caller, Role
from commonbrain.model.tasks import WITHDRAW, must_be_acknowledged
from commonbrain.model.timestamps import show_day
from commonbrain.security.guard import note_shown

if TYPE_CHECKING:
    from commonbrain.ingestion.batch import WriteContext
    from commonbrain.ingestion.preparation import PreparedDraft
    from commonbrain.services import Services
    from commonbrain.storage.store import Transaction

OPEN_ITEMS_MAX: Final = 10
"""Action items of one agent that block others in one project; a boot shows as many."""
_NAMED_MAX: Final = 10
"""Action items that a rejection names; it counts the others."""
_TEXT_CHARS: Final = 160
"""Characters shown of the text of an item, where it says more than the headline."""


def is_owner(services: Services, caller: Caller) -> bool:
    """Return whether this is the owner of the store; action items never block the owner."""
    is_local = caller.admission is None and caller.agent == services.owner
    return is_local and caller.role is Role.ADMIN and caller.authority is Authority.PERSON


def pending_items(
    tx: Transaction, caller: Caller, *, project: str | None, now: datetime
) -> list[Memory]:
    """List the action items that bind a caller in a project: a person's first, then the oldest."""
    reach = _reach(caller, [project])
    return _in_order(tx, tx.acks.pending(caller, projects=reach, now=now))


def _in_order(tx: Transaction, pending: Sequence[int]) -> list[Memory]:
    memories = tx.memories.get(pending)
    known = (memories[id_] for id_ in pending if id_ in memories)
    return sorted(known, key=lambda one: one.authority.rank)


def check_pending_acks(
    context: WriteContext,
    projects: Iterable[str | None] | None,
    *,
    settles: Collection[int] = (),
) -> None:
    """Reject a write while action items bind where it is made; called in its transaction.

    `projects` are the projects written to, None for any; a write without a project counts as one
    in the project of the caller. `settles` names what the write completes or removes. A write that
    does this to action items only is allowed.

    Raises:
        RejectedError: `action_items_pending` names them and the next call.

    """
    if is_owner(context.services, context.caller):
        return
    reach = None if projects is None else _reach(context.caller, projects)
    pending = context.tx.acks.pending(context.caller, projects=reach, now=context.now)
    if pending and not (settles and set(settles) <= set(pending)):
        raise _refusal(context.tx, pending)


def check_pending_acks_of(
    context: WriteContext, memories: Collection[Memory], *, is_resolving: bool = False
) -> None:
    """Reject a change of memories while action items bind where they are.

    `is_resolving` says whether the change completes or removes them.

    Raises:
        RejectedError: `action_items_pending` names them and the next call.

    """
    if memories:
        settles = [memory.id for memory in memories] if is_resolving else []
        check_pending_acks(context, {memory.project for memory in memories}, settles=settles)


def check_open_items(
    context: WriteContext, prepared: PreparedDraft, *, exact: Memory | None
) -> Rejection | None:
    """Return why an agent sets no further action item in a project; called in its transaction."""
    is_new = exact is None and not context.options.revision_number
    if not (is_new and must_be_acknowledged(prepared.admitted.detail)):
        return None
    open_items = context.tx.acks.set_by(
        context.caller.agent, project=prepared.project, now=context.now
    )
    if len(open_items) < OPEN_ITEMS_MAX:
        return None
    where = f"project {inert_line(prepared.project)}" if prepared.project else "every project"
    first = ids.show(ids.MEMORY, open_items[0])
    return Rejection(
        code="limit_exceeded",
        reason=f"{len(open_items)} action items of {inert_line(context.caller.agent)} block the "
        f"writers of {where} already; {OPEN_ITEMS_MAX} are allowed.",
        hint=f"Leave must_ack out, or lift one first: revise ack {first}, value {WITHDRAW}; in a "
        f"shell, brain task ack {first} {WITHDRAW}.",
    )


def _reach(caller: Caller, projects: Iterable[str | None]) -> frozenset[str]:
    named = (one or caller.project for one in projects)
    return frozenset(one for one in named if one is not None)


def _refusal(tx: Transaction, pending: list[int]) -> RejectedError:
    memories = _in_order(tx, pending)[:_NAMED_MAX]
    more = f"; and {len(pending) - len(memories)} more" if len(pending) > len(memories) else ""
    what = "1 action item" if len(pending) == 1 else f"{len(pending)} action items"
    note_shown(one.id for one in memories)
    first = memories[0]
    listed = ",".join(ids.show(ids.MEMORY, one.id) for one in memories)
    return RejectedError(
        f"{what} must be acknowledged before this is written: "
        f"{'; '.join(map(_described, memories))}{more}.",
        code=ACTION_ITEMS_PENDING,
        hint=f"revise ack {listed}, value will_execute (or already_done or not_relevant, with a "
        "reason; or deferred, with due_at), then repeat this call; in a shell, "
        f"brain task ack {listed if len(memories) == 1 else 'IDS'} will_execute. "
        f"{inert_line(first.agent)} or an admin can lift it with the value {WITHDRAW}.",
    )


def _described(item: Memory) -> str:
    """Name an action item, who set it when, where it binds, and what else it says."""
    where = f"project {inert_line(item.project)}" if item.project else "every project"
    text = inert_line(item.body)
    cut = text if len(text) <= _TEXT_CHARS else f"{text[: _TEXT_CHARS - 1].rstrip()}…"
    says = "" if text == inert_line(item.headline) else f": {cut}"
    return (
        f"{ids.show(ids.MEMORY, item.id)} ({inert_line(item.headline)}), set by "
        f"{inert_line(item.agent)} on {show_day(item.recorded_at)} for {where}{says}"
    )
