"""Marks on a memory, which leave its text alone: pin, tags, rating, a task's status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from commonbrain.domain.action_items import OWED
from commonbrain.domain.authority import Proposal
from commonbrain.domain.choice import one_of
from commonbrain.domain.errors import Invalid, Refused
from commonbrain.domain.kinds import TaskDetail, TaskPriority, TaskStatus
from commonbrain.domain.limits import NAME_CHARS_MAX, TAGS_MAX
from commonbrain.domain.memory import Memory
from commonbrain.domain.normalise import normalise_line
from commonbrain.domain.times import instant
from commonbrain.flows.act import Act
from commonbrain.flows.revise.plan import Plan, Settle, Step, amending, check_current, show
from commonbrain.flows.versions import check_lease


def pin(act: Act, memory: Memory, *, wanted: Proposal) -> Plan:
    """Pin a memory, so that it never fades, or take the pin off."""
    check_current(memory, act.now)
    is_pinned = bool(wanted.told["pinned"])
    return Plan(steps=amending(memory, replace(memory, pinned=is_pinned)), is_weighty=is_pinned)


def retag(act: Act, memory: Memory, *, wanted: Proposal) -> Plan:
    """Add and take away tags; the others keep their order."""
    check_current(memory, act.now)
    added, removed = wanted.told["add"], wanted.told["remove"]
    tags = tuple(dict.fromkeys(tag for tag in (*memory.tags, *added) if tag not in removed))
    if len(tags) > TAGS_MAX:
        raise Refused(
            f"It would have {len(tags)} tags; {TAGS_MAX} are allowed.",
            code="limit_exceeded",
            hint="Remove some in the same call.",
        )
    return Plan(steps=amending(memory, replace(memory, tags=tags)))


def rate(act: Act, memory: Memory, *, wanted: Proposal) -> Plan:
    """Count one vote from use, up or down."""
    check_current(memory, act.now)
    vote = int(wanted.told["vote"])
    return Plan(steps=amending(memory, replace(memory, rating=memory.rating + vote)))


def review(act: Act, memory: Memory, *, wanted: Proposal) -> Plan:  # noqa: ARG001 the planners' shape
    """Vouch for a memory that needs review: somebody has looked, and it holds."""
    check_current(memory, act.now)
    return Plan(steps=settling(act, memory))


def settling(act: Act, memory: Memory) -> tuple[Step, ...]:
    """Plan to settle the open reviews of a memory, if it has any."""
    there = act.tx.reviews.of([memory.id]).get(memory.id, ())
    opened = tuple(one for one in there if one.is_open and not one.is_of_itself)
    return (Settle(memory=memory, reviews=opened),) if opened else ()


def set_status(act: Act, memory: Memory, *, wanted: Proposal) -> Plan:
    """Move a task on, with a new due time, priority or assignee where given."""
    check_current(memory, act.now)
    if not isinstance(memory.detail, TaskDetail):
        raise Invalid(f"{show(memory)} is a {memory.kind}; only a task has a status.")
    check_lease(act.tx, act.caller, memory=memory, now=act.now)
    given = wanted.told
    due_at, priority, assignee = given["due_at"], given["priority"], given["assignee"]
    status = one_of(TaskStatus, given["status"])
    detail = replace(
        _moved(memory.detail, status),
        due_at=instant(due_at) if due_at else memory.detail.due_at,
        priority=one_of(TaskPriority, priority) if priority else memory.detail.priority,
        assignee=assignee or memory.detail.assignee,
    )
    return Plan(steps=amending(memory, replace(memory, detail=detail)))


def closed(memory: Memory, detail: TaskDetail) -> Memory:
    """Give a task as it is once it is done."""
    return replace(memory, detail=_moved(detail, TaskStatus.DONE))


def _moved(detail: TaskDetail, status: TaskStatus) -> TaskDetail:
    """Move a task on; nobody holds what is no longer to be done."""
    if status in OWED:
        return replace(detail, status=status)
    return replace(detail, status=status, lease_holder=None, lease_until=None)


def plain_names(given: Sequence[str], *, what: str) -> list[str]:
    """Give names without surrounding space, each once.

    Raises:
        Invalid: one is empty or too long.

    """
    names = [normalise_line(name) or "" for name in given]
    for name in names:
        if not name or len(name) > NAME_CHARS_MAX:
            raise Invalid(
                f"The {what} {name[:40]!r} has {len(name)} characters.",
                hint=f"Give 1 to {NAME_CHARS_MAX}.",
            )
    return list(dict.fromkeys(names))


def plain_instant(given: datetime | str | None) -> str | None:
    """Write a time as the JSON value that a proposal keeps."""
    return instant(given).isoformat() if given else None
