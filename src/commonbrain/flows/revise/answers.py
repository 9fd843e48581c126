"""Answers to action items: what was decided, and by whom."""

from __future__ import annotations

from dataclasses import replace

from commonbrain.domain.action_items import (
    OWED,
    Ack,
    Decision,
    check_decision,
    must_be_acknowledged,
)
from commonbrain.domain.authority import Proposal, is_entitled
from commonbrain.domain.choice import one_of
from commonbrain.domain.errors import Refused
from commonbrain.domain.kinds import TaskDetail
from commonbrain.domain.memory import Memory
from commonbrain.domain.revision import Action
from commonbrain.domain.scope import check_may_write
from commonbrain.domain.times import instant
from commonbrain.flows.act import Act
from commonbrain.flows.revise.marks import closed
from commonbrain.flows.revise.plan import Amend, Plan, PutAck, check_current, show
from commonbrain.flows.versions import check_lease


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
