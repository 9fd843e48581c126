"""Open tasks: pages of them, and the leases by which one agent works on each."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from commonbrain.coordination.session_views import Lease, LeaseStatus, OpenTask
from commonbrain.history.change_plan import check_current, show
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import Kind, TaskDetail
from commonbrain.model.memory import Memory, State
from commonbrain.model.paging import Listing, Page
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Authority, Role, check_may_write
from commonbrain.model.tasks import OPEN_STATUSES, holder_of, lease_end
from commonbrain.model.timestamps import from_millis, to_millis
from commonbrain.storage.change_log import check_lease, is_held


def claim(unit: UnitOfWork, id_: str, *, minutes: int) -> Lease:
    """Lease an open task, or renew the lease.

    Raises:
        RejectedError: `lease_held` by another, or `not_open`.
        InvalidInputError: it is not a task, or the minutes are out of range.

    """
    until = lease_end(minutes, now=unit.now)
    task, detail = _task(unit, id_)
    if detail.status not in OPEN_STATUSES:
        raise RejectedError(
            f"{show(task)} is {detail.status}: there is nothing to claim.",
            code="not_open",
            hint="Reopen it first: revise status, value open.",
        )
    check_lease(unit.tx, unit.caller, memory=task, now=unit.now)
    holder = holder_of(unit.caller)
    is_renewed = detail.lease_holder == holder and is_held(unit.tx, detail, now=unit.now)
    claimed = replace(detail, lease_holder=holder, lease_until=until)
    _amend(unit, task, detail=claimed, action=Action.CLAIM)
    status = LeaseStatus.RENEWED if is_renewed else LeaseStatus.CLAIMED
    return Lease(id=show(task), headline=task.headline, status=status, holder=holder, until=until)


def open_tasks(
    unit: UnitOfWork, *, project: str | None, listing: Listing
) -> tuple[Page[OpenTask], int]:
    """Return a page of open tasks, and count all."""
    query_scope = unit.query_scope(
        Filter(
            kinds=(Kind.TASK,), states=(State.ACTIVE,), project=project, trust_min=unit.trust_min
        )
    )
    key = listing.after(int, datetime, int)
    after = None if key is None else (int(key[0]), from_millis(int(key[1])), int(key[2]))

    def rows(most: int) -> list[tuple[int, datetime, int]]:
        return unit.tx.briefing.task_keys(query_scope, after=after, limit=most)

    page = listing.page(
        rows(listing.limit + 1),
        key=lambda row: (row[0], to_millis(row[1]), row[2]),
        count=lambda most: len(rows(most)),
    )
    memories = unit.tx.memories.get([id_ for *_, id_ in page.rows])
    tasks = tuple(_open_task(unit, memories[id_]) for *_, id_ in page.rows)
    total = unit.tx.briefing.open_tasks(query_scope, limit=1).total
    return Page(rows=tasks, next=page.next, more=page.more), total


def _open_task(unit: UnitOfWork, task: Memory) -> OpenTask:
    detail = task.detail if isinstance(task.detail, TaskDetail) else TaskDetail()
    is_taken = is_held(unit.tx, detail, now=unit.now)
    return OpenTask(
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


def release(unit: UnitOfWork, id_: str) -> Lease:
    """Release a task; an admin may do so for another.

    Raises:
        RejectedError: `lease_held` by another.
        InvalidInputError: it is not a task.

    """
    task, detail = _task(unit, id_)
    is_admin = unit.caller.role is Role.ADMIN and unit.caller.authority is Authority.PERSON
    if not is_admin:
        check_lease(unit.tx, unit.caller, memory=task, now=unit.now)
    status = LeaseStatus.RELEASED if is_held(unit.tx, detail, now=unit.now) else LeaseStatus.FREE
    _amend(
        unit,
        task,
        detail=replace(detail, lease_holder=None, lease_until=None),
        action=Action.RELEASE,
    )
    return Lease(id=show(task), headline=task.headline, status=status)


def _task(unit: UnitOfWork, id_: str) -> tuple[Memory, TaskDetail]:
    task = unit.fetch(ids.parse(ids.MEMORY, id_))
    check_may_write(unit.caller, task.scope)
    check_current(task, unit.now)
    if not isinstance(task.detail, TaskDetail):
        raise InvalidInputError(f"{show(task)} is a {task.kind}; only a task can be claimed.")
    return task, task.detail


def _amend(unit: UnitOfWork, task: Memory, *, detail: TaskDetail, action: Action) -> None:
    if detail != task.detail:
        unit.amend(task, replace(task, detail=detail), action=action)
