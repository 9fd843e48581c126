"""Metadata of a memory: pin, tags, rating, review, and the status of a task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from commonbrain.history.change_plan import (
    AddAnnotation,
    ChangePlan,
    PutAck,
    PutLink,
    ResolveReviews,
    Step,
    UpdateMemory,
    amend_steps,
    check_current,
    show,
)
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.ingestion.sources import SCOPE_WIDTH
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError, check_chars, parse_choice
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import RuleDetail, TaskDetail, TaskPriority, TaskStatus
from commonbrain.model.limits import NAME_CHARS_MAX, NOTE_CHARS_MAX, TAGS_MAX
from commonbrain.model.links import INHERITED, STRENGTH_DEFAULT, Basis, Link, LinkType, strengthened
from commonbrain.model.memory import Memory, State, says_too_little
from commonbrain.model.revision import Action, Revision
from commonbrain.model.scope import Caller, Role, check_may_write
from commonbrain.model.tasks import (
    OPEN_STATUSES,
    WITHDRAW,
    Decision,
    TaskDecision,
    check_decision,
    must_be_acknowledged,
)
from commonbrain.model.timestamps import instant
from commonbrain.retrieval.citations import without_places
from commonbrain.security.authority import (
    Proposal,
    check_authorized,
    intrinsic_trust,
    is_trusted,
)
from commonbrain.services import Services
from commonbrain.storage.change_log import check_lease
from commonbrain.text.normalisation import normalise, normalise_line

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_ANNOTATABLE_STATES = frozenset({State.ACTIVE, State.ARCHIVED, State.SUPERSEDED, State.QUARANTINED})
"""States of memories whose text is shown."""


def annotate(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Add an annotation; the same text by the same author is stored once."""
    if memory.state not in _ANNOTATABLE_STATES:
        raise RejectedError(
            f"{show(memory)} is {memory.state}: it cannot be annotated.",
            code="not_current",
            hint="Restore it first.",
        )
    text = str(proposal.arguments["text"])
    there = unit.tx.annotations.of([memory.id]).get(memory.id, [])
    caller = unit.caller
    is_noted = any(
        (one.agent, one.text) == (caller.agent, text) and one.authority.covers(caller.authority)
        for one in there
    )
    return ChangePlan(steps=() if is_noted else (AddAnnotation(memory=memory, text=text),))


def link(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Link a memory to another; linking again strengthens the link."""
    check_current(memory, unit.now)
    other = unit.fetch(ids.parse(ids.MEMORY, proposal.arguments["to"]))
    check_current(other, unit.now)
    type_ = parse_choice(LinkType, proposal.arguments["type"])
    if type_ is LinkType.CHANGES:
        raise InvalidInputError(
            "That one memory changes another is detected, and never linked by a caller.",
            hint="Supersede the older one, or link them with conflicts_with.",
        )
    if type_ is LinkType.DERIVED_FROM:
        _check_source(memory, other)
    if (proposal.reason or "").startswith(INHERITED) or proposal.reason in tuple(Basis):
        raise InvalidInputError(
            f'A reason must not begin with "{INHERITED.strip()}", nor be a word such as "number".',
            hint="Give it in a sentence: these mark links that were inherited or detected.",
        )
    strength = float(proposal.arguments["strength"])
    step = link_step(unit, memory, to=other, type_=type_, basis=proposal.reason, strength=strength)
    return ChangePlan(steps=(step,))


def link_step(
    unit: UnitOfWork,
    memory: Memory,
    *,
    to: Memory,
    type_: LinkType,
    basis: str | None,
    strength: float = STRENGTH_DEFAULT,
) -> PutLink:
    """Plan to link a memory to another, or to strengthen the link that there is."""
    made = Link(
        from_id=memory.id,
        to_id=to.id,
        type=type_,
        strength=strength,
        basis=basis,
        agent=unit.caller.agent,
        trust=intrinsic_trust(unit.caller),
        authority=unit.caller.authority,
        created_at=unit.now,
        observed_at=unit.now,
    )
    known = find_link(unit.tx, memory.id, to_id=to.id, type_=type_)
    return PutLink(memory=memory, known=known, link=strengthened(known, made) if known else made)


def _check_source(memory: Memory, source: Memory) -> None:
    """Check that a memory is no more trusted and no wider than its sources.

    Raises:
        RejectedError: `source_beneath`.

    """
    if source.trust.weight < memory.trust.weight:
        what, less = f"has trust {memory.trust}", f"only {source.trust}"
    elif SCOPE_WIDTH[source.scope] < SCOPE_WIDTH[memory.scope]:
        what, less = f"has scope {memory.scope}", f"only {source.scope}"
    else:
        return
    raise RejectedError(
        f"{show(memory)} {what}, {show(source)} {less}: no memory may have more trust "
        "or a wider scope than its source.",
        code="source_beneath",
        hint="Remember it again with derived_from, which lowers it, or link it as depends_on.",
    )


def unlink(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Remove a link."""
    other = unit.fetch(ids.parse(ids.MEMORY, proposal.arguments["to"]))
    type_ = parse_choice(LinkType, proposal.arguments["type"])
    known = find_link(unit.tx, memory.id, to_id=other.id, type_=type_)
    return ChangePlan(steps=(PutLink(memory=memory, known=known, link=None),) if known else ())


def find_link(tx: Transaction, from_id: int, *, to_id: int, type_: LinkType) -> Link | None:
    """Return the link of a type from one memory to another."""
    links = tx.links.touching([from_id], types=[type_])
    return next((link for link in links if (link.from_id, link.to_id) == (from_id, to_id)), None)


def checked_annotation(text: str, *, services: Services, caller: Caller) -> str:
    """Return the text of an annotation, checked and without secrets.

    Raises:
        InvalidInputError: it is empty or too long.
        RejectedError: `secret_detected`.

    """
    plain = services.clean_text(normalise(text), what="annotation", caller=caller)
    hint = "Remember a long text as a separate memory and link the two."
    return check_chars(plain, NOTE_CHARS_MAX, what="annotation", hint=hint)


def pin(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Pin a memory so that it never decays, or unpin it."""
    check_current(memory, unit.now)
    is_pinned = bool(proposal.arguments["pinned"])
    state = State.ACTIVE if is_pinned and says_too_little(memory) else memory.state
    amended = replace(memory, pinned=is_pinned, state=state)
    return ChangePlan(steps=amend_steps(memory, amended), requires_trust=is_pinned)


def retag(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Add and remove tags; the others keep their order."""
    check_current(memory, unit.now)
    added, removed = proposal.arguments["add"], proposal.arguments["remove"]
    tags = tuple(dict.fromkeys(tag for tag in (*memory.tags, *added) if tag not in removed))
    if len(tags) > TAGS_MAX:
        raise RejectedError(
            f"It would have {len(tags)} tags; {TAGS_MAX} are allowed.",
            code="limit_exceeded",
            hint="Remove some in the same call.",
        )
    return ChangePlan(steps=amend_steps(memory, replace(memory, tags=tags)))


def set_expiry(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Set the time at which a memory stops being valid, which must be ahead."""
    check_current(memory, unit.now)
    given = proposal.arguments["expires_at"]
    expires_at = instant(given) if given else None
    if expires_at is not None and expires_at <= unit.now:
        raise InvalidInputError(
            f"{given} is not ahead.", hint="Give a later time, or forget the memory."
        )
    return ChangePlan(steps=amend_steps(memory, replace(memory, expires_at=expires_at)))


def rate(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Count the agent's vote, up or down, in place of its earlier one."""
    check_current(memory, unit.now)
    earlier = vote_of(unit.caller.agent, unit.tx.changes.of([memory.id]))
    rating = memory.rating - earlier + int(proposal.arguments["vote"])
    return ChangePlan(steps=amend_steps(memory, replace(memory, rating=rating)))


def vote_of(agent: str, changes: Iterable[Revision]) -> int:
    """Return the vote of an agent that counts in a rating: 1, -1, or 0 if it has none.

    `changes` are those of the memory, oldest first. An undo takes back the latest votes.
    """
    votes: list[tuple[str, int]] = []
    for change in changes:
        before, after = change.before.get("rating"), change.after.get("rating")
        if not (isinstance(before, int) and isinstance(after, int)):
            continue
        step = after - before
        if change.action is Action.RATE:
            votes.append((change.agent, step))
            continue
        while votes and step:
            step += votes.pop()[1]
    total = sum(step for voter, step in votes if voter == agent)
    return max(-1, min(total, 1))


def review(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Confirm a memory that needs review; it cites no code any more that is gone."""
    check_current(memory, unit.now)
    cited = without_places(memory, proposal.arguments.get("missing", ()))
    return ChangePlan(steps=(*resolve_reviews_steps(unit, memory), *amend_steps(memory, cited)))


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
    given = proposal.arguments
    due_at, priority, assignee = given["due_at"], given["priority"], given["assignee"]
    status = parse_choice(TaskStatus, given["status"])
    detail = replace(
        _with_status(memory.detail, status),
        due_at=instant(due_at) if due_at else memory.detail.due_at,
        priority=parse_choice(TaskPriority, priority) if priority else memory.detail.priority,
        assignee=assignee or memory.detail.assignee,
    )
    return ChangePlan(steps=amend_steps(memory, replace(memory, detail=detail)))


def _with_status(detail: TaskDetail, status: TaskStatus) -> TaskDetail:
    """Set the status; a task that is no longer open loses its lease."""
    if status in OPEN_STATUSES:
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
            f"{show(memory)} is not an action item and needs no acknowledgement.",
            code="not_an_action_item",
            hint="To close a task: revise status, value done; in a shell, brain task done ID.",
        )
    until = proposal.arguments["until"]
    if proposal.arguments["decision"] == WITHDRAW:
        return _withdraw(unit, memory)
    ack = TaskDecision(
        memory_id=memory.id,
        agent=unit.caller.agent,
        session=unit.caller.session or "",
        decision=parse_choice(Decision, proposal.arguments["decision"]),
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


def _withdraw(unit: UnitOfWork, memory: Memory) -> ChangePlan:
    """Plan to lift an action item, which stays as a rule or task that blocks nobody.

    Raises:
        RejectedError: `insufficient_role`, the caller is neither its author nor an admin;
            `trust_override_denied`, a person set it.

    """
    check_may_write(unit.caller, memory.scope)
    if unit.caller.agent != memory.agent and unit.caller.role is not Role.ADMIN:
        raise RejectedError(
            f"{show(memory)} was set by {inert_line(memory.agent)}: only that agent or an admin "
            "can withdraw it.",
            code="insufficient_role",
            hint=f"Acknowledge it: revise ack {show(memory)}, value will_execute; "
            f"in a shell, brain task ack {show(memory)} will_execute.",
        )
    check_authorized(unit.caller, memory)
    if not isinstance(memory.detail, RuleDetail | TaskDetail):
        return ChangePlan()
    lifted = replace(memory, detail=replace(memory.detail, must_ack=False))
    return ChangePlan(steps=amend_steps(memory, lifted))


def _closing(
    unit: UnitOfWork, memory: Memory, *, plan: ChangePlan, decision: Decision
) -> ChangePlan:
    """Plan to close a task reported as done, if the caller has the authority."""
    detail = memory.detail
    if not isinstance(detail, TaskDetail) or detail.status not in OPEN_STATUSES:
        return plan
    if decision is not Decision.ALREADY_DONE:
        return plan
    check_may_write(unit.caller, memory.scope)
    if not is_trusted(unit.caller, memory):
        return replace(
            plan, hint="The task stays open: closing it requires the trust of its author."
        )
    check_lease(unit.tx, unit.caller, memory=memory, now=unit.now)
    done = UpdateMemory(
        before=memory,
        after=replace(memory, detail=_with_status(detail, TaskStatus.DONE)),
        action=Action.STATUS,
    )
    return replace(plan, steps=(*plan.steps, done))
