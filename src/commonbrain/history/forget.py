"""Forget and prune: remove memories from every index; the tombstone stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Unpack

from commonbrain.history.change_plan import how_resolved, propose
from commonbrain.history.selection import (
    BulkChangeResult,
    Phase,
    Selection,
    SelectorFields,
    confirmation_hint,
    list_dependents,
    make_preview,
    memory_ref,
    preview_change,
    select,
    select_permitted,
    shown,
)
from commonbrain.history.unit_of_work import (
    UnitOfWork,
    read_unit,
    set_above,
    validate_reason,
    write_unit,
)
from commonbrain.ingestion.pending_acks import check_pending_acks_of
from commonbrain.invalidation.dependents import preview_affected
from commonbrain.invalidation.propagation import continue_propagation
from commonbrain.model import limits
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import KINDS, Kind, TaskDetail, TaskStatus, kinds_where
from commonbrain.model.memory import CURRENT_STATES, Memory, State, is_archived, last_touched
from commonbrain.model.query import FeedbackMark, Filter, KindFilter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Scope, check_may_write
from commonbrain.model.support import InvalidationReason
from commonbrain.security.authority import Proposal, check_is_person, is_authorized
from commonbrain.services import Capability
from commonbrain.storage.change_log import check_lease

_NOTHING_DONE: Final = "Nothing is changed."


class Forget(Capability):
    """Forgets memories for one caller."""

    def __call__(
        self,
        id: str | Sequence[str] = (),  # noqa: A002 the public name is id
        *,
        reason: str,
        confirm: int | None = None,
        dry_run: bool = False,
        **matching: Unpack[SelectorFields],
    ) -> BulkChangeResult:
        """Forget memories: recall no longer returns them, and get shows a banner.

        One memory is forgotten at once. Several are previewed: nothing changes until the call is
        repeated with `confirm` set to the count of the preview.

        Args:
            id: one id, or up to 100.
            reason: the reason, which is stored.
            confirm: the number of memories in the preview.
            dry_run: return what would be forgotten, with its dependents; change nothing.
            matching: criteria that the memories have in common, instead of ids.

        Raises:
            InvalidInputError: the reason or the selector is missing, or an id is malformed.
            NotFoundError: there is no such memory, or the caller may not see it.
            RejectedError: the caller may not write there.
            UnavailableError: the store stayed locked; nothing was changed.

        """
        why = (
            validate_reason(reason, services=self.services, caller=self.caller)
            if reason or not dry_run
            else ""
        )
        check_may_write(self.caller, Scope.TEAM)
        given = SelectorFields(**matching)
        if id:
            given["ids"] = [id] if isinstance(id, str) else list(id)
        if dry_run or len(given.get("ids", ())) != 1:
            with read_unit(self.services, self.caller) as unit:
                selection = _selected(unit, given)
                preview = preview_change(
                    unit, selection, action=Action.FORGET, confirm=confirm, reason=why
                )
                if dry_run or (preview.count > 1 and confirm != preview.count):
                    return _with_affected(unit, selection, preview=preview, is_dry_run=dry_run)
        with write_unit(self.services, self.caller) as unit:
            done = _forget(unit, given, confirm=confirm, reason=why)
            done = replace(done, affected=unit.propagate_invalidation())
        continue_propagation(self.services, self.caller)
        return done


def _with_affected(
    unit: UnitOfWork, selection: Selection, *, preview: BulkChangeResult, is_dry_run: bool
) -> BulkChangeResult:
    """Add the affected dependents to a preview."""
    taken = [one.id for one in selection.taken]
    result = replace(
        preview, affected=preview_affected(unit.tx, unit.caller, ids_=taken, now=unit.now)
    )
    return replace(result, status=Phase.DRY_RUN, hint=_NOTHING_DONE) if is_dry_run else result


def _selected(unit: UnitOfWork, given: SelectorFields) -> Selection:
    selected = select(unit, given)
    return select_permitted(unit, [one for one in selected if one.state is not State.FORGOTTEN])


def _forget(
    unit: UnitOfWork, given: SelectorFields, *, confirm: int | None, reason: str
) -> BulkChangeResult:
    """Forget what the selector matches now, if it is what the preview showed."""
    ids = given.get("ids", ())
    if len(ids) == 1:
        [only] = select(unit, given)
        check_pending_acks_of(unit, [only], is_resolving=True)
        check_may_write(unit.caller, only.scope)
        is_restored = bool(set_above(unit, [only.id], names={"state"}))
        is_within = is_authorized(unit.caller, only) and not is_restored
        if only.state is not State.FORGOTTEN and not is_within:
            proposal = Proposal(op=Action.FORGET, id=only.id, reason=reason)
            held = propose(unit, proposal, target=only)
            return BulkChangeResult(
                action=Action.FORGET,
                status=Phase.PROPOSED,
                items=(memory_ref(held),),
                reason=reason,
                hint=how_resolved(held),
            )
    selection = _selected(unit, given)
    preview = preview_change(unit, selection, action=Action.FORGET, confirm=confirm, reason=reason)
    if preview.count > 1 and confirm != preview.count:
        return preview
    check_pending_acks_of(unit, selection.taken, is_resolving=True)
    for memory in selection.taken:
        check_lease(unit.tx, unit.caller, memory=memory, now=unit.now)
        forgotten = replace(memory, state=State.FORGOTTEN)
        unit.amend(memory, forgotten, action=Action.FORGET, reason=reason)
    if ids:
        # Forgetting a memory right after a recall showed it is negative feedback.
        unit.credit([memory.id for memory in selection.taken], mark=FeedbackMark.WRONG)
    left = "More are left: repeat the call to see them." if selection.is_more else None
    status = Phase.DONE if selection.taken else Phase.UNCHANGED
    before = [] if selection.taken else [memory_ref(one) for one in select(unit, given)]
    return replace(preview, status=status, hint=left, items=preview.items or shown(before))


_DAYS_DEFAULT = 90
_CLOSED = frozenset({TaskStatus.DONE, TaskStatus.STALE})


class Prune(Capability):
    """Prunes old memories for one caller."""

    def __call__(
        self,
        *,
        days: int = _DAYS_DEFAULT,
        kinds: Sequence[Kind | str] = (),
        min_access: int = 0,
        limit: int = limits.PRUNE_AT_ONCE_MAX,
        confirm: int | None = None,
    ) -> BulkChangeResult:
        """Forget memories that were not accessed for a number of days, oldest first.

        Pinned memories, rules and messages stay. Of facts, those read at most `min_access` times
        are pruned; of incidents and episodes, archived ones; of tasks, done and stale ones.

        Args:
            days: at least 30, since the later of recording and last access.
            kinds: only these kinds.
            min_access: facts that were read more often stay.
            limit: at most 50.
            confirm: the count of the preview; without it nothing is changed.

        Raises:
            RejectedError: `prune_guard` with the rule that prevented it, or the caller is a reader.
            UnavailableError: the store stayed locked; nothing was changed.

        """
        only = KindFilter.parse(kinds)
        check_may_write(self.caller, Scope.TEAM)
        _check_guards(days, limit=limit, kinds=only.touched)
        options = _PruneOptions(
            days=days, kinds=only, min_access=min_access, limit=limit, confirm=confirm
        )
        with read_unit(self.services, self.caller) as unit:
            preview, _ = _plan(unit, options)
        if confirm is None or confirm != preview.count:
            return preview
        with write_unit(self.services, self.caller) as unit:
            done = replace(_prune(unit, options), affected=unit.propagate_invalidation())
        continue_propagation(self.services, self.caller)
        return done


@dataclass(frozen=True, slots=True, kw_only=True)
class _PruneOptions:
    days: int
    kinds: KindFilter
    min_access: int
    limit: int
    confirm: int | None

    @property
    def reason(self) -> str:
        return f"pruned: untouched for {self.days} days"


def _check_guards(days: int, *, limit: int, kinds: Sequence[Kind]) -> None:
    skipped = [kind for kind in kinds if not KINDS[kind].is_pruned]
    for is_broken, rule in (
        (
            not limits.PRUNE_DAYS_MIN <= days <= limits.DAYS_MAX,
            f"days is {days}; at least {limits.PRUNE_DAYS_MIN} are required, at most "
            f"{limits.DAYS_MAX:,}.",
        ),
        (
            not 0 < limit <= limits.PRUNE_AT_ONCE_MAX,
            f"limit is {limit}; 1 to {limits.PRUNE_AT_ONCE_MAX} per call are allowed.",
        ),
        (bool(skipped), f"{', '.join(skipped)} is never pruned."),
    ):
        if is_broken:
            raise RejectedError(rule, code="prune_guard", hint="Forget single memories by id.")


def _prune(unit: UnitOfWork, options: _PruneOptions) -> BulkChangeResult:
    preview, taken = _plan(unit, options)
    if options.confirm != preview.count:
        return preview
    check_pending_acks_of(unit, taken)
    if any(memory.agent != unit.caller.agent for memory in taken):
        check_is_person(unit.caller, "Pruning memories of other agents")
    for memory in taken:
        forgotten = replace(memory, state=State.FORGOTTEN)
        unit.amend(memory, forgotten, action=Action.PRUNE, reason=options.reason)
    left = "More are left: prune again." if preview.is_more else None
    return replace(preview, status=Phase.DONE if taken else Phase.UNCHANGED, hint=left)


def _plan(unit: UnitOfWork, options: _PruneOptions) -> tuple[BulkChangeResult, list[Memory]]:
    old = sorted(_candidates(unit, options), key=last_touched)
    selection = select_permitted(unit, old)
    taken = selection.taken[: options.limit]
    is_more = selection.is_more or len(selection.taken) > len(taken)
    preview = make_preview(
        replace(selection, taken=taken, is_more=is_more),
        action=Action.PRUNE,
        dependents=list_dependents(unit, taken, fall=InvalidationReason.PRUNED),
        reason=options.reason,
        hint=confirmation_hint(len(taken), options.confirm)
        if taken
        else "There is nothing to prune.",
    )
    return preview, list(taken)


def _candidates(unit: UnitOfWork, options: _PruneOptions) -> list[Memory]:
    since = unit.now - timedelta(days=options.days)
    kinds = options.kinds
    if not kinds.touched:
        kinds = KindFilter(kinds_where(lambda policy: policy.is_pruned), ())
    criteria = Filter(**kinds._asdict(), states=tuple(sorted(CURRENT_STATES)), trust_min=0.0)
    hits = unit.tx.memories.newest(unit.query_scope(criteria), limit=limits.SCANNED_MAX)
    memories = unit.tx.memories.get([hit.id for hit in hits]).values()
    return [
        one
        for one in memories
        if last_touched(one) <= since and not one.pinned and _is_spent(unit, one, options=options)
    ]


def _is_spent(unit: UnitOfWork, memory: Memory, *, options: _PruneOptions) -> bool:
    """Return whether a memory of its kind may be pruned at this age."""
    match memory.detail:
        case TaskDetail(status=status):
            return status in _CLOSED
        case _ if KINDS[memory.kind].is_pruned_by_access:
            return memory.access_count <= options.min_access
        case _ if unit.parameters.archived_after(memory.kind) is not None:
            return is_archived(memory, unit.now, parameters=unit.parameters)
        case _:
            return True
