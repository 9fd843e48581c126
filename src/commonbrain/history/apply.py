"""Carrying changes out: planned, held against the authority, then done or proposed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from commonbrain.history import annotations as history_annotations
from commonbrain.history import metadata, restore
from commonbrain.history.change_plan import (
    Amend,
    Completion,
    Note,
    Plan,
    Planner,
    PutAck,
    PutLink,
    Revised,
    Settle,
    Step,
    amending,
    show,
    told,
)
from commonbrain.history.proposals import how_settled, propose
from commonbrain.history.supersede import carry_out
from commonbrain.history.unit_of_work import Act
from commonbrain.ingestion.pending_acks import check_changes
from commonbrain.ingestion.skills import namesakes
from commonbrain.model import ids
from commonbrain.model.errors import Refused
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
    check_entitled,
    check_may_settle,
    is_entitled,
    own_trust,
    proposal_of,
    vouched,
    without_proposal,
)
from commonbrain.storage.change_log import Deed, annotation_image, record_beside, settled_image
from commonbrain.storage.records import Annotation


def rejected(act: Act, memory: Memory) -> Plan:
    """Forget what awaits review; its author may withdraw it too."""
    _check_awaits(memory)
    is_own = memory.agent == act.caller.agent and act.caller.role is not Role.READER
    if not is_own:
        check_may_settle(act.caller, memory)
    else:
        check_may_write(act.caller, memory.scope)
    gone = replace(memory, state=State.FORGOTTEN)
    return Plan(steps=(Amend(before=memory, after=gone),))


def check_approval(act: Act, memory: Memory) -> Proposal | None:
    """Let somebody approve, and give the change that is proposed, if any.

    Raises:
        Refused: the memory awaits nothing, or the caller lacks the authority.

    """
    _check_awaits(memory)
    check_may_settle(act.caller, memory)
    wanted = proposal_of(memory)
    if wanted is not None:
        target = act.fetch(wanted.id)
        check_may_write(act.caller, target.scope)
        check_entitled(act.caller, target)
    return wanted


def activated(act: Act, memory: Memory, *, at_least: Trust | None = None) -> Memory:
    """Give an approved memory: who approves a text vouches for it, with the trust of its own.

    `at_least` is what the text takes the place of, which nothing trusted less may replace.
    """
    those = (memory.trust, own_trust(act.caller), *([at_least] if at_least else []))
    trust = max(those, key=lambda one: one.weight)
    return replace(
        vouched(memory, trust=trust),
        state=State.ACTIVE,
        believed_since=act.now,
        payload=without_proposal(memory),
    )


def settled(memory: Memory) -> Memory:
    """Give the task that carried a proposal as it is once that is carried out."""
    return replace(memory, state=State.FORGOTTEN)


def _check_awaits(memory: Memory) -> None:
    if memory.state not in AWAITING_STATES:
        raise Refused(
            f"{show(memory)} is {memory.state}: it awaits no review.",
            code="not_awaiting",
            hint="Browse what does: recall without a query, states quarantined and candidate.",
        )


_FREE: Final = frozenset({Action.ANNOTATE, Action.RATE, Action.ACK})
"""What needs no authority over the memory: it stands beside it, under an author of its own."""
_LATER: Final = "It is found by its words only until the embedder is back."


def _forgetting(act: Act, memory: Memory, *, wanted: Proposal) -> Plan:  # noqa: ARG001 the planners' shape
    return Plan(steps=amending(memory, replace(memory, state=State.FORGOTTEN)))


_PLANNERS: Final[Mapping[Action, Planner]] = {
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


def perform(act: Act, wanted: Proposal) -> Revised:
    """Carry a change out, or store it as a proposal where the caller lacks the authority."""
    memory = act.fetch(wanted.id)
    is_free = wanted.op in _FREE
    check_may_write(act.caller, Scope.TEAM if is_free else memory.scope)
    _check_duties(act, [memory], wanted=wanted)
    plan = _PLANNERS[wanted.op](act, memory, wanted=wanted)
    # A change of one memory may reach another, or lead into another project.
    _check_duties(act, [*_amended(plan), *_outcomes(plan)], wanted=wanted)
    if not is_free and not _is_in_reach(act, plan):
        held = propose(act, wanted, target=memory)
        return Revised(
            id=show(held),
            action=wanted.op,
            status=Completion.PROPOSED,
            headline=held.headline,
            hint=how_settled(held),
        )
    return _carried(act, memory, wanted=wanted, plan=plan)


def _check_duties(act: Act, memories: list[Memory], *, wanted: Proposal) -> None:
    if wanted.op is not Action.ACK:
        done = {"status": TaskStatus.DONE}.items() <= wanted.told.items()
        check_changes(act.tx, act.caller, memories=memories, now=act.now, is_settling=done)


def approve(act: Act, wanted: Proposal) -> Revised:
    """Let what awaits review hold; a change that it carries is carried out with it.

    Raises:
        Refused: it awaits nothing, the caller lacks the authority, or the change cannot be made.

    """
    memory = act.fetch(wanted.id)
    carried = check_approval(act, memory)
    if carried is None:
        step = Amend(before=memory, after=activated(act, memory))
        return _carried(act, memory, wanted=wanted, plan=Plan(steps=(step,)))
    target = act.fetch(carried.id)
    if carried.op is Action.SUPERSEDE:
        new = activated(act, memory, at_least=target.trust)
        carry_out(act, memory, activated=new, wanted=carried)
        _check_name(act, new)
        return Revised(
            id=show(memory),
            action=Action.APPROVE,
            status=Completion.DONE,
            headline=memory.headline,
            changed=(f"{show(target)} superseded by {show(memory)}",),
        )
    plan = _PLANNERS[carried.op](act, target, wanted=carried)
    for one in _amended(plan):
        check_may_write(act.caller, one.scope)
        check_entitled(act.caller, one)
    done = _carried(act, target, wanted=carried, plan=plan)
    act.amend(memory, settled(memory), deed=act.deed(Action.APPROVE, wanted.reason))
    return replace(done, action=Action.APPROVE, status=Completion.DONE)


def reject(act: Act, wanted: Proposal) -> Revised:
    """Forget what awaits review."""
    memory = act.fetch(wanted.id)
    return _carried(act, memory, wanted=wanted, plan=rejected(act, memory))


def _is_in_reach(act: Act, plan: Plan) -> bool:
    for one in _amended(plan):
        check_may_write(act.caller, one.scope)
    is_untrusted = act.caller.trust_ceiling is Trust.UNTRUSTED_WEB
    within = all(is_entitled(act.caller, one) for one in _amended(plan))
    return within and not (plan.is_weighty and is_untrusted)


def _amended(plan: Plan) -> list[Memory]:
    """List the memories that a plan needs authority over."""
    return [step.before if isinstance(step, Amend) else step.memory for step in plan.steps]


def _outcomes(plan: Plan) -> list[Memory]:
    """List the memories that a plan amends, as they will be."""
    return [step.after for step in plan.steps if isinstance(step, Amend)]


def _carried(act: Act, memory: Memory, *, wanted: Proposal, plan: Plan) -> Revised:
    for step in plan.steps:
        _take(act, step, wanted=wanted)
    for step in plan.steps:
        if isinstance(step, Amend) and step.before.state not in CURRENT_STATES:
            _check_name(act, step.after)
    lines = tuple(line for step in plan.steps for line in told(step))
    is_late = any(_is_bare(act, step) for step in plan.steps)
    hints = [*([plan.hint] if plan.hint else []), *([_LATER] if is_late else [])]
    return Revised(
        id=ids.show(ids.MEMORY, wanted.id),
        action=wanted.op,
        status=Completion.DONE if plan.steps else Completion.UNCHANGED,
        headline=None if memory.state is State.FORGOTTEN and not plan.steps else memory.headline,
        changed=lines,
        hint=" ".join(hints) or None,
    )


def _check_name(act: Act, memory: Memory) -> None:
    """Refuse to let a skill hold again whose name another has taken meanwhile."""
    skill = skill_of(memory) if memory.state in CURRENT_STATES else None
    taken = namesakes(act.tx, act.caller, name=skill.name, besides=[memory.id]) if skill else []
    if skill and taken:
        raise Refused(
            f"There is another skill {skill.name} by now: {show(taken[0])}.",
            code="gate_skill",
            hint="Supersede or forget that one first.",
        )


def _take(act: Act, step: Step, *, wanted: Proposal) -> None:
    """Take one step of a plan and record it."""
    match step:
        case Amend(before=before, after=after, action=action):
            act.amend(before, after, deed=act.deed(action or wanted.op, wanted.reason))
        case PutLink():
            _put_link(act, step, deed=act.deed(wanted.op, wanted.reason))
        case PutAck():
            _put_ack(act, step)
        case Note(memory=memory, text=text):
            _note(act, memory, text=text)
        case Settle():
            _settle(act, step, wanted=wanted)


def _put_link(act: Act, step: PutLink, *, deed: Deed) -> None:
    known, link = step.known, step.link
    if link is not None:
        act.tx.links.replace(link)
    elif known is not None:
        act.tx.links.drop(known.from_id, known.to_id, type_=known.type)
    record_beside(
        act.tx,
        step.memory,
        deed=deed,
        before={"link": link_image(known)} if known else {},
        after={"link": link_image(link)} if link else {},
    )


def _put_ack(act: Act, step: PutAck) -> None:
    act.tx.duties.put(step.ack)
    record_beside(
        act.tx,
        step.memory,
        deed=act.deed(Action.ACK, step.ack.told()),
        before={"ack": ack_image(step.known)} if step.known else {},
        after={"ack": ack_image(step.ack)},
    )


def _note(act: Act, memory: Memory, *, text: str) -> None:
    trust = own_trust(act.caller)
    noted = Annotation(
        memory_id=memory.id, text=text, agent=act.caller.agent, trust=trust, at=act.now
    )
    image = annotation_image(replace(noted, id=act.tx.annotations.add(noted)))
    deed = act.deed(Action.ANNOTATE, None)
    record_beside(act.tx, memory, deed=deed, before={}, after={"annotation": image})


def _settle(act: Act, step: Settle, *, wanted: Proposal) -> None:
    by, why = act.caller.agent, wanted.reason
    settled = [replace(one, settled_at=act.now, settled_by=by, reason=why) for one in step.reviews]
    act.tx.reviews.put(settled)
    act.tx.reviews.touch([step.memory.id], at=act.now)
    image = {"review": settled_image(settled)}
    deed = act.deed(Action.REVIEW, why)
    record_beside(act.tx, step.memory, deed=deed, before={}, after=image)


def _is_bare(act: Act, step: Step) -> bool:
    """Say whether a step brings back a memory whose vectors could not be made."""
    return (
        isinstance(step, Amend)
        and step.before.id not in act.vectors
        and step.before.state not in FINDABLE_STATES
        and step.after.state in FINDABLE_STATES
    )
