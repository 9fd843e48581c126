"""Marks on a memory, which leave its text alone: pin, tags, rating, a task's status."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from commonbrain.history.change_plan import (
    Amend,
    Plan,
    PutAck,
    Settle,
    Step,
    amending,
    check_current,
    show,
)
from commonbrain.history.unit_of_work import Act
from commonbrain.model.errors import Invalid, Refused, one_of
from commonbrain.model.kinds import TaskDetail, TaskPriority, TaskStatus
from commonbrain.model.limits import NAME_CHARS_MAX, TAGS_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.revision import Action
from commonbrain.model.scope import check_may_write
from commonbrain.model.tasks import OWED, Ack, Decision, check_decision, must_be_acknowledged
from commonbrain.model.timestamps import instant
from commonbrain.security.authority import Proposal, is_entitled
from commonbrain.storage.change_log import check_lease
from commonbrain.text.normalisation import normalise_line


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


def acknowledge(act: Act, memory: Memory, *, wanted: Proposal) -> Plan:
    """Answer an action item; a task that is done already is marked so."""
    check_current(memory, act.now)
    if not must_be_acknowledged(memory.detail):
        raise Refused(
            f"{show(memory)} is no action item: nobody has to acknowledge it.",
            code="not_an_action_item",
            hint="To close a task: revise status, value done.",
        )
    until = wanted.told["until"]
    ack = Ack(
        memory_id=memory.id,
        agent=act.caller.agent,
        session=act.caller.session or "",
        decision=one_of(Decision, wanted.told["decision"]),
        reason=wanted.reason,
        until=instant(until) if until else None,
        at=act.now,
    )
    check_decision(ack, memory.kind)
    there = act.tx.duties.of([memory.id]).get(memory.id, [])
    known = next((one for one in there if one.whose == ack.whose), None)
    is_new = known is None or not known.says_the_same(ack)
    answer = (PutAck(memory=memory, known=known, ack=ack),) if is_new else ()
    return _closing(act, memory, plan=Plan(steps=answer), decision=ack.decision)


def _closing(act: Act, memory: Memory, *, plan: Plan, decision: Decision) -> Plan:
    """Close a task too that is said to be done, where the caller has the authority."""
    detail = memory.detail
    if not isinstance(detail, TaskDetail) or detail.status not in OWED:
        return plan
    if decision is not Decision.ALREADY_DONE:
        return plan
    check_may_write(act.caller, memory.scope)
    if not is_entitled(act.caller, memory):
        return replace(plan, hint="The task stays open: somebody trusted as much has to close it.")
    check_lease(act.tx, act.caller, memory=memory, now=act.now)
    done = Amend(before=memory, after=closed(memory, detail), action=Action.STATUS)
    return replace(plan, steps=(*plan.steps, done))
