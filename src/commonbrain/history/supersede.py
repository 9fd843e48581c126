"""Supersede: a memory is replaced by a newer text and stays readable as what was believed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from commonbrain.history.proposals import how_settled, pending
from commonbrain.history.restore import check_is_head, check_stays_seen, take_over, with_supports
from commonbrain.history.unit_of_work import Act
from commonbrain.ingestion.commit import to_memory
from commonbrain.ingestion.preparation import Prepared
from commonbrain.ingestion.result import Outcome, Status
from commonbrain.ingestion.service import Course, Remember
from commonbrain.ingestion.sources import settle_sources
from commonbrain.model import ids
from commonbrain.model.errors import Invalid, Refused
from commonbrain.model.kinds import Detail, FactDetail, Kind, RuleDetail, kind_and_label
from commonbrain.model.memory import FINDABLE_STATES, Draft, Memory, State
from commonbrain.model.messages import deliveries
from commonbrain.model.query import Filter, Mark, Use
from commonbrain.model.revision import Action, superseded
from commonbrain.model.scope import EVERYBODY, Scope, check_may_write, is_visible
from commonbrain.model.trust import Trust
from commonbrain.security.authority import Proposal, is_entitled, own_trust, proposal_of
from commonbrain.storage.change_log import check_lease, credit


@dataclass(frozen=True, slots=True, kw_only=True)
class Heritage:
    """What a successor takes over: pin and skill when asked, supports unless it has its own."""

    pin: bool = False
    skill: bool = False
    supports: bool = False


def inherit(draft: Draft, old: Memory, *, act: Act, heritage: Heritage) -> Draft:
    """Take from the old memory what the revision leaves open, but for headline and time.

    A time to live begins anew, a moment at which it expires stays; one that is past is dropped.
    """
    named = kind_and_label(draft.kind) if draft.kind else None
    # What an atom says in its fields stands in its text, and the new text says otherwise.
    stays = old.kind is not Kind.ATOM and (named is None or named[0] is old.kind)
    detail = old.detail if heritage.skill else _without_trigger(old.detail)
    draft = with_supports(act, draft, old=old) if heritage.supports else draft
    return replace(
        draft,
        kind=draft.kind or old.kind,
        label=draft.label or old.label,
        project=draft.project or old.project,
        scope=draft.scope or old.scope,
        trust=draft.trust or own_trust(act.caller),
        tags=draft.tags or old.tags,
        source_ref=draft.source_ref or old.source_ref,
        expires_at=draft.expires_at or (_expiry(old, act) if draft.detail is None else None),
        detail=draft.detail or (detail if stays else None),
        audience=_others(old, act),
        source_message_id=draft.source_message_id or _shared_source(old, act),
    )


def replace_by(
    act: Act, prepared: Prepared, *, old_id: int, reason: str, heritage: Heritage
) -> Outcome:
    """Store the new and retire the old together, or the new alone as a proposal to do so.

    Raises:
        NotFound: there is none, or the caller may not see it.
        Invalid: the new rests on the old.
        Refused: the caller may not write there, the old is no head or claimed by another, or the
            scope is narrower.

    """
    old = act.fetch(old_id)
    check_may_write(act.caller, old.scope)
    check_is_head(act, old)
    _check_rests_elsewhere(prepared.draft, old)
    # Its sources may narrow it and make it trusted less: what then counts is what it becomes.
    prepared = settle_sources(act.tx, prepared, look=act.look(Filter()))
    check_stays_seen(old, prepared.scope)
    _check_own_words(act, old)
    check_lease(act.tx, act.caller, memory=old, now=act.now)
    told = {"pin": heritage.pin, "supports": heritage.supports}
    wanted = Proposal(op=Action.SUPERSEDE, id=old.id, reason=reason, told=told)
    is_proposed = not _is_entitled(act, prepared, old=old, heritage=heritage)
    known = pending(act, wanted) if is_proposed else None
    if known is not None and known.body == prepared.admitted.body:
        told_before = Outcome(status=Status.QUARANTINED, id=_shown(known.id), kind=known.kind)
        return _proposed(told_before, known)
    course = Course(
        besides=frozenset({old.id}),
        revises=old.superseded_count + 1,
        proposal=wanted.payload() if is_proposed else None,
    )
    writer = Remember(act.house, act.caller)
    outcome = writer.settle(act.tx, prepared, look=act.look(Filter()), course=course)
    if outcome.id is None or not outcome.status.is_new:
        return outcome
    credit(act.tx, act.house, use=Use.by(act.caller, [old.id], mark=Mark.USED, at=act.now))
    new = act.fetch(ids.parse(ids.MEMORY, outcome.id))
    if outcome.status is Status.QUARANTINED:
        return _proposed(outcome, new)
    _retire(act, old, new=new, wanted=wanted)
    _broadcast_anew(act, old, new=new)
    return outcome


def _check_rests_elsewhere(draft: Draft, old: Memory) -> None:
    """Refuse a revision that would fall with what it takes the place of.

    Raises:
        Invalid: it is derived from the old one, or depends on it.

    """
    if old.id in (*draft.derived_from, *draft.depends_on):
        raise Invalid(
            f"A revision of {_shown(old.id)} cannot rest on it: that one holds no more.",
            hint="Leave it out of derived_from and depends_on; the chain of revisions is kept.",
        )


def _broadcast_anew(act: Act, old: Memory, *, new: Memory) -> None:
    """Deliver the new text of a broadcast to everybody; that of a direct message has gone out."""
    if old.kind is not Kind.MESSAGE or new.scope is Scope.PRIVATE:
        return
    if any(one.agent == EVERYBODY for one in act.tx.mail.of([old.id]).get(old.id, ())):
        act.tx.mail.post(deliveries(new, to=[EVERYBODY]))


def _check_own_words(act: Act, old: Memory) -> None:
    """Let nobody but its sender put other words into what an agent said to others.

    What was said elsewhere and only imported is anybody's to correct.

    Raises:
        Refused: `scope_denied`.

    """
    if old.kind is not Kind.MESSAGE or old.agent == act.caller.agent:
        return
    if old.scope is Scope.PRIVATE or old.speaker == old.agent:
        raise Refused(
            f"{_shown(old.id)} is a message of another agent.",
            code="scope_denied",
            hint="Reply to it, or annotate it.",
        )


def carry_out(act: Act, new: Memory, *, activated: Memory, wanted: Proposal) -> None:
    """Put a proposed text in the place of the old one, under the authority of its approver."""
    old = act.fetch(wanted.id)
    check_is_head(act, old)
    in_place = replace(activated, superseded_count=old.superseded_count + 1)
    act.amend(new, in_place, deed=act.deed(Action.APPROVE, wanted.reason))
    _retire(act, old, new=in_place, wanted=wanted)


def _retire(act: Act, old: Memory, *, new: Memory, wanted: Proposal) -> None:
    gone = superseded(old, by=new.id, at=act.now)
    act.amend(old, gone, deed=act.deed(Action.SUPERSEDE, wanted.reason))
    if wanted.told["pin"] and old.pinned and not new.pinned:
        act.amend(new, replace(new, pinned=True), deed=act.deed(Action.PIN, wanted.reason))
    take_over(act, old, new=new, supports=bool(wanted.told["supports"]))


def _is_entitled(act: Act, prepared: Prepared, *, old: Memory, heritage: Heritage) -> bool:
    """Say whether both the caller and the text are trusted enough, and it would bind at once."""
    made = to_memory(prepared, act.caller, now=act.now, revises=0)
    is_trusted = prepared.trust.weight >= old.trust.weight and is_entitled(act.caller, old)
    inherits = heritage.pin and old.pinned
    is_weighty = inherits and act.caller.trust_ceiling is Trust.UNTRUSTED_WEB
    return is_trusted and made.state is not State.QUARANTINED and not is_weighty


def _proposed(outcome: Outcome, new: Memory) -> Outcome:
    carried = proposal_of(new)
    what = _shown(carried.id) if carried else "the old one"
    return replace(
        outcome,
        headline=new.headline,
        reason=f"To replace {what} needs more trust than this text or its author has: it is a "
        "proposal, and the old one holds.",
        hint=how_settled(new),
    )


def _expiry(old: Memory, act: Act) -> datetime | None:
    lives = isinstance(old.detail, FactDetail) and old.detail.ttl_s is not None
    is_ahead = old.expires_at is not None and old.expires_at > act.now
    return old.expires_at if is_ahead and not lives else None


def _without_trigger(detail: Detail) -> Detail:
    return replace(detail, skill=None) if isinstance(detail, RuleDetail) else detail


def _others(old: Memory, act: Act) -> tuple[str, ...]:
    """Keep the audience of what is private: whoever saw the old one sees the new."""
    if old.scope is not Scope.PRIVATE:
        return ()
    return tuple(name for name in (old.agent, *old.audience) if name != act.caller.agent)


def _shared_source(old: Memory, act: Act) -> int | None:
    """Keep the message that a shared memory came from, while it is there."""
    source = old.source_message_id if old.audience else None
    found = act.tx.memories.get([source]).get(source) if source is not None else None
    if found is None or found.state not in FINDABLE_STATES:
        return None
    return source if is_visible(act.caller, found) else None


def _shown(id_: int) -> str:
    return ids.show(ids.MEMORY, id_)
