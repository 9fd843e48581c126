"""Forget: tombstones, out of every index in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Unpack

from commonbrain.domain.authority import Proposal, is_entitled
from commonbrain.domain.ledger import Mark, Use
from commonbrain.domain.memory import State
from commonbrain.domain.revision import Action
from commonbrain.domain.scope import Caller, Scope, check_may_write
from commonbrain.flows.act import Act, checked_reason
from commonbrain.flows.cascade.telling import foretell
from commonbrain.flows.duty import check_changes
from commonbrain.flows.forget.selection import (
    Selection,
    SelectorFields,
    preview_of,
    resting_on,
    select,
    within_reach,
)
from commonbrain.flows.forget.swept import Stage, Swept, followed_up, how_confirmed, named, shown
from commonbrain.flows.house import House
from commonbrain.flows.proposals import how_settled, propose
from commonbrain.flows.uses import credit
from commonbrain.flows.versions import check_lease
from commonbrain.ports.store import Transaction

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
        credit(act.tx, act.house, Use.by(act.caller, taken, mark=Mark.WRONG, at=act.now))
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
