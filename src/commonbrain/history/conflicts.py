"""Chains and conflicts: restore a memory, keep both, or decide for one of them."""

from __future__ import annotations

from dataclasses import replace

from commonbrain.history.change_plan import (
    ChangePlan,
    PutLink,
    Step,
    UpdateMemory,
    amend_steps,
    check_current,
    show,
)
from commonbrain.history.metadata import link_step, resolve_reviews_steps
from commonbrain.history.supersede import check_is_head, check_stays_visible, inherited_links
from commonbrain.history.undo import believed_again, image_before
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.links import DISAGREEMENTS, Link, LinkType, is_placeable
from commonbrain.model.memory import AWAITING_STATES, CURRENT_STATES, Memory, State, is_erased
from commonbrain.model.revision import Action, restored, superseded
from commonbrain.retrieval.get import head_of
from commonbrain.security.authority import Proposal, awaits_person, endorsed
from commonbrain.storage.change_log import check_lease


def restore(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:  # noqa: ARG001 the planners' shape
    """Restore a memory that was superseded, forgotten or archived, or has expired."""
    if is_erased(memory):
        raise RejectedError(
            f"{show(memory)} was erased; its text no longer exists.",
            code="erased",
            hint="Remember it again if you need it.",
        )
    match memory.state:
        case State.SUPERSEDED:
            return _restore_superseded(unit, memory)
        case State.FORGOTTEN:
            back = as_before(unit, memory)
            hint = f"It is {back.state} again, as it was before it was forgotten."
            return ChangePlan(
                steps=(UpdateMemory(before=memory, after=back),),
                hint=None if back.state in CURRENT_STATES else hint,
            )
        case state if state in AWAITING_STATES:
            raise RejectedError(
                f"{show(memory)} is {state}: it was never active.",
                code="not_current",
                hint=f"Decide on it: revise approve or reject {show(memory)}.",
            )
        case _:
            back = restored(memory, at=unit.now)
            if back is None:
                return ChangePlan()
            reviews = unit.tx.reviews.of([memory.id]).get(memory.id, ())
            # Propagation archived it; the restore says that it is valid.
            is_unsupported = any(review.is_of_itself for review in reviews)
            confirmed = resolve_reviews_steps(unit, memory) if is_unsupported else ()
            return ChangePlan(steps=(UpdateMemory(before=memory, after=back), *confirmed))


def _restore_superseded(unit: UnitOfWork, memory: Memory) -> ChangePlan:
    """Plan to make the old memory current again, and to forget its successor."""
    successor = successor_of(unit, memory)
    retired = replace(successor, state=State.FORGOTTEN, superseded_count=0)
    steps: tuple[Step, ...] = (
        UpdateMemory(before=successor, after=retired),
        UpdateMemory(before=memory, after=as_before(unit, memory)),
        *(
            PutLink(memory=successor, known=link, link=None)
            for link in inherited_links(unit, successor)
        ),
    )
    return ChangePlan(steps=steps, hint=f"{show(successor)}, which had replaced it, is forgotten.")


def successor_of(unit: UnitOfWork, memory: Memory) -> Memory:
    """Return the successor of a memory, if that has no successor itself.

    Raises:
        RejectedError: `mid_chain`, naming the newest memory.

    """
    by = memory.superseded_by
    successor = unit.tx.memories.get([by])[by] if by is not None else memory
    if successor.state is not State.SUPERSEDED:
        return successor
    head = head_of(unit.tx, memory)
    raise RejectedError(
        f"{show(memory)} is in the middle of its chain.",
        code="mid_chain",
        hint=f"Revise the current one: {show(head)}.",
    )


def as_before(unit: UnitOfWork, memory: Memory) -> Memory:
    """Return a superseded or forgotten memory in the state that it had before that.

    Only its state returns: what an undo took back with it, such as a trust or a tag, stays taken
    back. It is current if it was superseded and nothing replaces it any more. An expiry that has
    passed would hide it at once, and is dropped.
    """
    changes = unit.tx.changes.of([memory.id])
    ended = [
        change
        for change in changes
        if change.after.get("state") is memory.state
        and change.before.get("state") not in {None, State.FORGOTTEN}
    ]
    state = image_before(ended[-1], changes)["state"] if ended else State.ACTIVE
    freed = memory
    if memory.state is State.SUPERSEDED:
        freed = replace(memory, superseded_by=None, superseded_at=None)
    if state is State.SUPERSEDED and freed.superseded_by is None:
        state = State.ACTIVE
    if state in CURRENT_STATES and awaits_person(
        memory.kind, memory.detail, scope=memory.scope, authority=memory.authority
    ):
        # Its approval was undone: it awaits another.
        state = State.QUARANTINED
    back = believed_again(unit, memory, after=replace(freed, state=state))
    is_over = back.state in CURRENT_STATES and back.is_over(unit.now)
    return replace(back, expires_at=None) if is_over else back


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
            link_step(unit, memory, to=successor, type_=LinkType.RELATES_TO, basis=proposal.reason),
        )
    )


def resolve(unit: UnitOfWork, memory: Memory, *, proposal: Proposal) -> ChangePlan:
    """Resolve a conflict in favour of one memory, which supersedes the other.

    The caller endorses that memory, so that it is found wherever the other was, and as long: an
    expiry that a lower authority gave it ends nothing that a higher one said.
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
    trust = max(memory.trust, other.trust, key=lambda one: one.weight)
    is_weaker = memory.trust is not trust or not memory.authority.covers(other.authority)
    confirmed = (
        endorsed(memory, trust=trust, authority=unit.caller.authority, parameters=unit.parameters)
        if is_weaker
        else memory
    )
    raised = replace(
        confirmed,
        superseded_count=other.superseded_count + 1,
        expires_at=memory.expires_at if memory.authority.covers(other.authority) else None,
    )
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
    related = link_step(unit, memory, to=other, type_=LinkType.RELATES_TO, basis=proposal.reason)
    return ChangePlan(steps=(*removed, related))


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
