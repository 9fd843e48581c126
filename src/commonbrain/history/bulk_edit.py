"""Bulk edit: tag, pin, archive or confirm many memories in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from commonbrain.history.metadata import plain_names
from commonbrain.history.revise import apply_change
from commonbrain.history.selection import (
    BulkChangeResult,
    Phase,
    Selection,
    SelectorFields,
    memory_ref,
    preview_change,
    select,
    select_permitted,
)
from commonbrain.history.unit_of_work import UnitOfWork, read_unit, validate_reason, write_unit
from commonbrain.invalidation.propagation import continue_propagation
from commonbrain.model.errors import InvalidInputError, parse_choice
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.revision import Action
from commonbrain.model.scope import Scope, check_may_write
from commonbrain.retrieval.citations import missing_places
from commonbrain.security.authority import Proposal
from commonbrain.services import Capability


class BulkAction(StrEnum):
    """What is done to each memory."""

    RETAG = "retag"
    PIN = "pin"
    UNPIN = "unpin"
    ARCHIVE = "archive"
    """Recall ranks it behind active memories, and reading it does not wake it."""
    REVIEW = "review"
    """It needed review, and still holds."""


_ACTIONS: Final[Mapping[BulkAction, Action]] = {
    BulkAction.RETAG: Action.RETAG,
    BulkAction.PIN: Action.PIN,
    BulkAction.UNPIN: Action.PIN,
    # Retention records what it archives under the same action.
    BulkAction.ARCHIVE: Action.PRUNE,
    BulkAction.REVIEW: Action.REVIEW,
}
_DEFAULT_REASON: Final = "bulk edit"


class BulkEdit(Capability):
    """Edits many memories for one caller."""

    def __call__(
        self,
        ids: Sequence[str],
        action: BulkAction | str,
        *,
        tags: Sequence[str] = (),
        untag: Sequence[str] = (),
        reason: str = "",
        confirm: int | None = None,
    ) -> BulkChangeResult:
        """Edit up to 100 memories in one transaction, after a preview.

        Memories that are not current, or that the caller may not change, are skipped.

        Args:
            ids: the memories.
            action: retag, pin, unpin, archive or review.
            tags: for retag: tags to add.
            untag: for retag: tags to remove.
            reason: the reason, which is stored.
            confirm: the count of the preview; without it nothing is changed.

        Raises:
            InvalidInputError: the action is unknown, retag has no tags, or an id is malformed.
            NotFoundError: there is no such memory, or the caller may not see it.
            RejectedError: `limit_exceeded`, or one of the changes is refused; nothing was changed.
            UnavailableError: the store stayed locked; nothing was changed.

        """
        chosen = parse_choice(BulkAction, action)
        if not ids:
            raise InvalidInputError("No memory is selected.", hint="Select at least one.")
        arguments = self._arguments(chosen, tags=tags, untag=untag)
        why = validate_reason(reason or _DEFAULT_REASON, services=self.services, caller=self.caller)
        check_may_write(self.caller, Scope.TEAM)
        given = SelectorFields(ids=list(ids))
        recorded_as = _ACTIONS[chosen]
        with read_unit(self.services, self.caller) as unit:
            selection = _selected(unit, given)
            preview = preview_change(unit, selection, action=recorded_as, confirm=confirm)
        if confirm is None or confirm != preview.count:
            return preview
        taken = selection.taken if chosen is BulkAction.REVIEW else ()
        missing = missing_places(taken, self.caller)
        with write_unit(self.services, self.caller) as unit:
            selection = _selected(unit, given)
            preview = preview_change(unit, selection, action=recorded_as, confirm=confirm)
            if confirm != preview.count:
                return preview
            for memory in selection.taken:
                places = {"missing": missing.get(memory.id, [])}
                proposal = Proposal(
                    op=recorded_as, id=memory.id, reason=why, arguments={**arguments, **places}
                )
                _change(unit, memory, action=chosen, proposal=proposal)
            affected = unit.propagate_invalidation()
        continue_propagation(self.services, self.caller)
        return replace(preview, status=Phase.DONE, hint=None, reason=why, affected=affected)

    def _arguments(
        self, action: BulkAction, *, tags: Sequence[str], untag: Sequence[str]
    ) -> Mapping[str, Any]:
        if action is not BulkAction.RETAG:
            return {"pinned": action is BulkAction.PIN}
        if not tags and not untag:
            raise InvalidInputError(
                "There are no tags to add or remove.", hint="Give tags, untag or both."
            )
        clean = [self.services.clean_text(tag, what="tag", caller=self.caller) for tag in tags]
        return {"add": plain_names(clean, what="tag"), "remove": plain_names(untag, what="tag")}


def _change(unit: UnitOfWork, memory: Memory, *, action: BulkAction, proposal: Proposal) -> None:
    if action is BulkAction.ARCHIVE:
        archived = replace(memory, state=State.ARCHIVED)
        unit.amend(memory, archived, action=proposal.op, reason=proposal.reason)
    else:
        apply_change(unit, proposal)


def _selected(unit: UnitOfWork, given: SelectorFields) -> Selection:
    """Select what can be changed; the rest is skipped, with the reason."""
    memories = select(unit, given)
    current = [one for one in memories if one.state in CURRENT_STATES]
    others = [one for one in memories if one.state not in CURRENT_STATES]
    selection = select_permitted(unit, current)
    skipped = [memory_ref(one, f"It is {str(one.state).replace('_', ' ')}.") for one in others]
    return replace(selection, skipped=(*selection.skipped, *skipped))
