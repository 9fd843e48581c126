"""Undo: revert everything that an agent, a session or a period changed, as one change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, cast

from commonbrain.history.selection import (
    BulkChangeResult,
    Phase,
    confirmation_hint,
    denial_reason,
    kinds_of,
    memory_ref,
    shown,
)
from commonbrain.history.unit_of_work import (
    UnitOfWork,
    read_unit,
    validate_reason,
    vectors_of,
    write_unit,
)
from commonbrain.ingestion.pending_acks import check_pending_acks_of
from commonbrain.invalidation.propagation import continue_propagation
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError, check_names
from commonbrain.model.limits import REASON_CHARS_MAX, UNDO_CHANGES_MAX, UNDO_DAYS_MAX
from commonbrain.model.links import Link, LinkType, link_of
from commonbrain.model.memory import CURRENT_STATES, FINDABLE_STATES, Memory, State, is_erased
from commonbrain.model.revision import Action, Revision, own_state
from commonbrain.model.scope import Caller, Scope, check_may_write, is_visible
from commonbrain.model.support import Review
from commonbrain.model.tasks import TaskDecision, ack_of
from commonbrain.model.timestamps import show_instant
from commonbrain.security.authority import check_may_bind_all
from commonbrain.services import Services
from commonbrain.storage.change_log import (
    annotation_image,
    annotation_of,
    record_related_change,
    settled_of,
)
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.time_expressions.parser import parse_time_expression

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

RELATED_IMAGES: Final = frozenset({"link", "annotation", "ack", "review"})
"""Keys of images that are not fields of a memory."""
_SYSTEM_ACTIONS: Final = frozenset({Action.UNDO, Action.CASCADE})
"""Undone undos and effects of propagation do not count as someone's work."""
_BUILT_ON: Final = (LinkType.DERIVED_FROM, LinkType.DEPENDS_ON)


_Ends = tuple[int, int, LinkType]
_Whose = tuple[int, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _StateBeforeUndo:
    """Annotations and links as they are once later changes are reverted."""

    links: dict[_Ends, Link | None] = field(default_factory=dict[_Ends, "Link | None"])
    acks: dict[_Whose, TaskDecision | None] = field(
        default_factory=dict[_Whose, "TaskDecision | None"]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversal:
    """The reversal of one memory; `skip_reason` explains what cannot be reverted."""

    before: Memory
    after: Memory
    related: tuple[Revision, ...] = ()
    """Links and annotations to revert, newest first."""
    skip_reason: str | None = None
    candidates: tuple[Revision, ...] = ()
    """Changes of links, annotations and acknowledgements.

    `with_links` decides which are reverted.
    """
    others: tuple[Revision, ...] = ()
    """Changes that stay, oldest first."""

    @property
    def is_due(self) -> bool:
        """Whether there is anything to do."""
        return self.after != self.before or bool(self.related)

    @property
    def peers(self) -> set[int]:
        """Memories that leave its chain or join it again."""
        both = {self.before.superseded_by, self.after.superseded_by}
        return {one for one in both if one is not None} if len(both) > 1 else set()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltOn:
    """A dependent of a memory: its author, and how the caller may see it."""

    agent: str
    note: str


def find_dependents(unit: UnitOfWork, memories: Sequence[Memory]) -> dict[int, list[BuiltOn]]:
    """List the dependents of these memories by id."""
    links = unit.tx.links.touching([one.id for one in memories], types=_BUILT_ON)
    above = unit.tx.memories.get(list(dict.fromkeys(link.from_id for link in links)))
    resting: defaultdict[int, list[BuiltOn]] = defaultdict(list)
    for link in links:
        is_seen = link.from_id in above and is_visible(unit.caller, above[link.from_id])
        note = f"{ids.show(ids.MEMORY, link.from_id)} {link.type} it, says {link.agent}."
        # The caller must not learn whose private memory depends on it.
        one = BuiltOn(
            agent=link.agent, note=note if is_seen else "Another memory depends on it now."
        )
        resting[link.to_id].append(one)
    return resting


def plan_reversal(
    unit: UnitOfWork, memory: Memory, *, to_undo: Sequence[Revision], resting: Sequence[BuiltOn]
) -> Reversal:
    """Plan to revert changes of a memory, newest first, unless something depends on them."""
    nothing = Reversal(before=memory, after=memory)
    why = denial_reason(unit.caller, memory)
    if is_erased(memory):
        why = "It was erased."
    if why is not None:
        return replace(nothing, skip_reason=why)
    chosen = {one.id for one in to_undo}
    changes = unit.tx.changes.of([memory.id])
    others = [one for one in changes if one.id not in chosen and one.action is not Action.CASCADE]
    newest_first = sorted(to_undo, key=lambda one: one.id, reverse=True)
    own = [one for one in newest_first if not _is_related(one)]
    candidates = [one for one in newest_first if _is_related(one)]
    own = [_as_own(one, changes) for one in own]
    held = replace(memory, state=own_state(memory.state, changes))
    after, skip_reason = _reverse_fields(held, own, others=others, resting=resting)
    if after.state is held.state:
        after = replace(after, state=memory.state)
    after = _held(unit, memory, after=after)
    try:
        check_may_bind_all(unit.caller, memory, after=after)
    except RejectedError as refusal:
        return replace(nothing, skip_reason=refusal.message)
    return Reversal(
        before=memory,
        after=after,
        skip_reason=skip_reason,
        candidates=tuple(candidates),
        others=tuple(others),
    )


def _as_own(change: Revision, changes: Sequence[Revision]) -> Revision:
    """Return a change as if propagation had not archived the memory before it."""
    if change.before.get("state") != State.ARCHIVED:
        return change
    state = own_state(State.ARCHIVED, [one for one in changes if one.id < change.id])
    return replace(change, before={**change.before, "state": state})


def _is_related(change: Revision) -> bool:
    return bool(RELATED_IMAGES & {*change.before, *change.after})


def _reverse_fields(
    memory: Memory,
    changes: Sequence[Revision],
    *,
    others: Sequence[Revision],
    resting: Sequence[BuiltOn],
) -> tuple[Memory, str | None]:
    """Revert the fields of the memory itself."""
    after, skip_reason = memory, None
    for change in changes:
        if change.action is Action.CREATE:
            after, skip_reason = _undo_create(after, change, others=others, resting=resting) or (
                after,
                skip_reason,
            )
        elif _agrees(after, change.after):
            after = replace(after, **cast("dict[str, Any]", dict(change.before)))
        elif not _agrees(after, change.before):
            skip_reason = _who_changed(change, others)
    return after, skip_reason


def with_links(unit: UnitOfWork, reversals: Sequence[Reversal]) -> list[Reversal]:
    """Choose the links, annotations and acknowledgements to revert, newest first over all.

    A link can be changed through both of its ends: superseding a memory carries its links over to
    the successor, and a call on another memory may strengthen them afterwards.
    """
    taken: defaultdict[int, list[Revision]] = defaultdict(list)
    skipped: dict[int, str] = {}
    seen = _StateBeforeUndo()
    both = ((change, one) for one in reversals for change in one.candidates)
    for change, one in sorted(both, key=lambda pair: pair[0].id, reverse=True):
        still_applies = _still_applies(unit, change, seen=seen)
        if still_applies:
            taken[one.before.id].append(change)
        elif still_applies is False:
            skipped[one.before.id] = _who_changed(change, one.others)
    return [
        replace(
            one,
            related=tuple(taken[one.before.id]),
            skip_reason=one.skip_reason or skipped.get(one.before.id),
        )
        for one in reversals
    ]


def _held(unit: UnitOfWork, before: Memory, *, after: Memory) -> Memory:
    """Set since when the memory is believed again."""
    is_back = before.state not in CURRENT_STATES and after.state in CURRENT_STATES
    return replace(after, believed_since=unit.now) if is_back else after


def _undo_create(
    memory: Memory, born: Revision, *, others: Sequence[Revision], resting: Sequence[BuiltOn]
) -> tuple[Memory, str | None] | None:
    """Forget a new memory unless others depend on it; None if it is gone already."""
    if memory.state is State.FORGOTTEN:
        return None
    later = [one for one in others if one.id > born.id and one.action not in _SYSTEM_ACTIONS]
    if later:
        return memory, f"{later[-1].agent} has built on it since ({later[-1].action})."
    for one in resting:
        if one.agent != born.agent:
            return memory, one.note
    return replace(memory, state=State.FORGOTTEN), None


def _agrees(memory: Memory, image: Mapping[str, object]) -> bool:
    return all(getattr(memory, name) == value for name, value in image.items())


def _who_changed(change: Revision, others: Sequence[Revision]) -> str:
    """Return who last changed the same thing."""
    later = [one for one in others if one.id > change.id and set(one.after) & set(change.after)]
    who = f"{later[-1].agent} has changed it since ({later[-1].action})" if later else "It changed"
    return f"{who}; {change.action} is not undone."


def _still_applies(unit: UnitOfWork, change: Revision, *, seen: _StateBeforeUndo) -> bool | None:
    """Return whether related data is as the change left it; None if it is as before the change.

    `seen` holds the state after later changes are reverted.
    """
    named = {*change.before, *change.after}
    if "annotation" in named:
        return _annotation_applies(unit, change)
    if "review" in named:
        is_settled = "review" not in change.after or settled_by(unit.tx, change)
        return True if is_settled else None
    if "ack" in named:
        return _ack_applies(unit, change, acks=seen.acks)
    links = seen.links
    was, is_ = _link(change.before), _link(change.after)
    either = was or is_
    if either is None:
        return None
    ends = either.from_id, either.to_id, either.type
    if ends not in links:
        there = unit.tx.links.touching([either.from_id], types=[either.type])
        links[ends] = next((one for one in there if one.to_id == either.to_id), None)
    if _is_same(links[ends], is_):
        links[ends] = was
        return True
    return None if _is_same(links[ends], was) else False


def settled_by(tx: Transaction, change: Revision) -> list[Review]:
    """Return the reviews that a change resolved, if they are still as it left them."""
    settled = settled_of(change.after["review"], change.memory_id)
    there = tx.reviews.of([change.memory_id]).get(change.memory_id, [])
    at = settled[0].settled_at if settled else None
    return [one for one in there if one.settled_at == at and not one.is_open]


def _ack_applies(
    unit: UnitOfWork, change: Revision, *, acks: dict[_Whose, TaskDecision | None]
) -> bool | None:
    """Return whether an acknowledgement is as the change left it; None if it is as before."""
    was, is_ = (
        ack_of(image["ack"]) if "ack" in image else None for image in (change.before, change.after)
    )
    whose = (is_ or was).whose  # type: ignore[union-attr]
    if whose not in acks:
        there = unit.tx.acks.of([change.memory_id]).get(change.memory_id, [])
        acks[whose] = next((one for one in there if one.whose == whose), None)
    if acks[whose] == is_:
        acks[whose] = was
        return True
    return None if acks[whose] == was else False


def _annotation_applies(unit: UnitOfWork, change: Revision) -> bool | None:
    """Return whether an annotation that the change added or removed is still so."""
    image = cast("Mapping[str, Any]", {**change.before, **change.after}["annotation"])
    there = unit.tx.annotations.of([change.memory_id]).get(change.memory_id, [])
    if "annotation" in change.after:
        return True if image["id"] in {one.id for one in there} else None
    same = [one for one in there if (one.agent, one.text) == (image["agent"], image["text"])]
    return None if same else True


def _is_same(one: Link | None, other: Link | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.observations, one.strength) == (other.observations, other.strength)


def _link(image: Mapping[str, object]) -> Link | None:
    given = image.get("link")
    return link_of(cast("Mapping[str, Any]", given)) if given else None


_LONGEST: Final = timedelta(days=UNDO_DAYS_MAX)


class UndoCriteria(TypedDict, total=False):
    """Which changes to undo."""

    agent: str | None
    session: str | None
    since: datetime | str | None
    """From this time, ISO 8601 or words such as yesterday; by default 31 days before `until`."""
    until: datetime | str | None
    """Up to this time; by default now."""
    request_id: str | None
    """Of this call, as the audit names it."""


@dataclass(frozen=True, slots=True)
class Undo:
    """Undoes changes for one caller."""

    services: Services
    caller: Caller

    def __call__(
        self, *, reason: str, confirm: int | None = None, **criteria: Unpack[UndoCriteria]
    ) -> BulkChangeResult:
        """Revert what was written and changed, newest first; a preview comes first.

        New memories are forgotten, changed ones are as before. What others have changed,
        superseded, annotated or derived from since is skipped and listed with the reason.
        Everything happens in one transaction with one reason, and can be undone in turn.

        Args:
            reason: the reason, which is stored.
            confirm: the count of the preview; without it nothing is changed.
            criteria: see `UndoCriteria`; a change must meet all that are given.

        Raises:
            InvalidInputError: the reason is missing, or neither agent nor session nor time is
                given.
            RejectedError: `limit_exceeded`, the period or the number of changes is too large.
            UnavailableError: the store stayed locked; `busy`, too many texts of the tenant wait to
                be embedded; or `deadline`. Nothing was changed.

        """
        why = validate_reason(reason, services=self.services, caller=self.caller)
        check_may_write(self.caller, Scope.TEAM)
        now = self.services.clock.now()
        query = _UndoQuery.of(criteria, now=now)
        with read_unit(self.services, self.caller) as unit:
            reversals = _plan(unit, query)
            preview = _preview(reversals, confirm=confirm, reason=why)
        if confirm is None or confirm != preview.count:
            return preview
        back = [one.before for one in reversals if _becomes_findable(one)]
        vectors = vectors_of(self.services, self.caller, memories=back)
        with write_unit(self.services, self.caller, vectors=vectors) as unit:
            done = _undo(unit, query, confirm=confirm, reason=why)
            done = replace(done, affected=unit.propagate_invalidation())
        continue_propagation(self.services, self.caller)
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class _UndoQuery:
    """The changes to undo."""

    agent: str | None
    session: str | None
    since: datetime
    until: datetime
    request_id: str | None = None

    @classmethod
    def of(cls, criteria: UndoCriteria, *, now: datetime) -> _UndoQuery:
        check_names(criteria, UndoCriteria.__annotations__, message="There is no {} to select by.")
        agent, session = criteria.get("agent"), criteria.get("session")
        since, until = criteria.get("since"), criteria.get("until")
        if agent is None and session is None and since is None and until is None:
            raise InvalidInputError(
                "Nothing selects the changes to undo.", hint="Give agent, session or since."
            )
        end = parse_time_expression(until, now, ends=True) if until else now
        start = parse_time_expression(since, now) if since else end - _LONGEST
        if start > end:
            raise InvalidInputError(
                f"since {show_instant(start)} is after until {show_instant(end)}."
            )
        if end - start > _LONGEST:
            raise RejectedError(
                f"The span is {(end - start).days} days; {UNDO_DAYS_MAX} are allowed.",
                code="limit_exceeded",
                hint="Undo the latest days first, then earlier ones.",
            )
        who, where = normalise_line(agent), normalise_line(session)
        if (agent is not None and who is None) or (session is not None and where is None):
            raise InvalidInputError("The agent or session is blank.", hint="Give its name.")
        request_id = criteria.get("request_id")
        return cls(agent=who, session=where, since=start, until=end, request_id=request_id)

    def shown(self) -> str:
        whose = [f"agent {self.agent}"] if self.agent else []
        whose += [f"session {self.session}"] if self.session else []
        return f"{' in '.join(whose) or 'everybody'} since {show_instant(self.since)}"


def _plan(unit: UnitOfWork, query: _UndoQuery) -> list[Reversal]:
    """Plan the reversal of every memory that was changed."""
    changes = unit.tx.changes.by(
        agent=query.agent,
        session=query.session,
        since=query.since,
        until=query.until,
        request_id=query.request_id,
        limit=UNDO_CHANGES_MAX + 1,
    )
    if len(changes) > UNDO_CHANGES_MAX:
        raise RejectedError(
            f"More than {UNDO_CHANGES_MAX} changes match, the most that one call can undo.",
            code="limit_exceeded",
            hint="Undo the latest hours first, with a later since.",
        )
    by_memory: defaultdict[int, list[Revision]] = defaultdict(list)
    for change in changes:
        by_memory[change.memory_id].append(change)
    memories = unit.tx.memories.get(list(by_memory))
    seen = [one for one in memories.values() if is_visible(unit.caller, one)]
    resting = find_dependents(unit, seen)
    reversals = [
        plan_reversal(unit, one, to_undo=by_memory[one.id], resting=resting.get(one.id, ()))
        for one in seen
    ]
    while True:
        # A memory that stays also keeps its links, on which links of others may depend.
        planned = _link_chains(with_links(unit, reversals))
        if all(
            len(a.candidates) == len(b.candidates) for a, b in zip(reversals, planned, strict=True)
        ):
            return planned
        reversals = planned


def _link_chains(reversals: Sequence[Reversal]) -> list[Reversal]:
    """Keep chains intact: a memory that stays keeps its predecessor, and vice versa."""
    skip_reason = {
        one.before.id: one.skip_reason for one in reversals if one.skip_reason is not None
    }
    whole: list[Reversal] = []
    for one in reversals:
        bound = [id_ for id_ in one.peers if id_ in skip_reason]
        if bound:
            why = f"{ids.show(ids.MEMORY, bound[0])} superseded it and stays."
            whole.append(
                Reversal(before=one.before, after=one.before, skip_reason=one.skip_reason or why)
            )
        else:
            whole.append(one)
    return whole


def _becomes_findable(one: Reversal) -> bool:
    was, is_ = one.before.state, one.after.state
    return was not in FINDABLE_STATES and is_ in FINDABLE_STATES


def _undo(unit: UnitOfWork, query: _UndoQuery, *, confirm: int, reason: str) -> BulkChangeResult:
    reversals = _plan(unit, query)
    preview = _preview(reversals, confirm=confirm, reason=reason)
    if confirm != preview.count:
        return preview
    due = [one.before for one in reversals if one.is_due]
    check_pending_acks_of(unit.tx, unit.caller, memories=due, now=unit.now, is_resolving=True)
    token = ids.show(
        "und", ids.make_id(unit.now, unit.services.random_source.bits(ids.RANDOM_BITS))
    )
    one_reason = f"{token}, undo of {query.shown()}: {reason}"[:REASON_CHARS_MAX]
    change_context = unit.change_context(Action.UNDO, one_reason)
    # What leaves a chain makes room for what joins it again.
    for one in sorted(reversals, key=lambda one: one.after.superseded_by is not None):
        if one.after != one.before:
            unit.amend(one.before, one.after, change_context=change_context)
    changed = ((change, one.after) for one in reversals for change in one.related)
    for change, memory in sorted(changed, key=lambda pair: pair[0].id, reverse=True):
        before, after = _restore_related(unit, change)
        record_related_change(
            unit.tx, memory, change_context=change_context, before=before, after=after
        )
    status = Phase.DONE if preview.count else Phase.UNCHANGED
    return replace(preview, status=status, reason=one_reason, hint=None)


def _restore_related(
    unit: UnitOfWork, change: Revision
) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Restore annotations and links of a memory; return what was added and removed."""
    old, new = _image(change.before), _image(change.after)
    if "ack" in {*change.before, *change.after}:
        if old is not None:
            unit.tx.acks.put(ack_of(old))
        elif new is not None:
            unit.tx.acks.drop(ack_of(new))
        return change.after, change.before
    if "annotation" in {*change.before, *change.after}:
        if new is not None:
            unit.tx.annotations.drop(int(new["id"]))
            return change.after, {}
        noted = annotation_of(old or {})
        again = replace(noted, id=unit.tx.annotations.add(noted))
        return {}, {"annotation": annotation_image(again)}
    if "review" in change.after:
        opened = {"settled_at": None, "settled_by": None, "reason": None}
        unit.tx.reviews.put([replace(one, **opened) for one in settled_by(unit.tx, change)])
        unit.tx.reviews.touch([change.memory_id], at=unit.now)
        return change.after, {}
    if "review" in change.before:
        # Marks that are not set again in the end stay removed.
        unit.tx.reviews.put(settled_of(change.before["review"], change.memory_id))
        unit.tx.reviews.touch([change.memory_id], at=unit.now)
        return {}, change.before
    if old is not None:
        unit.tx.links.replace(link_of(old))
    elif new is not None:
        link = link_of(new)
        unit.tx.links.drop(link.from_id, link.to_id, type_=link.type)
    return change.after, change.before


def _image(images: Mapping[str, object]) -> Mapping[str, Any] | None:
    return cast(
        "Mapping[str, Any] | None",
        next((images[one] for one in RELATED_IMAGES if one in images), None),
    )


def _preview(
    reversals: Sequence[Reversal], *, confirm: int | None, reason: str
) -> BulkChangeResult:
    due = [one for one in reversals if one.is_due]
    skipped = [
        memory_ref(one.before, one.skip_reason) for one in reversals if one.skip_reason is not None
    ]
    taken: list[Memory] = [one.before for one in due]
    return BulkChangeResult(
        action=Action.UNDO,
        status=Phase.PREVIEW,
        count=len(due),
        by_kind=kinds_of(taken),
        items=shown([memory_ref(one.before, _what(one)) for one in due]),
        skipped_count=len(skipped),
        skipped=shown(skipped),
        reason=reason,
        hint=confirmation_hint(len(due), confirm) if due else "There is nothing to undo.",
    )


def _what(one: Reversal) -> str:
    """Describe the reversal of a memory."""
    was, is_ = one.before.state, one.after.state
    related = f"{len(one.related)} related" if one.related else ""
    state = f"{was} -> {is_}" if was is not is_ else ""
    own = state or ("changed back" if one.after != one.before else "")
    return ", ".join(part for part in (own, related) if part)
