"""Leases of tasks: claimed, renewed, released; of two who claim at once exactly one has it."""

from __future__ import annotations

from dataclasses import replace

from commonbrain.coordination.session_views import Claiming, Lease, Owed
from commonbrain.history.change_plan import check_current, show
from commonbrain.history.unit_of_work import Act
from commonbrain.model import ids
from commonbrain.model.errors import Invalid, Refused
from commonbrain.model.kinds import Kind, TaskDetail
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Role, check_may_write
from commonbrain.model.tasks import OWED, holder_of, lease_end
from commonbrain.storage.change_log import check_lease, is_held


def claim(act: Act, id_: str, *, minutes: int) -> Lease:
    """Claim a task that is to be done, or renew the claim.

    Raises:
        Refused: `lease_held` by another, or `not_open`.
        Invalid: it is no task, or the minutes are out of bounds.

    """
    until = lease_end(minutes, now=act.now)
    task, detail = _task(act, id_)
    if detail.status not in OWED:
        raise Refused(
            f"{show(task)} is {detail.status}: there is nothing to claim.",
            code="not_open",
            hint="Open it again first: revise status, value open.",
        )
    check_lease(act.tx, act.caller, memory=task, now=act.now)
    holder = holder_of(act.caller)
    is_renewed = detail.lease_holder == holder and is_held(act.tx, detail, now=act.now)
    claimed = replace(detail, lease_holder=holder, lease_until=until)
    _amend(act, task, detail=claimed, action=Action.CLAIM)
    status = Claiming.RENEWED if is_renewed else Claiming.CLAIMED
    return Lease(id=show(task), headline=task.headline, status=status, holder=holder, until=until)


def owed(act: Act, *, project: str | None, limit: int) -> tuple[tuple[Owed, ...], int]:
    """List the tasks that are to be done, at most so many of them, and count all."""
    look = act.look(Filter(kinds=(Kind.TASK,), states=(State.ACTIVE,), project=project))
    ranked = act.tx.board.owed(look, limit=limit)
    found = act.tx.memories.get(ranked.ids)
    return tuple(_shown(act, found[id_]) for id_ in ranked.ids), ranked.total


def _shown(act: Act, task: Memory) -> Owed:
    detail = task.detail if isinstance(task.detail, TaskDetail) else TaskDetail()
    is_taken = is_held(act.tx, detail, now=act.now)
    return Owed(
        id=show(task),
        headline=task.headline,
        status=detail.status,
        priority=detail.priority,
        project=task.project,
        due_at=detail.due_at,
        assignee=detail.assignee,
        must_ack=detail.must_ack,
        holder=detail.lease_holder if is_taken else None,
        until=detail.lease_until if is_taken else None,
    )


def release(act: Act, id_: str) -> Lease:
    """Give a task back; an admin may do so for another.

    Raises:
        Refused: `lease_held` by another.
        Invalid: it is no task.

    """
    task, detail = _task(act, id_)
    if act.caller.role is not Role.ADMIN:
        check_lease(act.tx, act.caller, memory=task, now=act.now)
    status = Claiming.RELEASED if is_held(act.tx, detail, now=act.now) else Claiming.FREE
    _amend(
        act,
        task,
        detail=replace(detail, lease_holder=None, lease_until=None),
        action=Action.RELEASE,
    )
    return Lease(id=show(task), headline=task.headline, status=status)


def _task(act: Act, id_: str) -> tuple[Memory, TaskDetail]:
    task = act.fetch(ids.parse(ids.MEMORY, id_))
    check_may_write(act.caller, task.scope)
    check_current(task, act.now)
    if not isinstance(task.detail, TaskDetail):
        raise Invalid(f"{show(task)} is a {task.kind}; only a task is claimed.")
    return task, task.detail


def _amend(act: Act, task: Memory, *, detail: TaskDetail, action: Action) -> None:
    if detail != task.detail:
        act.amend(task, replace(task, detail=detail), deed=act.deed(action, None))
