"""The result of remember: one value per item; an expected rejection is not an exception."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from commonbrain.invalidation.dependents import AffectedDependents
from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.links import Basis
from commonbrain.model.memory import Memory

if TYPE_CHECKING:
    from commonbrain.ingestion.validation import Rejection
    from commonbrain.storage.store import Transaction


REPEATED: Final = "repeated"
"""The code of an item of a preview that an earlier one of the same `source_ref` says already."""


class ItemStatus(StrEnum):
    """The outcome of one item."""

    STORED = "stored"
    EXISTS = "exists"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"

    @property
    def is_new(self) -> bool:
        """Whether the item became a new memory."""
        return self in {ItemStatus.STORED, ItemStatus.QUARANTINED}

    @property
    def is_refused(self) -> bool:
        """Whether the item was not stored."""
        return self in {ItemStatus.DUPLICATE, ItemStatus.REJECTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarMemory:
    """A memory similar to the item; `similarity` is a cosine."""

    id: str
    headline: str
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedMemory:
    """A memory that the item says has changed, with the calls that decide; `how` is why."""

    id: str
    headline: str
    how: Basis
    confirm: str
    """The call that makes the item supersede it."""
    deny: str
    """The call that keeps both as valid."""

    def lines(self) -> tuple[str, str, str]:
        """Render it with the calls that decide."""
        return (
            f"changes {self.id} ({self.how}): {self.headline}",
            f"  if so: {self.confirm}",
            f"  if both hold: {self.deny}",
        )


class SuggestionBasis(StrEnum):
    """Why a memory may be a dependency."""

    REASON = "reason"
    """The text gives as its reason what the other memory says."""
    NAMED = "named"
    """The text contains the id of the other memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencySuggestion:
    """A possible dependency of the new memory; `accept` is the command that links it."""

    id: str
    headline: str
    how: SuggestionBasis
    accept: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedResult:
    """The outcome of a part that became a memory of its own."""

    status: ItemStatus
    id: str | None = None
    kind: Kind | None = None
    headline: str | None = None
    code: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResult(DerivedResult):
    """The outcome of one item; `stored` means that it is durable and searchable.

    `id` names the new memory, or the one that already says it; `code`, `reason` and `hint` explain
    why nothing was stored, and the next step.
    """

    hint: str | None = None
    similar: tuple[SimilarMemory, ...] = ()
    conflicts: tuple[SimilarMemory, ...] = ()
    """Memories that say otherwise, and nothing says which is right; both stay and are linked."""
    changes: tuple[ChangedMemory, ...] = ()
    """Memories that it says have changed: both stay, and recall shows it before them."""
    derived: tuple[DerivedResult, ...] = ()
    suggestions: tuple[DependencySuggestion, ...] = ()
    """Possible dependencies, at most three; none is linked."""
    affected: AffectedDependents | None = None
    """If it replaced a memory: the dependents of that memory that need review now."""
    warnings: tuple[str, ...] = ()
    embedding_pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberResult:
    """The outcome of every item, in the given order."""

    items: tuple[ItemResult, ...]
    affected: AffectedDependents | None = None
    """Dependents of contradicted memories that need review now."""
    stages_ms: Mapping[str, float] | None = None
    """Duration of each stage, for all items together."""


OnCommit = Callable[["Transaction", Sequence[ItemResult]], None]
"""Called in the transaction that stores a batch, with the outcomes."""


def rejected(refusal: Rejection) -> ItemResult:
    """Return the outcome of a rejection."""
    return ItemResult(
        status=ItemStatus.REJECTED,
        code=refusal.code,
        reason=refusal.reason,
        hint=refusal.hint,
    )


def exists(memory: Memory, *, times: int = 0, changed_by: Memory | None = None) -> ItemResult:
    """Return the outcome for an identical memory, and what has `changed_by` since.

    If `times` counts a recurrence of it, the call had an effect, and nothing is refused.
    """
    again = f" It has come again {times} times." if times else ""
    hint = "If yours means another thing: remember again with distinct_because."
    hint = hint_of_return(changed_by) or hint
    return ItemResult(
        status=ItemStatus.EXISTS,
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        headline=memory.headline,
        code=None if times else "exists",
        reason=f"This is stored already, word for word.{again}",
        hint=None if times else hint,
    )


def hint_of_return(newer: Memory | None) -> str | None:
    """Return what to do if what another memory has changed holds once more."""
    if newer is None:
        return None
    shown_id = ids.show(ids.MEMORY, newer.id)
    return f"{shown_id} changed it. If it holds again: remember again with distinct_because."


def to_derived_result(outcome: ItemResult) -> DerivedResult:
    """Return the short form of an outcome."""
    short = {one.name: getattr(outcome, one.name) for one in fields(DerivedResult)}
    return DerivedResult(**short)
