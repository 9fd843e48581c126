"""Undo: revert everything that an agent, a session or a period changed, by before-images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack, cast

from commonbrain.history.metadata import find_link
from commonbrain.history.selection import (
    BulkChangeResult,
    Dependents,
    Phase,
    Selection,
    confirmation_hint,
    denial_reason,
    make_preview,
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
from commonbrain.model.scope import Scope, check_may_write, is_visible
from commonbrain.model.support import Review
from commonbrain.model.tasks import TaskDecision, ack_of
from commonbrain.model.timestamps import show_instant
from commonbrain.security.authority import check_may_bind_all
from commonbrain.services import Capability
from commonbrain.storage.change_log import (
    annotation_image,
    annotation_of,
    settled_of,
)
from commonbrain.storage.interface import Annotation
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.time_expressions.parser import parse_time_expression

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_RELATED_IMAGES: Final = frozenset({"link", "annotation", "ack", "review"})
"""Keys of images that are not fields of a memory."""
_SYSTEM_ACTIONS: Final = frozenset({Action.UNDO, Action.CASCADE})
"""Undone undos and effects of propagation do not count as someone's work."""
_BUILT_ON: Final = (LinkType.DERIVED_FROM, LinkType.DEPENDS_ON)


def image_before(change: Revision, changes: Sequence[Revision]) -> dict[str, Any]:
    """Return the fields before a change, as if propagation had not archived the memory.

    `changes` are all of the memory, oldest first.
    """
    image = dict(change.before)
    if image.get("state") == State.ARCHIVED:
        earlier = [other for other in changes if other.id < change.id]
        image["state"] = own_state(State.ARCHIVED, earlier)
    return image


def believed_again(unit: UnitOfWork, before: Memory, *, after: Memory) -> Memory:
    """Set since when the memory is believed again."""
    is_back = before.state not in CURRENT_STATES and after.state in CURRENT_STATES
    return replace(after, believed_since=unit.now) if is_back else after


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reversal:
    """The reversal of one memory; `skip_reason` explains what cannot be reverted."""

    before: Memory
    after: Memory
    related: tuple[Revision, ...] = ()
    """Links and annotations to revert, newest first."""
    skip_reason: str | None = None
    candidates: tuple[Revision, ...] = ()
    """Changes of links, annotations and acknowledgements.

    `_with_related` decides which are reverted.
    """
    others: tuple[Revision, ...] = ()
    """Changes that stay, oldest first."""

    @property
    def is_due(self) -> bool:
        """Whether there is anything to do."""
        return self.after != self.before or bool(self.related)

    def described(self) -> str:
        """Describe what is reverted."""
        was, is_ = self.before.state, self.after.state
        state = f"{was} -> {is_}" if was is not is_ else ""
        fields = state or ("changed back" if self.after != self.before else "")
        related = f"{len(self.related)} related" if self.related else ""
        return ", ".join(part for part in (fields, related) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dependent:
    """A dependent of a memory: its author, and how the caller may see it."""

    agent: str
    note: str


def _find_dependents(unit: UnitOfWork, memories: Sequence[Memory]) -> dict[int, list[_Dependent]]:
    """List the dependents of these memories by id."""
    links = unit.tx.links.touching([memory.id for memory in memories], types=_BUILT_ON)
    above = unit.tx.memories.get(list(dict.fromkeys(link.from_id for link in links)))
    dependents: defaultdict[int, list[_Dependent]] = defaultdict(list)
    for link in links:
        is_seen = link.from_id in above and is_visible(unit.caller, above[link.from_id])
        note = f"{ids.show(ids.MEMORY, link.from_id)} {link.type} it, says {link.agent}."
        # The caller must not learn whose private memory depends on it.
        dependent = _Dependent(
            agent=link.agent, note=note if is_seen else "Another memory depends on it now."
        )
        dependents[link.to_id].append(dependent)
    return dependents


def _plan_reversal(
    unit: UnitOfWork,
    memory: Memory,
    *,
    to_undo: Sequence[Revision],
    dependents: Sequence[_Dependent],
) -> _Reversal:
    """Plan to revert changes of a memory, newest first, unless something depends on them."""
    nothing = _Reversal(before=memory, after=memory)
    why = "It was erased." if is_erased(memory) else denial_reason(unit.caller, memory)
    above = next((one for one in to_undo if not unit.caller.authority.covers(one.authority)), None)
    if why is None and above is not None:
        why = f"A {above.authority} made the change ({above.action}); ask the user to undo it."
    if why is not None:
        return replace(nothing, skip_reason=why)
    chosen = {change.id for change in to_undo}
    changes = unit.tx.changes.of([memory.id])
    others = [
        change
        for change in changes
        if change.id not in chosen and change.action is not Action.CASCADE
    ]
    newest_first = sorted(to_undo, key=lambda change: change.id, reverse=True)
    of_fields = [
        replace(change, before=image_before(change, changes))
        for change in newest_first
        if not _is_related(change)
    ]
    supported = replace(memory, state=own_state(memory.state, changes))
    after, skip_reason = _reverse_fields(supported, of_fields, others=others, dependents=dependents)
    if after.state is supported.state:
        after = replace(after, state=memory.state)
    after = believed_again(unit, memory, after=after)
    try:
        check_may_bind_all(unit.caller, memory, after=after)
    except RejectedError as refusal:
        return replace(nothing, skip_reason=refusal.message)
    return _Reversal(
        before=memory,
        after=after,
        skip_reason=skip_reason,
        candidates=tuple(filter(_is_related, newest_first)),
        others=tuple(others),
    )


def _is_related(change: Revision) -> bool:
    return bool(_RELATED_IMAGES & {*change.before, *change.after})


def _reverse_fields(
    memory: Memory,
    changes: Sequence[Revision],
    *,
    others: Sequence[Revision],
    dependents: Sequence[_Dependent],
) -> tuple[Memory, str | None]:
    """Revert the fields of the memory itself."""
    after, skip_reason = memory, None
    for change in changes:
        if change.action is Action.CREATE:
            # A memory that is gone already is not new.
            if after.state is not State.FORGOTTEN:
                skip_reason = _why_not_forgotten(change, others=others, dependents=dependents)
                after = after if skip_reason else replace(after, state=State.FORGOTTEN)
        elif _agrees(after, change.after):
            after = replace(after, **cast("dict[str, Any]", dict(change.before)))
        elif not _agrees(after, change.before):
            skip_reason = _who_changed(change, others)
    return after, skip_reason


def _why_not_forgotten(
    created: Revision, *, others: Sequence[Revision], dependents: Sequence[_Dependent]
) -> str | None:
    """Return why a new memory is not forgotten: others have built on it."""
    later = [
        change
        for change in others
        if change.id > created.id and change.action not in _SYSTEM_ACTIONS
    ]
    if later:
        return f"{later[-1].agent} has built on it since ({later[-1].action})."
    notes = (dependent.note for dependent in dependents if dependent.agent != created.agent)
    return next(notes, None)


def _agrees(memory: Memory, image: Mapping[str, object]) -> bool:
    return all(getattr(memory, name) == value for name, value in image.items())


def _who_changed(change: Revision, others: Sequence[Revision]) -> str:
    """Return who last changed the same thing."""
    later = [
        other for other in others if other.id > change.id and set(other.after) & set(change.after)
    ]
    who = f"{later[-1].agent} has changed it since ({later[-1].action})" if later else "It changed"
    return f"{who}; {change.action} is not undone."


_Related = Link | TaskDecision | Annotation


def _with_related(unit: UnitOfWork, reversals: Sequence[_Reversal]) -> list[_Reversal]:
    """Choose the links, annotations and acknowledgements to revert, newest first over all.

    A link can be changed through both of its ends: superseding a memory carries its links over to
    the successor, and a call on another memory may strengthen them afterwards.
    """
    taken: defaultdict[int, list[Revision]] = defaultdict(list)
    skipped: dict[int, str] = {}
    reverted: dict[Hashable, _Related | None] = {}
    changes = ((change, reversal) for reversal in reversals for change in reversal.candidates)
    for change, reversal in sorted(changes, key=lambda pair: pair[0].id, reverse=True):
        still_applies = _still_applies(unit, change, reverted=reverted)
        if still_applies:
            taken[reversal.before.id].append(change)
        elif still_applies is False:
            skipped[reversal.before.id] = _who_changed(change, reversal.others)
    return [
        replace(
            reversal,
            related=tuple(taken[reversal.before.id]),
            skip_reason=reversal.skip_reason or skipped.get(reversal.before.id),
        )
        for reversal in reversals
    ]


def _still_applies(
    unit: UnitOfWork, change: Revision, *, reverted: dict[Hashable, _Related | None]
) -> bool | None:
    """Return whether related data is as the change left it; None if it is as before the change.

    `reverted` holds what later changes leave once they are reverted, by key.
    """
    if "review" in {*change.before, *change.after}:
        is_settled = "review" not in change.after or _settled_by(unit.tx, change)
        return True if is_settled else None
    was, is_ = _related_of(change.before), _related_of(change.after)
    known = is_ or was
    if known is None:
        return None
    key = _key(known, is_there=is_ is not None)
    if key not in reverted:
        reverted[key] = _stored(unit, known, is_there=is_ is not None)
    if _is_same(reverted[key], is_):
        reverted[key] = was
        return True
    return None if _is_same(reverted[key], was) else False


def _related_of(image: Mapping[str, Any]) -> _Related | None:
    match image:
        case {"link": link}:
            return link_of(link)
        case {"ack": ack}:
            return ack_of(ack)
        case {"annotation": annotation}:
            return annotation_of(annotation)
        case _:
            return None


def _key(related: _Related, *, is_there: bool) -> Hashable:
    match related:
        case Link():
            return LinkType, related.from_id, related.to_id, related.type
        case TaskDecision():
            return TaskDecision, related.whose
        case Annotation() if is_there:
            return Annotation, related.id
        case Annotation():
            # It gets another id when it is added again.
            return Annotation, related.memory_id, related.agent, related.text


def _stored(unit: UnitOfWork, related: _Related, *, is_there: bool) -> _Related | None:
    """Return what is stored under the key of related data."""
    if isinstance(related, Link):
        return find_link(unit.tx, related.from_id, to_id=related.to_id, type_=related.type)
    table = unit.tx.acks if isinstance(related, TaskDecision) else unit.tx.annotations
    rows = table.of([related.memory_id]).get(related.memory_id, ())
    key = _key(related, is_there=is_there)
    return next((row for row in rows if _key(row, is_there=is_there) == key), None)


def _is_same(related: _Related | None, other: _Related | None) -> bool:
    match related, other:
        case Link(), Link():
            seen = related.observations, related.strength
            return seen == (other.observations, other.strength)
        case Annotation(), Annotation():
            return True
        case _:
            return related == other


def _settled_by(tx: Transaction, change: Revision) -> list[Review]:
    """Return the reviews that a change resolved, if they are still as it left them."""
    settled = settled_of(change.after["review"], change.memory_id)
    there = tx.reviews.of([change.memory_id]).get(change.memory_id, [])
    at = settled[0].settled_at if settled else None
    return [review for review in there if review.settled_at == at and not review.is_open]


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


class Undo(Capability):
    """Undoes changes for one caller."""

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
        back = [one.before for one in reversals if one.after.state in FINDABLE_STATES]
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


def _plan(unit: UnitOfWork, query: _UndoQuery) -> list[_Reversal]:
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
    visible = [memory for memory in memories.values() if is_visible(unit.caller, memory)]
    dependents = _find_dependents(unit, visible)
    reversals = [
        _plan_reversal(
            unit,
            memory,
            to_undo=by_memory[memory.id],
            dependents=dependents.get(memory.id, ()),
        )
        for memory in visible
    ]
    while True:
        # A memory that stays also keeps its links, on which links of others may depend.
        planned = _link_chains(_with_related(unit, reversals))
        if all(
            len(a.candidates) == len(b.candidates) for a, b in zip(reversals, planned, strict=True)
        ):
            return planned
        reversals = planned


def _link_chains(reversals: Sequence[_Reversal]) -> list[_Reversal]:
    """Keep chains intact: a memory that stays keeps its predecessor, and vice versa."""
    staying = {reversal.before.id for reversal in reversals if reversal.skip_reason is not None}
    whole: list[_Reversal] = []
    for reversal in reversals:
        successors = {reversal.before.superseded_by, reversal.after.superseded_by}
        bound = staying & successors if len(successors) > 1 else set[int]()
        if bound:
            why = f"{ids.show(ids.MEMORY, min(bound))} superseded it and stays."
            whole.append(
                _Reversal(
                    before=reversal.before,
                    after=reversal.before,
                    skip_reason=reversal.skip_reason or why,
                )
            )
        else:
            whole.append(reversal)
    return whole


def _undo(unit: UnitOfWork, query: _UndoQuery, *, confirm: int, reason: str) -> BulkChangeResult:
    reversals = _plan(unit, query)
    preview = _preview(reversals, confirm=confirm, reason=reason)
    if confirm != preview.count:
        return preview
    due = [reversal.before for reversal in reversals if reversal.is_due]
    check_pending_acks_of(unit, due, is_resolving=True)
    token = ids.show(
        "und", ids.make_id(unit.now, unit.services.random_source.bits(ids.RANDOM_BITS))
    )
    one_reason = f"{token}, undo of {query.shown()}: {reason}"[:REASON_CHARS_MAX]
    # What leaves a chain makes room for what joins it again.
    for reversal in sorted(reversals, key=lambda one: one.after.superseded_by is not None):
        if reversal.after != reversal.before:
            unit.amend(reversal.before, reversal.after, action=Action.UNDO, reason=one_reason)
    changed = ((change, reversal.after) for reversal in reversals for change in reversal.related)
    for change, memory in sorted(changed, key=lambda pair: pair[0].id, reverse=True):
        before, after = _restore_related(unit, change)
        unit.record(memory, action=Action.UNDO, reason=one_reason, before=before, after=after)
    status = Phase.DONE if preview.count else Phase.UNCHANGED
    return replace(preview, status=status, reason=one_reason, hint=None)


def _restore_related(
    unit: UnitOfWork, change: Revision
) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Restore annotations and links of a memory; return what was added and removed."""
    if "review" in {*change.before, *change.after}:
        return _restore_reviews(unit, change)
    was, tx = _related_of(change.before), unit.tx
    match was or _related_of(change.after):
        case Link() as link if was:
            tx.links.replace(link)
        case Link() as link:
            tx.links.drop(link.from_id, link.to_id, type_=link.type)
        case TaskDecision() as ack if was:
            tx.acks.put(ack)
        case TaskDecision() as ack:
            tx.acks.drop(ack)
        case Annotation() as annotation if was:
            added = replace(annotation, id=tx.annotations.add(annotation))
            return {}, {"annotation": annotation_image(added)}
        case Annotation() as annotation:
            tx.annotations.drop(annotation.id)
        case None:
            pass
    return change.after, change.before


def _restore_reviews(
    unit: UnitOfWork, change: Revision
) -> tuple[Mapping[str, object], Mapping[str, object]]:
    if "review" in change.after:
        opened = {"settled_at": None, "settled_by": None, "reason": None}
        unit.tx.reviews.put([replace(one, **opened) for one in _settled_by(unit.tx, change)])
    else:
        # Marks that are not set again in the end stay removed.
        unit.tx.reviews.put(settled_of(change.before["review"], change.memory_id))
    unit.tx.reviews.touch([change.memory_id], at=unit.now)
    return change.after, change.before


def _preview(
    reversals: Sequence[_Reversal], *, confirm: int | None, reason: str
) -> BulkChangeResult:
    due = [reversal for reversal in reversals if reversal.is_due]
    selection = Selection(
        taken=tuple(reversal.before for reversal in due),
        skipped=tuple(
            memory_ref(reversal.before, reversal.skip_reason)
            for reversal in reversals
            if reversal.skip_reason is not None
        ),
    )
    preview = make_preview(
        selection,
        action=Action.UNDO,
        dependents=Dependents(),
        reason=reason,
        hint=confirmation_hint(len(due), confirm) if due else "There is nothing to undo.",
    )
    items = [memory_ref(reversal.before, reversal.described()) for reversal in due]
    return replace(preview, items=shown(items))
