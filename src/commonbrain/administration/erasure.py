"""Erase: the text of a memory leaves every table and then the file; only its id stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Unpack

from commonbrain.history.selection import (
    KEPT_STATES,
    Dependents,
    Named,
    Selection,
    SelectorFields,
    Stage,
    Swept,
    followed_up,
    how_confirmed,
    named,
    preview_of,
    select,
    shown,
    within_reach,
)
from commonbrain.history.unit_of_work import Act, checked_reason
from commonbrain.ingestion.pending_acks import check_changes
from commonbrain.invalidation.propagation import mark_erased
from commonbrain.model.errors import CommonbrainError, Refused, Unavailable
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import FORGET_AT_ONCE_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Memory, is_erased
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Role, is_visible
from commonbrain.services import House
from commonbrain.storage.change_log import record_beside
from commonbrain.storage.interface import Transaction
from commonbrain.storage.uploads import Parcel
from commonbrain.transfer.export import withdraw

_UNFINISHED: Final = (
    "The text is out of every table, but its bytes are in the file until it is written anew, which "
    "cannot be done while others read it ({why}). Close the other programs that have it open and "
    "repeat this call."
)
_BEYOND: Final = "A selector does not reach what is forgotten or expired; erase that by its ids."


@dataclass(frozen=True, slots=True)
class Erase:
    """Erasing for one caller, who must be an admin."""

    house: House
    caller: Caller

    def __call__(
        self,
        id: str | Sequence[str] = (),  # noqa: A002 the public name is id
        *,
        reason: str,
        confirm: int | None = None,
        **matching: Unpack[SelectorFields],
    ) -> Swept:
        """Take the text of memories out of the store for ever; always previewed first.

        Copies go with it: body, vectors, full text, annotations, links, before-images, questions
        that it answered, kept replies; and memories derived from nothing else. The audit keeps who,
        when, why and a keyed digest. Repeating the call once all is erased writes the file anew.

        Args:
            id: an id or up to 100, in whatever state they are.
            reason: why; the audit keeps it, so it must not repeat the text.
            confirm: the count that the preview told.
            matching: instead of ids, what the memories have in common.

        Raises:
            Invalid: there is no reason, no selector, or what is given is no id.
            NotFound: there is none, or the caller may not see it.
            Refused: `insufficient_role`, the caller is no admin.
            Unavailable: the store stayed locked; everything is as it was.

        """
        why = checked_reason(reason, self.house)
        _check_admin(self.caller)
        given = SelectorFields(**matching)
        if id:
            given["ids"] = [id] if isinstance(id, str) else list(id)
        # What this process has asked lately waits to be written, and may hold words of it.
        self.house.journal.flush()
        with self.house.store.snapshot(self.caller.tenant) as tx:
            selection, kept = _with_copies(self._act(tx), given)
            preview = _preview(selection, kept, confirm=confirm, reason=why)
        if preview.count and confirm != preview.count:
            return preview
        with self.house.store.begin(self.caller.tenant) as tx:
            act = self._act(tx)
            selection, kept = _with_copies(act, given)
            preview = _preview(selection, kept, confirm=confirm, reason=why)
            if preview.count and confirm != preview.count:
                return preview
            check_changes(tx, self.caller, memories=selection.taken, now=act.now, is_settling=True)
            receipt = _scrub(act, selection.taken, reason=why)
            archives = withdraw(tx, now=act.now) if selection.taken else []
            preview = replace(preview, unseated=act.cascade())
        receipt["archives"] = self._dropped(archives)
        preview = followed_up(self.house, self.caller, done=preview)
        is_out_of_reach = not preview.count and preview.spared_count
        status = Stage.UNCHANGED if is_out_of_reach else Stage.DONE
        return self._finish(replace(preview, status=status, receipt=receipt))

    def _act(self, tx: Transaction) -> Act:
        return Act(tx=tx, house=self.house, caller=self.caller, now=self.house.clock.now())

    def _dropped(self, archives: Sequence[Parcel]) -> int:
        """Drop what exports wrote; what cannot be reached now is dropped by a job that is due."""
        for one in archives:
            # It may be that only the worker has what reaches them.
            with suppress(CommonbrainError):
                self.house.staging.drop(one)
        return len(archives)

    def _finish(self, done: Swept) -> Swept:
        """Rewrite the file, or say what is left to do."""
        lines = ["More are left: repeat the call to see them."] if done.is_more else []
        try:
            self.house.store.compact()
        except Unavailable as busy:
            lines.append(_UNFINISHED.format(why=busy.message.rstrip(".")))
            return replace(done, receipt={**done.receipt, "file": 0}, hint=" ".join(lines))
        return replace(done, receipt={**done.receipt, "file": 1}, hint=" ".join(lines) or None)


def _check_admin(caller: Caller) -> None:
    if caller.role is not Role.ADMIN:
        raise Refused(
            f"Agent {caller.agent} is a {caller.role}; only an admin erases.",
            code="insufficient_role",
            hint="Forget it, which can be undone, or ask an admin.",
        )


def _scrub(act: Act, memories: Sequence[Memory], *, reason: str) -> dict[str, int]:
    """Record each erasure with a digest of the text, then take the text away."""
    receipt: Counter[str] = Counter()
    deed = act.deed(Action.ERASE, reason)
    for one in memories:
        record_beside(act.tx, one, deed=deed, before={}, after={})
        act.tx.reviews.touch(mark_erased(act.tx, one.id, deed=deed), at=act.now)
        receipt.update(act.tx.scrub(one.id))
    return dict(receipt)


def _with_copies(act: Act, given: SelectorFields) -> tuple[Selection, list[Named]]:
    """Select, add what is derived from nothing else, and name what has other sources too."""
    found = select(act, given, states=KEPT_STATES)
    selection = within_reach(act, [one for one in found if not is_erased(one)])
    chosen = {one.id: one for one in selection.taken}
    while True:
        copies = _copies(act, chosen)
        only = [one for one, sources in copies if sources <= set(chosen)]
        reach = within_reach(act, only).taken
        if not reach or len(chosen) + len(reach) > FORGET_AT_ONCE_MAX:
            break
        chosen |= {one.id: one for one in reach}
    kept = [
        named(one, _why_kept(only_these=sources <= set(chosen)))
        for one, sources in _copies(act, chosen)
    ]
    return replace(selection, taken=tuple(chosen.values())), kept


def _why_kept(*, only_these: bool) -> str:
    return "It is out of the caller's reach." if only_these else "It has other sources too."


def _copies(act: Act, chosen: dict[int, Memory]) -> list[tuple[Memory, set[int]]]:
    """List what is derived from the chosen, each with all its sources."""
    links = act.tx.links.touching(sorted(chosen), types=[LinkType.DERIVED_FROM])
    told = act.tx.mail.told([one.id for one in chosen.values() if one.kind is Kind.MESSAGE])
    linked = {one.from_id for one in links if one.to_id in chosen}
    derived = sorted({*linked, *told} - set(chosen))
    every = act.tx.links.touching(derived, types=[LinkType.DERIVED_FROM])
    found = act.tx.memories.get(derived).values()
    return [
        (one, {link.to_id for link in every if link.from_id == one.id} | _message_of(one))
        for one in found
        if is_visible(act.caller, one) and not is_erased(one)
    ]


def _message_of(one: Memory) -> set[int]:
    return set() if one.source_message_id is None else {one.source_message_id}


def _preview(
    selection: Selection, kept: Sequence[Named], *, confirm: int | None, reason: str
) -> Swept:
    return preview_of(
        selection,
        action=Action.ERASE,
        dependents=Dependents(count=len(kept), first=shown(kept)),
        reason=reason,
        hint=f"{how_confirmed(len(selection.taken), confirm)} It cannot be undone. {_BEYOND}",
    )
