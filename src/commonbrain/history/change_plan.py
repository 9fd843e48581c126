"""Change plans: what a change would do, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol

from commonbrain.history.unit_of_work import UnitOfWork, set_above
from commonbrain.ingestion.commit import build_memory, commit
from commonbrain.ingestion.preparation import PreparedDraft, prepare_drafts
from commonbrain.ingestion.result import ItemResult
from commonbrain.invalidation.dependents import AffectedDependents
from commonbrain.model import ids
from commonbrain.model.citations import read_citations
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import Kind, is_blocker
from commonbrain.model.links import Link, is_inherited, link_image
from commonbrain.model.memory import AWAITING_STATES, CURRENT_STATES, Draft, Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action, difference
from commonbrain.model.support import Review
from commonbrain.model.tasks import TaskDecision, ack_image
from commonbrain.model.timestamps import show_instant
from commonbrain.security.authority import Proposal, intrinsic_trust, proposal_of
from commonbrain.storage.change_log import (
    annotation_image,
    settled_image,
)
from commonbrain.storage.interface import Annotation


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMemory:
    """Change a memory; `action` is set if it differs from the plan's."""

    before: Memory
    after: Memory
    action: Action | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutLink:
    """Link a memory to another; without `link`, remove the existing one.

    `action` is set if the link follows from another step, which has the reason.
    """

    memory: Memory
    """The memory that the link starts from, or that inherited it."""
    known: Link | None
    link: Link | None
    action: Action | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutAck:
    """Store an acknowledgement, replacing the known one."""

    memory: Memory
    known: TaskDecision | None
    ack: TaskDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAnnotation:
    """Add an annotation."""

    memory: Memory
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveReviews:
    """Resolve the open reviews of a memory by confirming it."""

    memory: Memory
    reviews: tuple[Review, ...]


Step = UpdateMemory | PutLink | PutAck | AddAnnotation | ResolveReviews


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The ordered steps of one change; empty if there is nothing to do."""

    steps: tuple[Step, ...] = ()
    requires_trust: bool = False
    """Whether an untrusted caller may only propose it, even for its own memories."""
    hint: str | None = None


class ChangePlanner(Protocol):
    """Plans one type of change without changing anything."""

    def __call__(self, unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
        """Return the plan; raise a caller's error if the change is not possible."""
        ...


def is_ended(step: UpdateMemory) -> bool:
    """Return whether a memory is not current any more after a step."""
    return step.before.state in CURRENT_STATES and step.after.state not in CURRENT_STATES


class ChangeStatus(StrEnum):
    """The outcome of a revision."""

    DONE = "done"
    PROPOSED = "proposed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"
    DRY_RUN = "dry_run"
    """Nothing was done; the result describes what would happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviseResult:
    """The result of a revision; `changed` describes it, `hint` gives the next step.

    `id` names the revised memory, or the proposal if the change is only proposed.
    """

    id: str
    action: Action
    status: ChangeStatus
    headline: str | None = None
    changed: tuple[str, ...] = ()
    hint: str | None = None
    affected: AffectedDependents | None = None
    """Dependents that need review because the memory is no longer valid."""
    outcome: ItemResult | None = None
    """The outcome of writing the new text, for supersede."""


def show(memory: Memory) -> str:
    """Format the id of a memory."""
    return ids.show(ids.MEMORY, memory.id)


def check_current(memory: Memory, now: datetime) -> None:
    """Check that a memory is current.

    Raises:
        RejectedError: `not_current`.

    """
    is_over = memory.is_over(now)
    if memory.state not in CURRENT_STATES or is_over:
        state = State.EXPIRED if is_over and memory.state in CURRENT_STATES else memory.state
        raise RejectedError(
            f"{show(memory)} is {state}: there is nothing to revise.",
            code="not_current",
            hint=f"Decide on it first: revise approve or reject {show(memory)}."
            if memory.state in AWAITING_STATES
            else "Get it to see the current memory, or restore it.",
        )


def amend_steps(before: Memory, after: Memory) -> tuple[Step, ...]:
    """Plan one update; no step if nothing differs."""
    return () if before == after else (UpdateMemory(before=before, after=after),)


def reverses_above(unit: UnitOfWork, step: Step) -> bool:
    """Return whether a step changes what a higher authority than the caller's set or linked."""
    match step:
        case UpdateMemory(before=before, after=after):
            names = set(difference(before, after)[0])
            if set(before.tags) <= set(after.tags):
                names.discard("tags")
            return bool(set_above(unit, [before.id], names=names))
        case PutLink(known=Link() as known):
            return not unit.caller.authority.covers(known.authority)
        case _:
            return False


def apply_step(unit: UnitOfWork, step: Step, *, proposal: Proposal) -> None:
    """Carry out and record one step of a plan."""
    match step:
        case UpdateMemory(before=before, after=after, action=action):
            unit.amend(before, after, action=action or proposal.op, reason=proposal.reason)
        case PutLink(action=action):
            reason = proposal.reason if action is None else None
            put_link(unit, step, action=action or proposal.op, reason=reason)
        case PutAck(memory=memory, known=known, ack=ack):
            unit.tx.acks.put(ack)
            unit.record(
                memory,
                action=Action.ACK,
                reason=ack.describe(),
                before={"ack": ack_image(known)} if known else {},
                after={"ack": ack_image(ack)},
            )
        case AddAnnotation(memory=memory, text=text):
            trust, agent = intrinsic_trust(unit.caller), unit.caller.agent
            noted = Annotation(
                memory_id=memory.id,
                text=text,
                agent=agent,
                trust=trust,
                authority=unit.caller.authority,
                at=unit.now,
            )
            image = annotation_image(replace(noted, id=unit.tx.annotations.add(noted)))
            unit.record(memory, action=Action.ANNOTATE, after={"annotation": image})
        case ResolveReviews(memory=memory, reviews=reviews):
            by, why = unit.caller.agent, proposal.reason
            settled = [
                replace(review, settled_at=unit.now, settled_by=by, reason=why)
                for review in reviews
            ]
            unit.tx.reviews.put(settled)
            unit.tx.reviews.touch([memory.id], at=unit.now)
            image = {"review": settled_image(settled)}
            unit.record(memory, action=Action.REVIEW, reason=why, after=image)


def put_link(unit: UnitOfWork, step: PutLink, *, action: Action, reason: str | None = None) -> None:
    """Store or remove a link, and record it for its memory."""
    known, link = step.known, step.link
    if link is not None:
        unit.tx.links.replace(link)
    elif known is not None:
        unit.tx.links.drop(known.from_id, known.to_id, type_=known.type)
    unit.record(
        step.memory,
        action=action,
        reason=reason,
        before={"link": link_image(known)} if known else {},
        after={"link": link_image(link)} if link else {},
    )


def describe(step: Step) -> list[str]:
    """Describe what a step changes."""
    match step:
        case UpdateMemory(before=before, after=after):
            lines = [
                f"{name}: {plain(name, old)} -> {plain(name, new)}"
                for name, old, new in changed_fields(*difference(before, after))
            ]
            if is_ended(step) and is_blocker(before.detail):
                lines.append("ends: a BLOCKER")
        case PutLink(known=known, link=link):
            lines = _describe_link(known, link)
        case PutAck(ack=ack):
            lines = [f"acknowledged: {ack.describe()}"]
        case AddAnnotation():
            lines = ["annotated"]
        case ResolveReviews(reviews=reviews):
            lines = [f"confirmed; {len(reviews)} reviews closed"]
    changed = step.before if isinstance(step, UpdateMemory) else step.memory
    return [f"{show(changed)} {line}" for line in lines]


def _describe_link(known: Link | None, link: Link | None) -> list[str]:
    if link is not None:
        seen = f"(strength {link.strength:.2f}, seen {link.observations}x)"
        return [f"{link.type} {ids.show(ids.MEMORY, link.to_id)} {seen}"]
    # An inherited link may lead to a memory that the caller must not see.
    if known is None or is_inherited(known):
        return []
    return [f"no longer {known.type} {ids.show(ids.MEMORY, known.to_id)}"]


_OMITTED_FIELDS = frozenset({"believed_since", "superseded_at", "payload", "superseded_count"})
"""Fields that follow from others."""


def changed_fields(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> list[tuple[str, object, object]]:
    """Return the fields and columns that differ, with their old and new values."""
    changes: list[tuple[str, object, object]] = []
    for name, value in new.items():
        if name == "payload":
            was, is_ = ([str(it.place) for it in read_citations(one)] for one in (old[name], value))
            changes += [("cites", tuple(was), tuple(is_))] if was != is_ else []
        if name in _OMITTED_FIELDS:
            continue
        if is_dataclass(value) and not isinstance(value, type):
            was, is_ = _columns(old[name]), _columns(value)
            changes += changed_fields(was, {key: is_[key] for key in is_ if is_[key] != was[key]})
        else:
            changes.append((name, old[name], value))
    return changes


def _columns(detail: Any) -> dict[str, Any]:  # noqa: ANN401 each kind has its own
    return {field.name: getattr(detail, field.name) for field in fields(detail)}


def plain(name: str, value: object) -> str:
    """Format the value of a field."""
    match value:
        case None | ():
            return "none"
        case True | False:
            return "yes" if value else "no"
        case tuple():
            return ", ".join(str(part) for part in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case datetime():
            return show_instant(value)
        case int() if name == "superseded_by":
            return ids.show(ids.MEMORY, value)
        case _:
            return str(value)


_PENDING_MAX: Final = 200
"""The author's open proposals to search for an equal one."""


def propose(unit: UnitOfWork, proposal: Proposal, *, target: Memory) -> Memory:
    """Store a change as a quarantined task; an equal proposal is stored once.

    Raises:
        RejectedError: validation rejects the reason.

    """
    known = pending(unit, proposal)
    if known is not None:
        return known
    prepared = prepare_drafts(
        _draft(unit, proposal, target=target),
        unit.caller,
        scanner=unit.services.secret_scanner,
        parameters=unit.services.parameters_for(unit.caller),
    )
    if not isinstance(prepared, PreparedDraft):
        raise prepared.error()
    held = replace(
        build_memory(prepared, unit.caller, now=unit.now),
        state=State.QUARANTINED,
        payload=proposal.payload(),
    )
    return commit(unit, held, prepared=prepared)


def pending(unit: UnitOfWork, proposal: Proposal) -> Memory | None:
    """Return an equal open proposal of the caller, if there is one."""
    own = Filter(states=(State.QUARANTINED,), agent=unit.caller.agent, trust_min=0.0)
    hits = unit.tx.memories.newest(unit.query_scope(own), limit=_PENDING_MAX)
    memories = unit.tx.memories.get([hit.id for hit in hits]).values()
    return next((one for one in memories if proposal_of(one) == proposal), None)


def how_resolved(memory: Memory) -> str:
    """Describe who can resolve a proposal, and how."""
    id_ = ids.show(ids.MEMORY, memory.id)
    return (
        "Nothing is changed yet. Ask the user to decide, on the page or in a terminal: "
        f"brain revise approve {id_} --reason WHY, or reject."
    )


def _draft(unit: UnitOfWork, proposal: Proposal, *, target: Memory) -> Draft:
    """Describe the proposal without the target's text, which may be erased earlier."""
    is_unpin = proposal.op is Action.PIN and not proposal.arguments["pinned"]
    what = f"Proposal: {'unpin' if is_unpin else proposal.op} {show(target)}"
    return Draft(
        body=f"{what}. {proposal.reason or ''}".strip(),
        headline=what,
        kind=Kind.TASK,
        scope=target.scope,
        project=target.project,
        trust=intrinsic_trust(unit.caller),
    )
