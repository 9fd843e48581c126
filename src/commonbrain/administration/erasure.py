"""Erase: remove the text of a memory from every table and from the file; only its id stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, Unpack

from commonbrain.consolidation.artifact_cleanup import withdraw_archives
from commonbrain.history.selection import (
    SELECTABLE_STATES,
    BulkChangeResult,
    Dependents,
    MemoryRef,
    Phase,
    Selection,
    SelectorFields,
    confirmation_hint,
    make_preview,
    memory_ref,
    select,
    select_permitted,
    shown,
)
from commonbrain.history.unit_of_work import UnitOfWork, read_unit, validate_reason, write_unit
from commonbrain.ingestion.pending_acks import check_pending_acks_of
from commonbrain.invalidation.propagation import continue_propagation, mark_erased
from commonbrain.model.errors import CommonbrainError, RejectedError, UnavailableError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import FORGET_AT_ONCE_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Memory, is_erased
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Role, is_visible
from commonbrain.security.authority import check_is_person
from commonbrain.services import Capability
from commonbrain.storage.change_log import record_related_change
from commonbrain.storage.uploads import Upload

_UNFINISHED: Final = (
    "The text is deleted from every table, but its bytes stay in the file until the file is "
    "rewritten, which is not possible while others read it ({why}). Close the other programs that "
    "have it open and repeat this call."
)
_BEYOND: Final = "Selectors do not match forgotten or expired memories; erase those by id."


class Erase(Capability):
    """Erases memories for one caller, who must be an admin."""

    def __call__(
        self,
        id: str | Sequence[str] = (),  # noqa: A002 the public name is id
        *,
        reason: str,
        confirm: int | None = None,
        **matching: Unpack[SelectorFields],
    ) -> BulkChangeResult:
        """Remove the text of memories from the store permanently, after a preview.

        Copies are removed too: body, vectors, full text, annotations, links, before-images, queries
        that it answered, saved replies, reasons of earlier changes, and memories derived from
        nothing else. The audit keeps agent, time, a keyed digest and `reason`. If everything is
        erased already, repeating the call rewrites the file.

        Args:
            id: one id or up to 100, in any state.
            reason: the reason, kept in the audit; it must not repeat the text.
            confirm: the count of the preview.
            matching: criteria that the memories have in common, instead of ids.

        Raises:
            InvalidInputError: the reason or the selector is missing, or an id is malformed.
            NotFoundError: there is no such memory, or the caller may not see it.
            RejectedError: `insufficient_role`, the caller is not an admin; `person_required`.
            UnavailableError: the store stayed locked; nothing was changed.

        """
        why = validate_reason(reason, services=self.services, caller=self.caller)
        _check_admin(self.caller)
        check_is_person(self.caller, "An erase")
        given = SelectorFields(**matching)
        if id:
            given["ids"] = [id] if isinstance(id, str) else list(id)
        # Recent queries of this process wait to be written, and may contain the text.
        self.services.journal.flush()
        with read_unit(self.services, self.caller) as unit:
            selection, partly_derived = _with_copies(unit, given)
            preview = _preview(selection, partly_derived, confirm=confirm, reason=why)
        if preview.count and confirm != preview.count:
            return preview
        with write_unit(self.services, self.caller) as unit:
            selection, partly_derived = _with_copies(unit, given)
            preview = _preview(selection, partly_derived, confirm=confirm, reason=why)
            if preview.count and confirm != preview.count:
                return preview
            check_pending_acks_of(unit, selection.taken, is_resolving=True)
            receipt = _scrub(unit, selection.taken, reason=why)
            archives = withdraw_archives(unit.tx, now=unit.now) if selection.taken else []
            preview = replace(preview, affected=unit.propagate_invalidation())
        receipt["archives"] = self._dropped(archives)
        continue_propagation(self.services, self.caller)
        is_out_of_reach = not preview.count and preview.skipped_count
        status = Phase.UNCHANGED if is_out_of_reach else Phase.DONE
        return self._finish(replace(preview, status=status, receipt=receipt))

    def _dropped(self, archives: Sequence[Upload]) -> int:
        """Delete export files; those that cannot be reached now are deleted by a job."""
        for one in archives:
            # Perhaps only the worker is configured to reach them.
            with suppress(CommonbrainError):
                self.services.uploads.drop(one)
        return len(archives)

    def _finish(self, done: BulkChangeResult) -> BulkChangeResult:
        """Rewrite the file, or return what remains to be done."""
        lines = ["More are left: repeat the call to see them."] if done.is_more else []
        try:
            self.services.store.compact()
        except UnavailableError as busy:
            lines.append(_UNFINISHED.format(why=busy.message.rstrip(".")))
            return replace(done, receipt={**done.receipt, "file": 0}, hint=" ".join(lines))
        return replace(done, receipt={**done.receipt, "file": 1}, hint=" ".join(lines) or None)


def _check_admin(caller: Caller) -> None:
    if caller.role is not Role.ADMIN:
        raise RejectedError(
            f"Agent {caller.agent} is a {caller.role}; only an admin can erase.",
            code="insufficient_role",
            hint="Forget it, which can be undone, or ask an admin.",
        )


def _scrub(unit: UnitOfWork, memories: Sequence[Memory], *, reason: str) -> dict[str, int]:
    """Record each erasure with a digest of the text, then remove the text."""
    receipt: Counter[str] = Counter()
    change_context = unit.change_context(Action.ERASE, reason)
    for one in memories:
        record_related_change(unit.tx, one, change_context=change_context, before={}, after={})
        unit.tx.reviews.touch(
            mark_erased(unit.tx, one.id, change_context=change_context), at=unit.now
        )
        receipt.update(unit.tx.scrub(one.id))
    return dict(receipt)


def _with_copies(unit: UnitOfWork, given: SelectorFields) -> tuple[Selection, list[MemoryRef]]:
    """Select, add memories derived from nothing else, and list those with other sources."""
    selected = select(unit, given, states=SELECTABLE_STATES)
    selection = select_permitted(unit, [one for one in selected if not is_erased(one)])
    chosen = {one.id: one for one in selection.taken}
    while True:
        copies = _copies(unit, chosen)
        only = [one for one, sources in copies if sources <= set(chosen)]
        reach = select_permitted(unit, only).taken
        if not reach or len(chosen) + len(reach) > FORGET_AT_ONCE_MAX:
            break
        chosen |= {one.id: one for one in reach}
    partly_derived = [
        memory_ref(
            one,
            "The caller may not change it."
            if sources <= set(chosen)
            else "It also has other sources.",
        )
        for one, sources in _copies(unit, chosen)
    ]
    return replace(selection, taken=tuple(chosen.values())), partly_derived


def _copies(unit: UnitOfWork, chosen: dict[int, Memory]) -> list[tuple[Memory, set[int]]]:
    """List memories derived from the chosen ones, with all their sources."""
    links = unit.tx.links.touching(sorted(chosen), types=[LinkType.DERIVED_FROM])
    shared = unit.tx.messages.derived(
        [one.id for one in chosen.values() if one.kind is Kind.MESSAGE]
    )
    linked = {one.from_id for one in links if one.to_id in chosen}
    derived = sorted({*linked, *shared} - set(chosen))
    every = unit.tx.links.touching(derived, types=[LinkType.DERIVED_FROM])
    memories = unit.tx.memories.get(derived).values()
    return [
        (one, {link.to_id for link in every if link.from_id == one.id} | _message_of(one))
        for one in memories
        if is_visible(unit.caller, one) and not is_erased(one)
    ]


def _message_of(one: Memory) -> set[int]:
    return set() if one.source_message_id is None else {one.source_message_id}


def _preview(
    selection: Selection, partly_derived: Sequence[MemoryRef], *, confirm: int | None, reason: str
) -> BulkChangeResult:
    return make_preview(
        selection,
        action=Action.ERASE,
        dependents=Dependents(count=len(partly_derived), first=shown(partly_derived)),
        reason=reason,
        hint=f"{confirmation_hint(len(selection.taken), confirm)} It cannot be undone. {_BEYOND}",
    )
