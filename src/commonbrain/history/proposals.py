"""Proposals: a change that its author may not make, kept for somebody who may."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from commonbrain.history.unit_of_work import Act
from commonbrain.ingestion.commit import commit, to_memory
from commonbrain.ingestion.preparation import Prepared, prepare
from commonbrain.model import ids
from commonbrain.model.errors import Refused
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import Draft, Memory, State
from commonbrain.model.query import Filter
from commonbrain.security.authority import Proposal, own_trust, proposal_of

_PENDING_MAX: Final = 200
"""How many of its author's open proposals are looked through for the same one."""


def propose(act: Act, proposal: Proposal, *, target: Memory) -> Memory:
    """Store a change as a quarantined task that carries it; the same one is stored once.

    Raises:
        Refused: the gate refuses the reason.

    """
    known = pending(act, proposal)
    if known is not None:
        return known
    prepared = prepare(_draft(act, proposal, target=target), act.caller, house=act.house)
    if not isinstance(prepared, Prepared):
        raise Refused(prepared.reason, code=prepared.code, hint=prepared.hint)
    held = replace(
        to_memory(prepared, act.caller, now=act.now, revises=0),
        state=State.QUARANTINED,
        payload=proposal.payload(),
    )
    return commit(act.tx, held, prepared=prepared, caller=act.caller, house=act.house)


def pending(act: Act, proposal: Proposal) -> Memory | None:
    """Find the same change among those that the caller has proposed already."""
    own = Filter(states=(State.QUARANTINED,), agent=act.caller.agent, trust_min=0.0)
    hits = act.tx.memories.newest(act.look(own), limit=_PENDING_MAX)
    found = act.tx.memories.get([hit.id for hit in hits]).values()
    return next((one for one in found if proposal_of(one) == proposal), None)


def how_settled(memory: Memory) -> str:
    """Say who does what with a proposal."""
    id_ = ids.show(ids.MEMORY, memory.id)
    return (
        f"Nothing is changed yet. Somebody trusted as much as what it changes settles it: "
        f"revise approve {id_}, or revise reject {id_}."
    )


def _draft(act: Act, proposal: Proposal, *, target: Memory) -> Draft:
    """Say what is proposed, with no word of the target: it may be erased while this is kept."""
    what = f"Proposal: {proposal.op} {ids.show(ids.MEMORY, target.id)}"
    return Draft(
        body=f"{what}. {proposal.reason or ''}".strip(),
        headline=what,
        kind=Kind.TASK,
        scope=target.scope,
        project=target.project,
        trust=own_trust(act.caller),
    )
