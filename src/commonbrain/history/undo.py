"""Undo: revert everything that an agent, a session or a period changed, as one change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.history.selection import (
    BulkChangeResult,
    Phase,
    confirmation_hint,
    continue_after,
    kinds_of,
    memory_ref,
    shown,
)
from commonbrain.history.undo_plan import (
    RELATED_IMAGES,
    Reversal,
    find_dependents,
    plan_reversal,
    settled_by,
    with_links,
)
from commonbrain.history.unit_of_work import UnitOfWork, validate_reason, vectors_of
from commonbrain.ingestion.pending_acks import check_pending_acks_of
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import REASON_CHARS_MAX, UNDO_CHANGES_MAX, UNDO_DAYS_MAX
from commonbrain.model.links import link_of
from commonbrain.model.memory import FINDABLE_STATES, Memory
from commonbrain.model.revision import Action, Change
from commonbrain.model.scope import Caller, Scope, check_may_write, is_visible
from commonbrain.model.tasks import ack_of
from commonbrain.model.timestamps import show_instant
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

_LONGEST: Final = timedelta(days=UNDO_DAYS_MAX)


@dataclass(frozen=True, slots=True)
class Undo:
    """Undoes changes for one caller."""

    services: Services
    caller: Caller

    def __call__(
        self,
        *,
        reason: str,
        agent: str | None = None,
        session: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        confirm: int | None = None,
    ) -> BulkChangeResult:
        """Revert what was written and changed, newest first; a preview comes first.

        New memories are forgotten, changed ones are as before. What others have changed,
        superseded, annotated or derived from since is skipped and listed with the reason.
        Everything happens in one transaction with one reason, and can be undone in turn.

        Args:
            reason: the reason, which is stored.
            agent: only changes by this agent.
            session: only changes in this session.
            since: from this time, ISO 8601 or words such as yesterday; by default 31 days before
                `until`.
            until: up to this time; by default now.
            confirm: the count of the preview; without it nothing is changed.

        Raises:
            InvalidInputError: the reason is missing, or neither agent nor session nor time is
                given.
            RejectedError: `limit_exceeded`, the period or the number of changes is too large.
            UnavailableError: the store stayed locked; nothing was changed.

        """
        why = validate_reason(reason, self.services)
        check_may_write(self.caller, Scope.TEAM)
        now = self.services.clock.now()
        query = _UndoQuery.of(agent=agent, session=session, since=since, until=until, now=now)
        with self.services.store.snapshot(self.caller.tenant) as tx:
            reversals = _plan(self._unit_of_work(tx), query)
            preview = _preview(reversals, confirm=confirm, reason=why)
        if confirm is None or confirm != preview.count:
            return preview
        back = [one.before for one in reversals if _becomes_findable(one)]
        vectors = vectors_of(self.services, back)
        with self.services.store.begin(self.caller.tenant) as tx:
            unit = replace(self._unit_of_work(tx), vectors=vectors)
            done = _undo(unit, query, confirm=confirm, reason=why)
            done = replace(done, affected=unit.propagate_invalidation())
        return continue_after(self.services, self.caller, done=done)

    def _unit_of_work(self, tx: Transaction) -> UnitOfWork:
        return UnitOfWork(
            tx=tx, services=self.services, caller=self.caller, now=self.services.clock.now()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _UndoQuery:
    """The changes to undo."""

    agent: str | None
    session: str | None
    since: datetime
    until: datetime

    @classmethod
    def of(
        cls,
        *,
        agent: str | None,
        session: str | None,
        since: datetime | str | None,
        until: datetime | str | None,
        now: datetime,
    ) -> _UndoQuery:
        if agent is None and session is None and since is None and until is None:
            raise InvalidInputError(
                "Nothing says whose changes.", hint="Give agent, session or since."
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
                hint="Undo the last days first, then those before.",
            )
        who, where = normalise_line(agent), normalise_line(session)
        if (agent is not None and who is None) or (session is not None and where is None):
            raise InvalidInputError("The agent or session is blank.", hint="Give its name.")
        return cls(agent=who, session=where, since=start, until=end)

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
        limit=UNDO_CHANGES_MAX + 1,
    )
    if len(changes) > UNDO_CHANGES_MAX:
        raise RejectedError(
            f"There are more than {UNDO_CHANGES_MAX} changes; so many at once are allowed.",
            code="limit_exceeded",
            hint="Undo the last hours first, with a later since.",
        )
    by_memory: defaultdict[int, list[Change]] = defaultdict(list)
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
            why = f"{ids.show(ids.MEMORY, bound[0])} took its place and stays."
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
    unit: UnitOfWork, change: Change
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
        hint=confirmation_hint(len(due), confirm) if due else "There is nothing to take back.",
    )


def _what(one: Reversal) -> str:
    """Describe the reversal of a memory."""
    was, is_ = one.before.state, one.after.state
    related = f"{len(one.related)} beside it" if one.related else ""
    state = f"{was} -> {is_}" if was is not is_ else ""
    own = state or ("changed back" if one.after != one.before else "")
    return ", ".join(part for part in (own, related) if part)
