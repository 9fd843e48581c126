"""The planner of each action, and what the approval of a pending memory does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from commonbrain.history import conflicts, metadata
from commonbrain.history.change_plan import (
    ChangePlan,
    ChangePlanner,
    UpdateMemory,
    amend_steps,
)
from commonbrain.history.supersede import supersede_as_proposed
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.model.memory import Memory, State
from commonbrain.model.revision import Action
from commonbrain.security.authority import Proposal, approved, proposal_of


def _forget(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:  # noqa: ARG001 the planners' shape
    return ChangePlan(steps=amend_steps(memory, replace(memory, state=State.FORGOTTEN)))


PLANNERS: Final[Mapping[Action, ChangePlanner]] = {
    Action.RESTORE: conflicts.restore,
    Action.KEEP_BOTH: conflicts.keep_both,
    Action.RESOLVE: conflicts.resolve,
    Action.ANNOTATE: metadata.annotate,
    Action.LINK: metadata.link,
    Action.UNLINK: metadata.unlink,
    Action.RATE: metadata.rate,
    Action.PIN: metadata.pin,
    Action.RETAG: metadata.retag,
    Action.SET_EXPIRY: metadata.set_expiry,
    Action.STATUS: metadata.set_status,
    Action.REVIEW: metadata.review,
    Action.ACK: metadata.acknowledge,
    Action.FORGET: _forget,
}


def plan_approval(unit: UnitOfWork, memory: Memory) -> ChangePlan:
    """Plan what the approval of a pending memory by the caller does.

    Raises:
        NotFoundError: the caller may not see a memory that it would change.
        RejectedError: the change is not possible any more.

    """
    carried = proposal_of(memory)
    if carried is not None and carried.op is not Action.SUPERSEDE:
        return PLANNERS[carried.op](unit, unit.fetch(carried.id), proposal=carried)
    target = memory if carried is None else unit.fetch(carried.id)
    trust = max(memory.trust, target.trust, key=lambda one: one.weight)
    raised = replace(memory, trust=trust)
    active = approved(raised, unit.caller, parameters=unit.parameters, now=unit.now)
    if carried is not None:
        return supersede_as_proposed(unit, memory, activated=active, proposal=carried)
    return ChangePlan(steps=(UpdateMemory(before=memory, after=active),))
