"""Proposals: changes that their author may not make, stored for someone who may."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.ingestion.commit import build_memory, commit
from commonbrain.ingestion.preparation import PreparedDraft, prepare_drafts
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import Draft, Memory, State
from commonbrain.model.query import Filter
from commonbrain.security.authority import Proposal, intrinsic_trust, proposal_of

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
        _draft(unit, proposal, target=target), unit.caller, services=unit.services
    )
    if not isinstance(prepared, PreparedDraft):
        raise RejectedError(prepared.reason, code=prepared.code, hint=prepared.hint)
    held = replace(
        build_memory(prepared, unit.caller, now=unit.now, revision_number=0),
        state=State.QUARANTINED,
        payload=proposal.payload(),
    )
    return commit(unit.tx, held, prepared=prepared, caller=unit.caller, services=unit.services)


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
        f"Nothing is changed yet. Somebody trusted as much as what it changes settles it: "
        f"revise approve {id_}, or revise reject {id_}."
    )


def _draft(unit: UnitOfWork, proposal: Proposal, *, target: Memory) -> Draft:
    """Describe the proposal without the target's text, which may be erased earlier."""
    what = f"Proposal: {proposal.op} {ids.show(ids.MEMORY, target.id)}"
    return Draft(
        body=f"{what}. {proposal.reason or ''}".strip(),
        headline=what,
        kind=Kind.TASK,
        scope=target.scope,
        project=target.project,
        trust=intrinsic_trust(unit.caller),
    )
