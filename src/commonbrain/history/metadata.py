"""Metadata of a memory: pin, tags, rating, review, and the status of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from commonbrain.history.change_plan import (
    ChangePlan,
    PutAck,
    ResolveReviews,
    Step,
    UpdateMemory,
    amend_steps,
    check_current,
    show,
)
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.model.errors import InvalidInputError, RejectedError, parse_choice
from commonbrain.model.kinds import TaskDetail, TaskPriority, TaskStatus
from commonbrain.model.limits import NAME_CHARS_MAX, TAGS_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.revision import Action
from commonbrain.model.scope import check_may_write
from commonbrain.model.tasks import OWED, Ack, Decision, check_decision, must_be_acknowledged
from commonbrain.model.timestamps import instant
from commonbrain.security.authority import Proposal, is_authorized
from commonbrain.storage.change_log import check_lease
from commonbrain.text.normalisation import normalise_line


def pin(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Pin a memory so that it never decays, or unpin it."""
    check_current(memory, unit.now)
    is_pinned = bool(proposal.told["pinned"])
    return ChangePlan(
        steps=amend_steps(memory, replace(memory, pinned=is_pinned)), requires_trust=is_pinned
    )


def retag(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Add and remove tags; the others keep their order."""
    check_current(memory, unit.now)
    added, removed = proposal.told["add"], proposal.told["remove"]
    tags = tuple(dict.fromkeys(tag for tag in (*memory.tags, *added) if tag not in removed))
    if len(tags) > TAGS_MAX:
        raise RejectedError(
            f"It would have {len(tags)} tags; {TAGS_MAX} are allowed.",
            code="limit_exceeded",
            hint="Remove some in the same call.",
        )
    return ChangePlan(steps=amend_steps(memory, replace(memory, tags=tags)))


def rate(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Count one vote, up or down."""
    check_current(memory, unit.now)
    vote = int(proposal.told["vote"])
    return ChangePlan(steps=amend_steps(memory, replace(memory, rating=memory.rating + vote)))


def review(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:  # noqa: ARG001 the planners' shape
    """Confirm a memory that needs review."""
    check_current(memory, unit.now)
    return ChangePlan(steps=resolve_reviews_steps(unit, memory))


def resolve_reviews_steps(unit: UnitOfWork, memory: Memory) -> tuple[Step, ...]:
    """Plan to resolve the open reviews of a memory, if it has any."""
    known_reviews = unit.tx.reviews.of([memory.id]).get(memory.id, ())
    opened = tuple(one for one in known_reviews if one.is_open and not one.is_of_itself)
    return (ResolveReviews(memory=memory, reviews=opened),) if opened else ()


def set_status(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Set the status of a task, and its due time, priority or assignee if given."""
    check_current(memory, unit.now)
    if not isinstance(memory.detail, TaskDetail):
        raise InvalidInputError(f"{show(memory)} is a {memory.kind}; only a task has a status.")
    check_lease(unit.tx, unit.caller, memory=memory, now=unit.now)
    given = proposal.told
    due_at, priority, assignee = given["due_at"], given["priority"], given["assignee"]
    status = parse_choice(TaskStatus, given["status"])
    detail = replace(
        _with_status(memory.detail, status),
        due_at=instant(due_at) if due_at else memory.detail.due_at,
        priority=parse_choice(TaskPriority, priority) if priority else memory.detail.priority,
        assignee=assignee or memory.detail.assignee,
    )
    return ChangePlan(steps=amend_steps(memory, replace(memory, detail=detail)))


def closed_task(memory: Memory, detail: TaskDetail) -> Memory:
    """Return a task as done."""
    return replace(memory, detail=_with_status(detail, TaskStatus.DONE))


def _with_status(detail: TaskDetail, status: TaskStatus) -> TaskDetail:
    """Set the status; a task that is no longer open loses its lease."""
    if status in OWED:
        return replace(detail, status=status)
    return replace(detail, status=status, lease_holder=None, lease_until=None)


def plain_names(given: Sequence[str], *, what: str) -> list[str]:
    """Return distinct names without surrounding space.

    Raises:
        InvalidInputError: a name is empty or too long.

    """
    names = [normalise_line(name) or "" for name in given]
    for name in names:
        if not name or len(name) > NAME_CHARS_MAX:
            raise InvalidInputError(
                f"The {what} {name[:40]!r} has {len(name)} characters.",
                hint=f"Give 1 to {NAME_CHARS_MAX}.",
            )
    return list(dict.fromkeys(names))


def plain_instant(given: datetime | str | None) -> str | None:
    """Format a time as the JSON value stored in a proposal."""
    return instant(given).isoformat() if given else None


def acknowledge(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Acknowledge an action item; a task that is done already is marked so."""
    check_current(memory, unit.now)
    if not must_be_acknowledged(memory.detail):
        raise RejectedError(
            f"{show(memory)} is no action item: nobody has to acknowledge it.",
            code="not_an_action_item",
            hint="To close a task: revise status, value done.",
        )
    until = proposal.told["until"]
    ack = Ack(
        memory_id=memory.id,
        agent=unit.caller.agent,
        session=unit.caller.session or "",
        decision=parse_choice(Decision, proposal.told["decision"]),
        reason=proposal.reason,
        until=instant(until) if until else None,
        at=unit.now,
    )
    check_decision(ack, memory.kind)
    there = unit.tx.acks.of([memory.id]).get(memory.id, [])
    known = next((one for one in there if one.whose == ack.whose), None)
    is_new = known is None or not known.says_the_same(ack)
    answer = (PutAck(memory=memory, known=known, ack=ack),) if is_new else ()
    return _closing(unit, memory, plan=ChangePlan(steps=answer), decision=ack.decision)


def _closing(
    unit: UnitOfWork, memory: Memory, *, plan: ChangePlan, decision: Decision
) -> ChangePlan:
    """Plan to close a task reported as done, if the caller has the authority."""
    detail = memory.detail
    if not isinstance(detail, TaskDetail) or detail.status not in OWED:
        return plan
    if decision is not Decision.ALREADY_DONE:
        return plan
    check_may_write(unit.caller, memory.scope)
    if not is_authorized(unit.caller, memory):
        return replace(plan, hint="The task stays open: somebody trusted as much has to close it.")
    check_lease(unit.tx, unit.caller, memory=memory, now=unit.now)
    done = UpdateMemory(before=memory, after=closed_task(memory, detail), action=Action.STATUS)
    return replace(plan, steps=(*plan.steps, done))
