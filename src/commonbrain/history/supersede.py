"""Supersede: replace a memory by a newer text; the old one stays readable as history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from commonbrain.causality.traversal import CAUSAL
from commonbrain.history.change_plan import (
    ChangePlan,
    PutLink,
    Step,
    UpdateMemory,
    apply_step,
    how_resolved,
    pending,
    put_link,
    show,
)
from commonbrain.history.metadata import link_step
from commonbrain.history.unit_of_work import UnitOfWork, set_above
from commonbrain.ingestion.batch import WriteOptions
from commonbrain.ingestion.commit import build_memory
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.ingestion.service import store_draft
from commonbrain.ingestion.sources import resolve_sources
from commonbrain.invalidation.propagation import remaining_supports
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import (
    KINDS,
    FactDetail,
    Kind,
    RuleDetail,
    is_blocker,
    kind_and_label,
)
from commonbrain.model.links import INHERITED, Link, LinkType, is_inherited
from commonbrain.model.memory import CURRENT_STATES, FINDABLE_STATES, Draft, Memory, State
from commonbrain.model.messages import deliveries
from commonbrain.model.query import FeedbackMark
from commonbrain.model.revision import Action, superseded
from commonbrain.model.scope import EVERYBODY, Scope, Trust, check_may_write, is_visible, lowest
from commonbrain.model.support import Support
from commonbrain.retrieval.get import head_of
from commonbrain.security.authority import Proposal, intrinsic_trust, is_authorized, proposal_of
from commonbrain.storage.change_log import check_lease


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritOptions:
    """What a successor inherits: its skill on request, supports unless it has its own."""

    skill: bool = False
    supports: bool = False


def inheritance_of(
    draft: Draft, old: Memory, *, unit: UnitOfWork, inherit_options: InheritOptions
) -> Draft:
    """Fill what the revision leaves open from the old memory, except headline and time.

    A time to live starts again; an absolute expiry stays unless it has passed.
    """
    named = kind_and_label(draft.kind) if draft.kind else None
    # The fields of an atom are in its text, which the new text replaces.
    stays = KINDS[old.kind].inherits_detail and (named is None or named[0] is old.kind)
    detail = old.detail
    if isinstance(detail, RuleDetail) and not inherit_options.skill:
        detail = replace(detail, skill=None)
    has_ttl = isinstance(old.detail, FactDetail) and old.detail.ttl_s is not None
    is_over = old.expires_at is not None and old.expires_at <= unit.now
    # A higher authority does not take over when a lower one let it end.
    is_owned = old.authority.covers(unit.caller.authority)
    inherits_expiry = draft.detail is None and not has_ttl and not is_over and is_owned
    # Those who read a private memory read its revision.
    readers = (old.agent, *old.audience) if old.scope is Scope.PRIVATE else ()
    draft = _inherit_supports(unit, draft, old=old) if inherit_options.supports else draft
    return replace(
        draft,
        kind=draft.kind or old.kind,
        label=draft.label or old.label,
        project=draft.project or old.project,
        scope=draft.scope or old.scope,
        trust=draft.trust or intrinsic_trust(unit.caller),
        tags=draft.tags or old.tags,
        source_ref=draft.source_ref or old.source_ref,
        attachment=old.attachment if draft.attachment is None else draft.attachment,
        section=old.section,
        expires_at=draft.expires_at or (old.expires_at if inherits_expiry else None),
        detail=draft.detail or (detail if stays else None),
        audience=tuple(name for name in readers if name != unit.caller.agent),
        source_message_id=draft.source_message_id or _shared_source(old, unit),
    )


def supersede_with(
    unit: UnitOfWork,
    prepared: PreparedDraft,
    *,
    old_id: int,
    reason: str,
    inherit_options: InheritOptions,
) -> ItemResult:
    """Store the new memory and retire the old one, or store a proposal to do so.

    Raises:
        NotFoundError: the old memory does not exist or is not visible.
        InvalidInputError: the new memory depends on the old one.
        RejectedError: the caller may not write there, the old memory is not the newest of its chain
            or is leased to another, or the scope is narrower.

    """
    old = unit.fetch(old_id)
    check_may_write(unit.caller, old.scope)
    check_is_head(unit, old)
    _check_rests_elsewhere(prepared.draft, old)
    options = WriteOptions(
        exclude_ids=frozenset({old.id}), revision_number=old.superseded_count + 1
    )
    # Its sources may narrow its scope and lower its trust, so the result is checked.
    prepared = resolve_sources(replace(unit, options=options), prepared)
    check_stays_visible(old, prepared.scope)
    _check_own_words(unit, old)
    check_lease(unit.tx, unit.caller, memory=old, now=unit.now)
    arguments = {"supports": inherit_options.supports}
    proposal = Proposal(op=Action.SUPERSEDE, id=old.id, reason=reason, arguments=arguments)
    is_proposed = not _is_entitled(unit, prepared, old=old)
    known = pending(unit, proposal) if is_proposed else None
    if known is not None and known.body == prepared.admitted.body:
        previous = ItemResult(status=ItemStatus.QUARANTINED, id=show(known), kind=known.kind)
        return _proposed(previous, known)
    options = replace(options, proposal=proposal.payload() if is_proposed else None)
    outcome = store_draft(replace(unit, options=options), prepared)
    unit.embed_later(prepared, outcome)
    if outcome.id is None or not outcome.status.is_new:
        return outcome
    unit.credit([old.id], mark=FeedbackMark.USED)
    new = unit.fetch(ids.parse(ids.MEMORY, outcome.id))
    if outcome.status is ItemStatus.QUARANTINED:
        # The proposal is the question about the old one: what others say of it is not a second.
        step = link_step(unit, new, to=old, type_=LinkType.CONFLICTS_WITH, basis=reason)
        put_link(unit, step, action=Action.LINK, reason=reason)
        return _proposed(outcome, new)
    for one in _retire(unit, old, new=new, proposal=proposal):
        apply_step(unit, one, proposal=proposal)
    _broadcast_anew(unit, old, new=new)
    if is_blocker(old.detail) and not is_blocker(new.detail):
        ended = f"This ends a BLOCKER, {show(old)}: the new text is none."
        return replace(outcome, warnings=(*outcome.warnings, ended))
    return outcome


def _check_rests_elsewhere(draft: Draft, old: Memory) -> None:
    """Check that a revision does not depend on what it replaces.

    Raises:
        InvalidInputError: it is derived from the old memory, or depends on it.

    """
    if old.id in (*draft.derived_from, *draft.depends_on):
        raise InvalidInputError(
            f"A revision of {show(old)} cannot depend on it.",
            hint="Remove it from derived_from and depends_on; the chain of revisions is kept.",
        )


def _broadcast_anew(unit: UnitOfWork, old: Memory, *, new: Memory) -> None:
    """Deliver the new text of a broadcast to everyone; direct messages were delivered already."""
    if old.kind is not Kind.MESSAGE or new.scope is Scope.PRIVATE:
        return
    if any(one.agent == EVERYBODY for one in unit.tx.messages.of([old.id]).get(old.id, ())):
        unit.tx.messages.post(deliveries(new, to=[EVERYBODY]))


def _check_own_words(unit: UnitOfWork, old: Memory) -> None:
    """Check that only its sender revises a message sent to others.

    Imported messages can be corrected by anyone.

    Raises:
        RejectedError: `scope_denied`.

    """
    if old.kind is not Kind.MESSAGE or old.agent == unit.caller.agent:
        return
    if old.scope is Scope.PRIVATE or old.speaker == old.agent:
        raise RejectedError(
            f"{show(old)} is another agent's message.",
            code="scope_denied",
            hint="Reply to it, or annotate it.",
        )


def supersede_as_proposed(
    unit: UnitOfWork, new: Memory, *, activated: Memory, proposal: Proposal
) -> ChangePlan:
    """Plan to replace the old text by a proposed one, with the authority of the approver."""
    old = unit.fetch(proposal.id)
    check_is_head(unit, old)
    in_place = replace(activated, superseded_count=old.superseded_count + 1)
    taken = UpdateMemory(before=new, after=in_place, action=Action.APPROVE)
    return ChangePlan(steps=(taken, *_retire(unit, old, new=in_place, proposal=proposal)))


def _retire(unit: UnitOfWork, old: Memory, *, new: Memory, proposal: Proposal) -> tuple[Step, ...]:
    """Plan to end the old text; its pin and its links go on with the new one."""
    retired = superseded(old, by=new.id, at=unit.now)
    steps: list[Step] = [UpdateMemory(before=old, after=retired, action=Action.SUPERSEDE)]
    if old.pinned and not new.pinned:
        pinned = replace(new, pinned=True)
        steps.append(UpdateMemory(before=new, after=pinned, action=Action.PIN))
    return (*steps, *_copied_links(unit, old, new=new, supports=proposal.arguments["supports"]))


_INHERITED: Final = frozenset({"pinned", "expires_at", "state"})


def _is_entitled(unit: UnitOfWork, prepared: PreparedDraft, *, old: Memory) -> bool:
    """Return whether caller and text are trusted enough for the change to take effect at once."""
    made = build_memory(prepared, unit.caller, now=unit.now)
    is_trusted = prepared.trust.weight >= old.trust.weight and is_authorized(unit.caller, old)
    requires_trust = old.pinned and unit.caller.trust_ceiling is Trust.UNTRUSTED_WEB
    is_free = made.state is not State.QUARANTINED and not requires_trust
    # A successor takes a pin over, and would outlast an expiry.
    return is_trusted and is_free and not set_above(unit, [old.id], names=_INHERITED)


def _proposed(outcome: ItemResult, new: Memory) -> ItemResult:
    carried = proposal_of(new)
    what = ids.show(ids.MEMORY, carried.id) if carried else "the old one"
    return replace(
        outcome,
        headline=new.headline,
        reason=f"Replacing {what} requires more authority than this text or its author has, so it "
        "is a proposal, and the old one stays current.",
        hint=how_resolved(new),
    )


def _shared_source(old: Memory, unit: UnitOfWork) -> int | None:
    """Keep the source message of a shared memory while it exists."""
    source = old.source_message_id if old.audience else None
    message = unit.tx.memories.get([source]).get(source) if source is not None else None
    if message is None or message.state not in FINDABLE_STATES:
        return None
    return source if is_visible(unit.caller, message) else None


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


def _inherit_supports(unit: UnitOfWork, draft: Draft, *, old: Memory) -> Draft:
    """Add the valid, visible supports of the old text to its revision.

    Invalid supports are dropped: superseding a memory that needs review corrects it.
    """
    supports = _supports(unit, old)
    memories = unit.tx.memories.get([one.to_id for one in supports])
    seen = {
        id_
        for id_, memory in memories.items()
        if memory.state in FINDABLE_STATES and is_visible(unit.caller, memory)
    }
    return replace(
        draft,
        derived_from=_ends(supports, LinkType.DERIVED_FROM, among=seen),
        depends_on=_ends(supports, LinkType.DEPENDS_ON, among=seen),
    )


def _copied_links(
    unit: UnitOfWork, old: Memory, *, new: Memory, supports: bool
) -> Iterator[PutLink]:
    """Plan to copy causes, effects and missing supports of the old memory to its successor.

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
            moved = _moved(unit, link, ends=ends, by=new)
            yield PutLink(memory=new, known=None, link=moved, action=Action.LINK)


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
        authority=lowest([link.authority, unit.caller.authority]),
        created_at=unit.now,
    )
