"""Conflicts and chains: keep both memories, or decide for one of them."""

from __future__ import annotations

from dataclasses import replace

from commonbrain.history.change_plan import (
    ChangePlan,
    PutLink,
    UpdateMemory,
    amend_steps,
    check_current,
    show,
)
from commonbrain.history.metadata import find_link
from commonbrain.history.supersede import check_is_head, check_stays_visible
from commonbrain.history.undo import as_before, successor_of
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.links import DISAGREEMENTS, Link, LinkType, is_placeable, strengthened
from commonbrain.model.memory import Memory, State
from commonbrain.model.revision import Action, superseded
from commonbrain.security.authority import Proposal, endorsed, intrinsic_trust
from commonbrain.storage.change_log import check_lease


def keep_both(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Keep two conflicting memories as valid."""
    other_id = proposal.arguments["other"]
    if other_id is not None:
        other = unit.fetch(ids.parse(ids.MEMORY, other_id))
        if proposal.arguments.get("projects"):
            return _place(unit, memory, proposal=proposal, other=other)
        return _declare_both(unit, memory, proposal=proposal, other=other)
    if memory.state is not State.SUPERSEDED:
        raise RejectedError(
            f"{show(memory)} is {memory.state}, not superseded.",
            code="not_superseded",
            hint="Name the other memory too if the two conflict.",
        )
    successor = successor_of(unit, memory)
    check_current(successor, unit.now)
    freed = replace(successor, superseded_count=0)
    return ChangePlan(
        steps=(
            UpdateMemory(before=memory, after=as_before(unit, memory)),
            UpdateMemory(before=successor, after=freed),
            _related(unit, memory, other=successor, proposal=proposal),
        )
    )


def resolve(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Resolve a conflict in favour of one memory, which supersedes the other.

    The caller endorses that memory, so that it is found wherever the other was.
    """
    other = unit.fetch(ids.parse(ids.MEMORY, proposal.arguments["other"]))
    check_current(memory, unit.now)
    check_is_head(unit, other)
    check_stays_visible(other, memory.scope)
    if memory.id == other.id:
        raise RejectedError("A memory cannot supersede itself.", code="not_in_conflict")
    if memory.superseded_count:
        raise RejectedError(
            f"{show(memory)} already supersedes another memory; a chain has no branches.",
            code="chain_taken",
            hint=f"Supersede {show(other)} with its text, or forget {show(other)}, or keep both.",
        )
    is_weaker = memory.trust.weight < other.trust.weight
    trusted = (
        endorsed(memory, trust=other.trust, parameters=unit.parameters) if is_weaker else memory
    )
    raised = replace(trusted, superseded_count=other.superseded_count + 1)
    removed = superseded(other, by=memory.id, at=unit.now)
    return ChangePlan(
        steps=(
            UpdateMemory(before=memory, after=raised),
            UpdateMemory(before=other, after=removed, action=Action.SUPERSEDE),
            *_without_conflict(unit, memory, other=other),
        )
    )


def _declare_both(
    unit: UnitOfWork, memory: Memory, *, proposal: Proposal, other: Memory
) -> ChangePlan:
    check_current(memory, unit.now)
    check_current(other, unit.now)
    removed = _without_conflict(unit, memory, other=other)
    if not removed:
        related = unit.tx.links.touching([memory.id], types=[LinkType.RELATES_TO])
        if any(other.id in {one.from_id, one.to_id} for one in related):
            return ChangePlan()
        # Comparing vectors needs numpy, which other revisions do without.
        from commonbrain.ingestion.suspects import is_suspected  # noqa: PLC0415

        if not is_suspected(
            unit.tx, memory, other=other, space=unit.services.space_for(unit.caller)
        ):
            raise _no_conflict(memory, other)
    return ChangePlan(steps=(*removed, _related(unit, memory, other=other, proposal=proposal)))


def _place(unit: UnitOfWork, memory: Memory, *, proposal: Proposal, other: Memory) -> ChangePlan:
    """Assign each of two memories to its project, where the other does not apply.

    The link between them stays: it informs queries across projects, and matters again if one of
    them becomes global.
    """
    here, there = proposal.arguments["projects"]
    if memory.id == other.id or not _conflicts_between(unit, memory, other=other):
        raise _no_conflict(memory, other)
    for one in (memory, other):
        check_current(one, unit.now)
        check_lease(unit.tx, unit.caller, memory=one, now=unit.now)
        _check_placeable(one)
    return ChangePlan(
        steps=(
            *amend_steps(memory, replace(memory, project=here)),
            *amend_steps(other, replace(other, project=there)),
        )
    )


def _no_conflict(memory: Memory, other: Memory) -> RejectedError:
    return RejectedError(
        f"{show(memory)} and {show(other)} are not in conflict.",
        code="not_in_conflict",
        hint="Link them if they are related.",
    )


def _check_placeable(memory: Memory) -> None:
    if not is_placeable(memory):
        raise RejectedError(
            f"{show(memory)} is a {memory.kind} that affects others in its project: it "
            "cannot move to another project.",
            code="not_placeable",
            hint=f"Keep both without projects, or forget {show(memory)} if it is no longer true.",
        )


def _conflicts_between(unit: UnitOfWork, memory: Memory, *, other: Memory) -> list[Link]:
    pair = {memory.id, other.id}
    about = unit.tx.links.touching([memory.id], types=DISAGREEMENTS)
    return [one for one in about if {one.from_id, one.to_id} == pair]


def _without_conflict(unit: UnitOfWork, memory: Memory, *, other: Memory) -> tuple[PutLink, ...]:
    pair = {memory.id: memory, other.id: other}
    between = _conflicts_between(unit, memory, other=other)
    return tuple(PutLink(memory=pair[one.from_id], known=one, link=None) for one in between)


def _related(unit: UnitOfWork, memory: Memory, *, other: Memory, proposal: Proposal) -> PutLink:
    made = Link(
        from_id=memory.id,
        to_id=other.id,
        type=LinkType.RELATES_TO,
        basis=proposal.reason,
        agent=unit.caller.agent,
        trust=intrinsic_trust(unit.caller),
        created_at=unit.now,
        observed_at=unit.now,
    )
    known = find_link(unit.tx, memory.id, to_id=other.id, type_=LinkType.RELATES_TO)
    return PutLink(memory=memory, known=known, link=strengthened(known, made) if known else made)
