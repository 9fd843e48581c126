"""Forget: tombstones, out of every index in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Unpack

from commonbrain.history.proposals import how_settled, propose
from commonbrain.history.selection import (
    Selection,
    SelectorFields,
    Stage,
    Swept,
    followed_up,
    how_confirmed,
    named,
    preview_of,
    resting_on,
    select,
    shown,
    within_reach,
)
from commonbrain.history.unit_of_work import Act, checked_reason
from commonbrain.ingestion.pending_acks import check_changes
from commonbrain.invalidation.preview import foretell
from commonbrain.model.errors import Refused, one_of
from commonbrain.model.kinds import KINDS, Kind, TaskDetail, TaskStatus
from commonbrain.model.limits import PRUNE_AT_ONCE_MAX, PRUNE_DAYS_MIN, SCANNED_MAX
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.query import Filter, Mark, Use
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Scope, check_may_write
from commonbrain.model.scoring import is_archived, last_touched
from commonbrain.model.support import Fall
from commonbrain.security.authority import Proposal, is_entitled
from commonbrain.services import House
from commonbrain.storage.change_log import check_lease, credit
from commonbrain.storage.interface import Transaction

_NOTHING_DONE: Final = "Nothing is changed."


@dataclass(frozen=True, slots=True)
class Forget:
    """Forgetting for one caller."""

    house: House
    caller: Caller

    def __call__(
        self,
        id: str | Sequence[str] = (),  # noqa: A002 the public name is id
        *,
        reason: str,
        confirm: int | None = None,
        dry_run: bool = False,
        **matching: Unpack[SelectorFields],
    ) -> Swept:
        """Forget memories: recall never returns them again, get shows a banner.

        One memory is forgotten at once. More than one are previewed: nothing happens until the call
        repeats with `confirm` set to the count that the preview told.

        Args:
            id: an id or up to 100.
            reason: why; it is kept.
            confirm: how many the caller has seen and means.
            dry_run: say what would be forgotten, and what rests on it; change nothing.
            matching: instead of ids, what the memories have in common.

        Raises:
            Invalid: there is no reason, no selector, or what is given is no id.
            NotFound: there is none, or the caller may not see it.
            Refused: the caller may not write there.
            Unavailable: the store stayed locked; everything is as it was.

        """
        why = checked_reason(reason, self.house) if reason or not dry_run else ""
        check_may_write(self.caller, Scope.TEAM)
        given = SelectorFields(**matching)
        if id:
            given["ids"] = [id] if isinstance(id, str) else list(id)
        if dry_run or len(given.get("ids", ())) != 1:
            with self.house.store.snapshot(self.caller.tenant) as tx:
                act = self._act(tx)
                selection = _selected(act, given)
                preview = _preview(act, selection, confirm=confirm, reason=why)
                if dry_run or (preview.count > 1 and confirm != preview.count):
                    return _foretold(act, selection, preview=preview, is_asked=dry_run)
        with self.house.store.begin(self.caller.tenant) as tx:
            act = self._act(tx)
            done = _forget(act, given, confirm=confirm, reason=why)
            done = replace(done, unseated=act.cascade())
        return followed_up(self.house, self.caller, done=done)

    def _act(self, tx: Transaction) -> Act:
        return Act(tx=tx, house=self.house, caller=self.caller, now=self.house.clock.now())


def _foretold(act: Act, selection: Selection, *, preview: Swept, is_asked: bool) -> Swept:
    """Tell with a preview what rests on what would be forgotten."""
    taken = [one.id for one in selection.taken]
    told = replace(preview, unseated=foretell(act.tx, act.caller, ids_=taken, now=act.now))
    return replace(told, status=Stage.DRY_RUN, hint=_NOTHING_DONE) if is_asked else told


def _selected(act: Act, given: SelectorFields) -> Selection:
    found = select(act, given)
    return within_reach(act, [one for one in found if one.state is not State.FORGOTTEN])


def _forget(act: Act, given: SelectorFields, *, confirm: int | None, reason: str) -> Swept:
    """Forget what is selected now, if it is what was seen."""
    ids = given.get("ids", ())
    if len(ids) == 1:
        [only] = select(act, given)
        check_changes(act.tx, act.caller, memories=[only], now=act.now, is_settling=True)
        check_may_write(act.caller, only.scope)
        if only.state is not State.FORGOTTEN and not is_entitled(act.caller, only):
            wanted = Proposal(op=Action.FORGET, id=only.id, reason=reason)
            held = propose(act, wanted, target=only)
            return Swept(
                action=Action.FORGET,
                status=Stage.PROPOSED,
                items=(named(held),),
                reason=reason,
                hint=how_settled(held),
            )
    selection = _selected(act, given)
    preview = _preview(act, selection, confirm=confirm, reason=reason)
    if preview.count > 1 and confirm != preview.count:
        return preview
    check_changes(act.tx, act.caller, memories=selection.taken, now=act.now, is_settling=True)
    for one in selection.taken:
        check_lease(act.tx, act.caller, memory=one, now=act.now)
    deed = act.deed(Action.FORGET, reason)
    for one in selection.taken:
        act.amend(one, replace(one, state=State.FORGOTTEN), deed=deed)
    if ids:
        # Who names what it was shown and has it forgotten was misled by it.
        taken = [one.id for one in selection.taken]
        credit(act.tx, act.house, use=Use.by(act.caller, taken, mark=Mark.WRONG, at=act.now))
    left = "More are left: repeat the call to see them." if selection.is_more else None
    status = Stage.DONE if selection.taken else Stage.UNCHANGED
    before = [] if selection.taken else [named(one) for one in select(act, given)]
    return replace(preview, status=status, hint=left, items=preview.items or shown(before))


def _preview(act: Act, selection: Selection, *, confirm: int | None, reason: str) -> Swept:
    return preview_of(
        selection,
        action=Action.FORGET,
        dependents=resting_on(act, selection.taken),
        reason=reason,
        hint=how_confirmed(len(selection.taken), confirm),
    )


_DAYS_DEFAULT = 90
_CLOSED = frozenset({TaskStatus.DONE, TaskStatus.STALE})


@dataclass(frozen=True, slots=True)
class Prune:
    """Pruning for one caller."""

    house: House
    caller: Caller

    def __call__(
        self,
        *,
        days: int = _DAYS_DEFAULT,
        kinds: Sequence[Kind | str] = (),
        min_access: int = 0,
        limit: int = PRUNE_AT_ONCE_MAX,
        confirm: int | None = None,
    ) -> Swept:
        """Forget memories that nobody has touched for so many days, longest untouched first.

        Never pinned ones, rules and messages; of facts only those read at most `min_access` times,
        of incidents and episodes the archived, of tasks the done and stale.

        Args:
            days: at least 30, counted from the later of recording and last access.
            kinds: only these.
            min_access: facts read more often stay.
            limit: at most 50.
            confirm: the count that the preview told; without it nothing is changed.

        Raises:
            Refused: `prune_guard` with the rule that stopped it, or the caller is a reader.
            Unavailable: the store stayed locked; everything is as it was.

        """
        only = tuple(one_of(Kind, kind) for kind in kinds)
        check_may_write(self.caller, Scope.TEAM)
        _check_guards(days, limit=limit, kinds=only)
        ask = _Ask(days=days, kinds=only, min_access=min_access, limit=limit, confirm=confirm)
        with self.house.store.snapshot(self.caller.tenant) as tx:
            preview, _ = _plan(self._act(tx), ask)
        if confirm is None or confirm != preview.count:
            return preview
        with self.house.store.begin(self.caller.tenant) as tx:
            act = self._act(tx)
            done = replace(_prune(act, ask), unseated=act.cascade())
        return followed_up(self.house, self.caller, done=done)

    def _act(self, tx: Transaction) -> Act:
        return Act(tx=tx, house=self.house, caller=self.caller, now=self.house.clock.now())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    days: int
    kinds: tuple[Kind, ...]
    min_access: int
    limit: int
    confirm: int | None

    @property
    def reason(self) -> str:
        return f"pruned: untouched for {self.days} days"


def _check_guards(days: int, *, limit: int, kinds: Sequence[Kind]) -> None:
    spared = [kind for kind in kinds if not KINDS[kind].is_pruned]
    for is_broken, rule in (
        (days < PRUNE_DAYS_MIN, f"days is {days}; at least {PRUNE_DAYS_MIN} are demanded."),
        (
            not 0 < limit <= PRUNE_AT_ONCE_MAX,
            f"limit is {limit}; 1 to {PRUNE_AT_ONCE_MAX} a call are allowed.",
        ),
        (bool(spared), f"{', '.join(spared)} is never pruned."),
    ):
        if is_broken:
            raise Refused(rule, code="prune_guard", hint="Forget single memories by their ids.")


def _prune(act: Act, ask: _Ask) -> Swept:
    preview, taken = _plan(act, ask)
    if ask.confirm != preview.count:
        return preview
    check_changes(act.tx, act.caller, memories=taken, now=act.now)
    deed = act.deed(Action.PRUNE, ask.reason)
    for one in taken:
        act.amend(one, replace(one, state=State.FORGOTTEN), deed=deed)
    left = "More are left: prune again." if preview.is_more else None
    return replace(preview, status=Stage.DONE if taken else Stage.UNCHANGED, hint=left)


def _plan(act: Act, ask: _Ask) -> tuple[Swept, list[Memory]]:
    old = sorted(_candidates(act, ask), key=last_touched)
    found = within_reach(act, old)
    taken = found.taken[: ask.limit]
    is_more = found.is_more or len(found.taken) > len(taken)
    preview = preview_of(
        replace(found, taken=taken, is_more=is_more),
        action=Action.PRUNE,
        dependents=resting_on(act, taken, fall=Fall.PRUNED),
        reason=ask.reason,
        hint=how_confirmed(len(taken), ask.confirm) if taken else "Nothing is to be pruned.",
    )
    return preview, list(taken)


def _candidates(act: Act, ask: _Ask) -> list[Memory]:
    since = act.now - timedelta(days=ask.days)
    kinds = ask.kinds or tuple(kind for kind in Kind if KINDS[kind].is_pruned)
    wanted = Filter(kinds=kinds, states=tuple(sorted(CURRENT_STATES)), trust_min=0.0)
    hits = act.tx.memories.newest(act.look(wanted), limit=SCANNED_MAX)
    found = act.tx.memories.get([hit.id for hit in hits]).values()
    return [
        one
        for one in found
        if last_touched(one) <= since and not one.pinned and _is_spent(act, one, ask=ask)
    ]


def _is_spent(act: Act, memory: Memory, *, ask: _Ask) -> bool:
    """Say whether a memory of its kind may go at this age."""
    match memory.detail:
        case TaskDetail(status=status):
            return status in _CLOSED
        case _ if memory.kind is Kind.FACT:
            return memory.access_count <= ask.min_access
        case _ if KINDS[memory.kind].archived_after is not None:
            return is_archived(memory, act.now)
        case _:
            return True
