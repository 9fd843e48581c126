"""Carrying changes out: planned, held against the authority, then done or proposed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from commonbrain.domain import ids
from commonbrain.domain.action_items import ack_image
from commonbrain.domain.authority import Proposal, check_entitled, is_entitled, own_trust
from commonbrain.domain.errors import Refused
from commonbrain.domain.kinds import TaskStatus
from commonbrain.domain.links import link_image
from commonbrain.domain.memory import CURRENT_STATES, FINDABLE_STATES, Memory, State
from commonbrain.domain.revision import Action
from commonbrain.domain.scope import Scope, check_may_write
from commonbrain.domain.skill import skill_of
from commonbrain.domain.trust import Trust
from commonbrain.flows.act import Act
from commonbrain.flows.duty import check_changes
from commonbrain.flows.proposals import how_settled, propose
from commonbrain.flows.recording import Deed, annotation_image, record_beside, settled_image
from commonbrain.flows.revise import answers, beside, chain, marks
from commonbrain.flows.revise.plan import (
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
from commonbrain.flows.revise.review import activated, check_approval, rejected, settled
from commonbrain.flows.revise.supersede import carry_out
from commonbrain.flows.skills import namesakes
from commonbrain.ports.history import Annotation

_FREE: Final = frozenset({Action.ANNOTATE, Action.RATE, Action.ACK})
"""What needs no authority over the memory: it stands beside it, under an author of its own."""
_LATER: Final = "It is found by its words only until the embedder is back."


def _forgetting(act: Act, memory: Memory, *, wanted: Proposal) -> Plan:  # noqa: ARG001 the planners' shape
    return Plan(steps=amending(memory, replace(memory, state=State.FORGOTTEN)))


_PLANNERS: Final[Mapping[Action, Planner]] = {
    Action.RESTORE: chain.restore,
    Action.KEEP_BOTH: chain.keep_both,
    Action.RESOLVE: chain.resolve,
    Action.ANNOTATE: beside.annotate,
    Action.LINK: beside.link,
    Action.UNLINK: beside.unlink,
    Action.RATE: marks.rate,
    Action.PIN: marks.pin,
    Action.RETAG: marks.retag,
    Action.STATUS: marks.set_status,
    Action.REVIEW: marks.review,
    Action.ACK: answers.acknowledge,
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
