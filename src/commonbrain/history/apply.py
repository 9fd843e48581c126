"""Apply changes: plan, check authority, then carry out or store as a proposal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from commonbrain.history import annotations as history_annotations
from commonbrain.history import metadata, restore
from commonbrain.history.change_plan import (
    AddAnnotation,
    ChangePlan,
    ChangePlanner,
    ChangeStatus,
    PutAck,
    PutLink,
    ResolveReviews,
    ReviseResult,
    Step,
    UpdateMemory,
    amend_steps,
    describe,
    show,
)
from commonbrain.history.proposals import how_resolved, propose
from commonbrain.history.supersede import apply_supersede
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.ingestion.pending_acks import check_pending_acks_of
from commonbrain.ingestion.skills import namesakes
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import TaskStatus
from commonbrain.model.links import link_image
from commonbrain.model.memory import AWAITING_STATES, CURRENT_STATES, FINDABLE_STATES, Memory, State
from commonbrain.model.revision import Action
from commonbrain.model.scope import Role, Scope, check_may_write
from commonbrain.model.skills import skill_of
from commonbrain.model.tasks import ack_image
from commonbrain.model.trust import Trust
from commonbrain.security.authority import (
    Proposal,
    check_authorized,
    check_may_resolve,
    endorsed,
    intrinsic_trust,
    is_authorized,
    proposal_of,
    without_proposal,
)
from commonbrain.storage.change_log import (
    ChangeContext,
    annotation_image,
    record_related_change,
    settled_image,
)
from commonbrain.storage.interface import Annotation


def plan_rejection(unit: UnitOfWork, memory: Memory) -> ChangePlan:
    """Plan to forget a pending memory; its author may withdraw it too."""
    _check_awaits(memory)
    is_own = memory.agent == unit.caller.agent and unit.caller.role is not Role.READER
    if not is_own:
        check_may_resolve(unit.caller, memory)
    else:
        check_may_write(unit.caller, memory.scope)
    forgotten = replace(memory, state=State.FORGOTTEN)
    return ChangePlan(steps=(UpdateMemory(before=memory, after=forgotten),))


def check_approval(unit: UnitOfWork, memory: Memory) -> Proposal | None:
    """Check that the caller may approve, and return the proposed change, if any.

    Raises:
        RejectedError: the memory is not pending, or the caller lacks the authority.

    """
    _check_awaits(memory)
    check_may_resolve(unit.caller, memory)
    proposal = proposal_of(memory)
    if proposal is not None:
        target = unit.fetch(proposal.id)
        check_may_write(unit.caller, target.scope)
        check_authorized(unit.caller, target)
    return proposal


def activate(unit: UnitOfWork, memory: Memory, *, at_least: Trust | None = None) -> Memory:
    """Return the memory as approved: with at least the trust of its approver.

    `at_least` is the memory that it replaces, which a less trusted text cannot.
    """
    those = (memory.trust, intrinsic_trust(unit.caller), *([at_least] if at_least else []))
    trust = max(those, key=lambda one: one.weight)
    return replace(
        endorsed(memory, trust=trust),
        state=State.ACTIVE,
        believed_since=unit.now,
        payload=without_proposal(memory),
    )


def resolve_review(memory: Memory) -> Memory:
    """Return the task that carried a proposal, as done."""
    return replace(memory, state=State.FORGOTTEN)


def _check_awaits(memory: Memory) -> None:
    if memory.state not in AWAITING_STATES:
        raise RejectedError(
            f"{show(memory)} is {memory.state}: it awaits no review.",
            code="not_awaiting",
            hint="Browse what does: recall without a query, states quarantined and candidate.",
        )


_UNRESTRICTED: Final = frozenset({Action.ANNOTATE, Action.RATE, Action.ACK})
"""Actions that need no authority over the memory, because they only add to it."""
_LATER: Final = "It is found by its words only until the embedder is back."


def _forgetting(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:  # noqa: ARG001 the planners' shape
    return ChangePlan(steps=amend_steps(memory, replace(memory, state=State.FORGOTTEN)))


_PLANNERS: Final[Mapping[Action, ChangePlanner]] = {
    Action.RESTORE: restore.restore,
    Action.KEEP_BOTH: restore.keep_both,
    Action.RESOLVE: restore.resolve,
    Action.ANNOTATE: history_annotations.annotate,
    Action.LINK: history_annotations.link,
    Action.UNLINK: history_annotations.unlink,
    Action.RATE: metadata.rate,
    Action.PIN: metadata.pin,
    Action.RETAG: metadata.retag,
    Action.STATUS: metadata.set_status,
    Action.REVIEW: metadata.review,
    Action.ACK: metadata.acknowledge,
    Action.FORGET: _forgetting,
}


def apply_change(unit: UnitOfWork, proposal: Proposal) -> ReviseResult:
    """Carry out a change, or store it as a proposal if the caller lacks the authority."""
    memory = unit.fetch(proposal.id)
    is_unrestricted = proposal.op in _UNRESTRICTED
    check_may_write(unit.caller, Scope.TEAM if is_unrestricted else memory.scope)
    _check_pending_acks(unit, [memory], proposal=proposal)
    plan = _PLANNERS[proposal.op](unit, memory, proposal=proposal)
    # A change of one memory can affect another, or lead into another project.
    _check_pending_acks(unit, [*_amended(plan), *_outcomes(plan)], proposal=proposal)
    if not is_unrestricted and not _is_permitted(unit, plan):
        held = propose(unit, proposal, target=memory)
        return ReviseResult(
            id=show(held),
            action=proposal.op,
            status=ChangeStatus.PROPOSED,
            headline=held.headline,
            hint=how_resolved(held),
        )
    return _apply_plan(unit, memory, proposal=proposal, plan=plan)


def _check_pending_acks(unit: UnitOfWork, memories: list[Memory], *, proposal: Proposal) -> None:
    if proposal.op is not Action.ACK:
        done = {"status": TaskStatus.DONE}.items() <= proposal.told.items()
        check_pending_acks_of(
            unit.tx, unit.caller, memories=memories, now=unit.now, is_resolving=done
        )


def approve(unit: UnitOfWork, proposal: Proposal) -> ReviseResult:
    """Approve a pending memory; a proposed change is carried out in the same transaction.

    Raises:
        RejectedError: it is not pending, the caller lacks the authority, or the change is not
            possible.

    """
    memory = unit.fetch(proposal.id)
    carried = check_approval(unit, memory)
    if carried is None:
        step = UpdateMemory(before=memory, after=activate(unit, memory))
        return _apply_plan(unit, memory, proposal=proposal, plan=ChangePlan(steps=(step,)))
    target = unit.fetch(carried.id)
    if carried.op is Action.SUPERSEDE:
        new = activate(unit, memory, at_least=target.trust)
        apply_supersede(unit, memory, activated=new, proposal=carried)
        _check_name(unit, new)
        return ReviseResult(
            id=show(memory),
            action=Action.APPROVE,
            status=ChangeStatus.DONE,
            headline=memory.headline,
            changed=(f"{show(target)} superseded by {show(memory)}",),
        )
    plan = _PLANNERS[carried.op](unit, target, proposal=carried)
    for one in _amended(plan):
        check_may_write(unit.caller, one.scope)
        check_authorized(unit.caller, one)
    done = _apply_plan(unit, target, proposal=carried, plan=plan)
    unit.amend(
        memory,
        resolve_review(memory),
        change_context=unit.change_context(Action.APPROVE, proposal.reason),
    )
    return replace(done, action=Action.APPROVE, status=ChangeStatus.DONE)


def reject(unit: UnitOfWork, proposal: Proposal) -> ReviseResult:
    """Reject a pending memory."""
    memory = unit.fetch(proposal.id)
    return _apply_plan(unit, memory, proposal=proposal, plan=plan_rejection(unit, memory))


def _is_permitted(unit: UnitOfWork, plan: ChangePlan) -> bool:
    for one in _amended(plan):
        check_may_write(unit.caller, one.scope)
    is_untrusted = unit.caller.trust_ceiling is Trust.UNTRUSTED_WEB
    within = all(is_authorized(unit.caller, one) for one in _amended(plan))
    return within and not (plan.requires_trust and is_untrusted)


def _amended(plan: ChangePlan) -> list[Memory]:
    """Return the memories that a plan needs authority over."""
    return [step.before if isinstance(step, UpdateMemory) else step.memory for step in plan.steps]


def _outcomes(plan: ChangePlan) -> list[Memory]:
    """Return the memories that a plan changes, as they will be."""
    return [step.after for step in plan.steps if isinstance(step, UpdateMemory)]


def _apply_plan(
    unit: UnitOfWork, memory: Memory, *, proposal: Proposal, plan: ChangePlan
) -> ReviseResult:
    for step in plan.steps:
        _apply_step(unit, step, proposal=proposal)
    for step in plan.steps:
        if isinstance(step, UpdateMemory) and step.before.state not in CURRENT_STATES:
            _check_name(unit, step.after)
    lines = tuple(line for step in plan.steps for line in describe(step))
    is_late = any(_is_unembedded(unit, step) for step in plan.steps)
    hints = [*([plan.hint] if plan.hint else []), *([_LATER] if is_late else [])]
    return ReviseResult(
        id=ids.show(ids.MEMORY, proposal.id),
        action=proposal.op,
        status=ChangeStatus.DONE if plan.steps else ChangeStatus.UNCHANGED,
        headline=None if memory.state is State.FORGOTTEN and not plan.steps else memory.headline,
        changed=lines,
        hint=" ".join(hints) or None,
    )


def _check_name(unit: UnitOfWork, memory: Memory) -> None:
    """Check that no other skill has taken the name of one that becomes active again."""
    skill = skill_of(memory) if memory.state in CURRENT_STATES else None
    taken = (
        namesakes(unit.tx, unit.caller, name=skill.name, exclude_ids=[memory.id]) if skill else []
    )
    if skill and taken:
        raise RejectedError(
            f"There is another skill {skill.name} by now: {show(taken[0])}.",
            code="gate_skill",
            hint="Supersede or forget that one first.",
        )


def _apply_step(unit: UnitOfWork, step: Step, *, proposal: Proposal) -> None:
    """Carry out and record one step of a plan."""
    match step:
        case UpdateMemory(before=before, after=after, action=action):
            unit.amend(
                before,
                after,
                change_context=unit.change_context(action or proposal.op, proposal.reason),
            )
        case PutLink():
            _put_link(unit, step, change_context=unit.change_context(proposal.op, proposal.reason))
        case PutAck():
            _put_ack(unit, step)
        case AddAnnotation(memory=memory, text=text):
            _note(unit, memory, text=text)
        case ResolveReviews():
            _settle(unit, step, proposal=proposal)


def _put_link(unit: UnitOfWork, step: PutLink, *, change_context: ChangeContext) -> None:
    known, link = step.known, step.link
    if link is not None:
        unit.tx.links.replace(link)
    elif known is not None:
        unit.tx.links.drop(known.from_id, known.to_id, type_=known.type)
    record_related_change(
        unit.tx,
        step.memory,
        change_context=change_context,
        before={"link": link_image(known)} if known else {},
        after={"link": link_image(link)} if link else {},
    )


def _put_ack(unit: UnitOfWork, step: PutAck) -> None:
    unit.tx.acks.put(step.ack)
    record_related_change(
        unit.tx,
        step.memory,
        change_context=unit.change_context(Action.ACK, step.ack.told()),
        before={"ack": ack_image(step.known)} if step.known else {},
        after={"ack": ack_image(step.ack)},
    )


def _note(unit: UnitOfWork, memory: Memory, *, text: str) -> None:
    trust = intrinsic_trust(unit.caller)
    noted = Annotation(
        memory_id=memory.id, text=text, agent=unit.caller.agent, trust=trust, at=unit.now
    )
    image = annotation_image(replace(noted, id=unit.tx.annotations.add(noted)))
    change_context = unit.change_context(Action.ANNOTATE, None)
    record_related_change(
        unit.tx, memory, change_context=change_context, before={}, after={"annotation": image}
    )


def _settle(unit: UnitOfWork, step: ResolveReviews, *, proposal: Proposal) -> None:
    by, why = unit.caller.agent, proposal.reason
    settled = [replace(one, settled_at=unit.now, settled_by=by, reason=why) for one in step.reviews]
    unit.tx.reviews.put(settled)
    unit.tx.reviews.touch([step.memory.id], at=unit.now)
    image = {"review": settled_image(settled)}
    change_context = unit.change_context(Action.REVIEW, why)
    record_related_change(
        unit.tx, step.memory, change_context=change_context, before={}, after=image
    )


def _is_unembedded(unit: UnitOfWork, step: Step) -> bool:
    """Return whether a step restores a memory whose vectors could not be computed."""
    return (
        isinstance(step, UpdateMemory)
        and step.before.id not in unit.vectors
        and step.before.state not in FINDABLE_STATES
        and step.after.state in FINDABLE_STATES
    )
