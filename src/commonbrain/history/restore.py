"""Revision chains: restore, keep both, resolve a conflict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from commonbrain.causality.traversal import CAUSAL
from commonbrain.history.change_plan import (
    ChangePlan,
    PutLink,
    Step,
    UpdateMemory,
    amend_steps,
    check_current,
    show,
)
from commonbrain.history.metadata import find_link, resolve_reviews_steps
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.invalidation.propagation import remaining_supports
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.links import (
    DISAGREEMENTS,
    INHERITED,
    Link,
    LinkType,
    is_inherited,
    is_placeable,
    link_image,
    strengthened,
)
from commonbrain.model.memory import (
    AWAITING_STATES,
    CURRENT_STATES,
    FINDABLE_STATES,
    Draft,
    Memory,
    State,
    is_erased,
)
from commonbrain.model.revision import Action, own_state, restored, superseded
from commonbrain.model.scope import Scope, is_visible
from commonbrain.model.support import Support
from commonbrain.retrieval.get import head_of
from commonbrain.security.authority import Proposal, endorsed, intrinsic_trust
from commonbrain.storage.change_log import check_lease, record_related_change


def inherit_supports(unit: UnitOfWork, draft: Draft, *, old: Memory) -> Draft:
    """Add the valid, visible supports of the old text to its revision.

    Invalid supports are dropped: superseding a memory that needs review corrects it.
    """
    supports = _supports(unit, old)
    memories = unit.tx.memories.get([one.to_id for one in supports])
    seen = {
        id_
        for id_, one in memories.items()
        if one.state in FINDABLE_STATES and is_visible(unit.caller, one)
    }
    return replace(
        draft,
        derived_from=_ends(supports, LinkType.DERIVED_FROM, among=seen),
        depends_on=_ends(supports, LinkType.DEPENDS_ON, among=seen),
    )


def copy_links(unit: UnitOfWork, old: Memory, *, new: Memory, supports: bool) -> None:
    """Copy causes, effects and missing supports of the old memory to its successor.

    Each copy has its own record, so that undo and restore recover the earlier state.
    """
    links_to_copy = unit.tx.links.touching([old.id], types=CAUSAL)
    if supports:
        resting = {(one.from_id, one.to_id, one.type) for one in _supports(unit, old)}
        leaving = unit.tx.links.touching([old.id], types=sorted({type_ for *_, type_ in resting}))
        links_to_copy += [one for one in leaving if (one.from_id, one.to_id, one.type) in resting]
    there = {(one.from_id, one.to_id, one.type) for one in unit.tx.links.touching([new.id])}
    for link in links_to_copy:
        ends = [new.id if end == old.id else end for end in (link.from_id, link.to_id)]
        if (*ends, link.type) not in there and ends[0] != ends[1]:
            _put(unit, new, link=_moved(unit, link, ends=ends, by=new))


def inherited_links(unit: UnitOfWork, memory: Memory) -> list[Link]:
    """List the causes and effects that a memory inherited from its predecessor."""
    links = unit.tx.links.touching([memory.id], types=CAUSAL)
    return [one for one in links if is_inherited(one)]


def _supports(unit: UnitOfWork, old: Memory) -> Sequence[Support]:
    """Return the supports of a memory that never needed review and are not the cause of one."""
    reviews = unit.tx.reviews
    invalidated = {one.cause_id for one in reviews.of([old.id]).get(old.id, ())}
    supports = remaining_supports(unit.tx, old.id, now=unit.now)
    unstable = {
        id_
        for id_, those in reviews.of([one.to_id for one in supports]).items()
        if any(one.is_open and one.cause_id in invalidated for one in those)
    }
    return [one for one in supports if one.to_id not in invalidated | unstable]


def _ends(supports: Sequence[Support], type_: LinkType, *, among: set[int]) -> tuple[int, ...]:
    return tuple(one.to_id for one in supports if one.type is type_ and one.to_id in among)


def _moved(unit: UnitOfWork, link: Link, *, ends: Sequence[int], by: Memory) -> Link:
    """Return the link for the successor, with at most the successor's trust."""
    basis = link.basis if is_inherited(link) else f"{INHERITED}{link.basis or link.type}"
    from_id, to_id = ends
    return replace(
        link,
        from_id=from_id,
        to_id=to_id,
        basis=basis,
        agent=unit.caller.agent,
        trust=min(link.trust, by.trust, key=lambda trust: trust.weight),
        created_at=unit.now,
    )


def _put(unit: UnitOfWork, new: Memory, *, link: Link) -> None:
    unit.tx.links.replace(link)
    image = {"link": link_image(link)}
    record_related_change(
        unit.tx, new, change_context=unit.change_context(Action.LINK, None), before={}, after=image
    )


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
            return _undo_supersede(unit, memory)
        case State.FORGOTTEN:
            return _undo_forget(unit, memory)
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
            return ChangePlan(
                steps=(UpdateMemory(before=memory, after=back), *_endorse(unit, memory))
            )


def _endorse(unit: UnitOfWork, memory: Memory) -> tuple[Step, ...]:
    """Confirm a memory that propagation archived: the restore says that it is valid."""
    there = unit.tx.reviews.of([memory.id]).get(memory.id, ())
    return resolve_reviews_steps(unit, memory) if any(one.is_of_itself for one in there) else ()


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
    corrector = _corrector(unit, memory)
    check_current(corrector, unit.now)
    freed = replace(corrector, superseded_count=0)
    return ChangePlan(
        steps=(
            UpdateMemory(before=memory, after=_reactivated(unit, memory)),
            UpdateMemory(before=corrector, after=freed),
            _related(unit, memory, other=corrector, proposal=proposal),
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


def check_is_head(unit: UnitOfWork, memory: Memory) -> None:
    """Check that a memory is the newest of its chain; otherwise name the newest.

    Raises:
        RejectedError: `already_superseded` or `not_current`.

    """
    if memory.state in CURRENT_STATES:
        return
    if memory.state is not State.SUPERSEDED:
        raise RejectedError(
            f"{show(memory)} is {memory.state}: there is nothing to revise.",
            code="not_current",
            hint="Remember the new text instead.",
        )
    head = head_of(unit.tx, memory)
    raise RejectedError(
        f"{show(memory)} is already superseded.",
        code="already_superseded",
        hint=f"Revise the current one: {show(head)}.",
    )


def check_stays_visible(old: Memory, scope: Scope) -> None:
    """Check that everyone who saw the old memory may see the new one, which its banner names.

    Raises:
        RejectedError: `scope_denied`.

    """
    if scope is Scope.PRIVATE and old.scope is not Scope.PRIVATE:
        raise RejectedError(
            f"This memory has scope {old.scope}; a private one cannot replace it.",
            code="scope_denied",
            hint=f"Supersede it with scope {old.scope}, or remember your own version.",
        )


def _undo_supersede(unit: UnitOfWork, memory: Memory) -> ChangePlan:
    """Undo a supersede: the old memory is current again, and its successor is forgotten."""
    corrector = _corrector(unit, memory)
    retired = replace(corrector, state=State.FORGOTTEN, superseded_count=0)
    steps: tuple[Step, ...] = (
        UpdateMemory(before=corrector, after=retired),
        UpdateMemory(before=memory, after=_reactivated(unit, memory)),
        *(
            PutLink(memory=corrector, known=one, link=None)
            for one in inherited_links(unit, corrector)
        ),
    )
    return ChangePlan(steps=steps, hint=f"{show(corrector)}, which had replaced it, is forgotten.")


def _undo_forget(unit: UnitOfWork, memory: Memory) -> ChangePlan:
    """Undo a forget: return to the previous state."""
    changes = unit.tx.changes.of([memory.id])
    before = [
        one.before["state"]
        for one in changes
        if one.before.get("state") not in {None, State.FORGOTTEN}
        and one.after.get("state") is State.FORGOTTEN
    ]
    state = own_state(State(str(before[-1])), changes) if before else State.ACTIVE
    is_held = state in CURRENT_STATES
    since = unit.now if is_held else memory.believed_since
    expires_at = _still_ahead(unit, memory) if is_held else memory.expires_at
    back = replace(memory, state=state, believed_since=since, expires_at=expires_at)
    hint = None if is_held else f"It is {state} again, as it was before it was forgotten."
    return ChangePlan(steps=(UpdateMemory(before=memory, after=back),), hint=hint)


def _corrector(unit: UnitOfWork, memory: Memory) -> Memory:
    """Return the successor of a memory, if that has no successor itself.

    Raises:
        RejectedError: `mid_chain`, naming the newest memory.

    """
    by = memory.superseded_by
    corrector = unit.tx.memories.get([by])[by] if by is not None else memory
    if corrector.state is not State.SUPERSEDED:
        return corrector
    head = head_of(unit.tx, memory)
    raise RejectedError(
        f"{show(memory)} is in the middle of its chain.",
        code="mid_chain",
        hint=f"Revise the current one: {show(head)}.",
    )


def _reactivated(unit: UnitOfWork, memory: Memory) -> Memory:
    freed = replace(memory, state=State.ACTIVE, superseded_by=None, superseded_at=None)
    return replace(freed, believed_since=unit.now, expires_at=_still_ahead(unit, memory))


def _still_ahead(unit: UnitOfWork, memory: Memory) -> datetime | None:
    """Return the expiry; one that has passed would hide the restored memory at once."""
    at = memory.expires_at
    return at if at is not None and at > unit.now else None


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
    known = find_link(unit, memory.id, to_id=other.id, type_=LinkType.RELATES_TO)
    return PutLink(memory=memory, known=known, link=strengthened(known, made) if known else made)
