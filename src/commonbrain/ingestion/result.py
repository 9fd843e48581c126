"""What remember answers: one value per item, never an exception for an expected refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from commonbrain.ingestion.deduplication import CandidateMemory
from commonbrain.ingestion.validation import Rejection
from commonbrain.invalidation.preview import AffectedDependents
from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import AWAITING_STATES, Memory, State

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


class ItemStatus(StrEnum):
    """What became of one item."""

    STORED = "stored"
    EXISTS = "exists"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"

    @property
    def is_new(self) -> bool:
        """Whether there is a memory now that was not there before."""
        return self in {ItemStatus.STORED, ItemStatus.QUARANTINED}

    @property
    def is_refused(self) -> bool:
        """Whether the caller's text did not get in."""
        return self in {ItemStatus.DUPLICATE, ItemStatus.REJECTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarMemory:
    """A memory near the one just offered; `similarity` is a cosine."""

    id: str
    headline: str
    similarity: float


class SuggestionBasis(StrEnum):
    """Why a memory is thought to rest on another."""

    REASON = "reason"
    """Its text gives as its reason what the other says."""
    NAMED = "named"
    """Its text names the other by its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencySuggestion:
    """A memory on which the new one may rest; `accept` is the command that says so."""

    id: str
    headline: str
    how: SuggestionBasis
    accept: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedResult:
    """What became of a part that a text marked to be remembered by itself."""

    status: ItemStatus
    id: str | None = None
    kind: Kind | None = None
    headline: str | None = None
    code: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemResult:
    """What became of one item: `stored` means durable and searchable now.

    `id` names the new memory, or the one that says it already; `code`, `reason` and `hint` tell
    what kept it out and what to do.
    """

    status: ItemStatus
    id: str | None = None
    kind: Kind | None = None
    headline: str | None = None
    code: str | None = None
    reason: str | None = None
    hint: str | None = None
    similar: tuple[SimilarMemory, ...] = ()
    conflicts: tuple[SimilarMemory, ...] = ()
    """Memories that contradict it; both are kept, linked."""
    derived: tuple[DerivedResult, ...] = ()
    suggestions: tuple[DependencySuggestion, ...] = ()
    """On what it may rest, at most three; nothing is linked by them."""
    affected: AffectedDependents | None = None
    """When it took the place of another: what rested on that, and needs review now."""
    warnings: tuple[str, ...] = ()
    embedding_pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberResult:
    """What became of every item, in the order given."""

    items: tuple[ItemResult, ...]
    affected: AffectedDependents | None = None
    """What rests on what the items contradict, and needs review now."""
    skipped: int = 0
    """Passages of a raw text that were too short to be a memory."""
    stages_ms: Mapping[str, float] | None = None
    """How long each stage took, all items together."""


OnCommit = Callable[["Transaction", Sequence[ItemResult]], None]
"""What is done in the transaction that stores a batch, once it is known what became of each."""
_HELD_REASONS: Final = {
    State.QUARANTINED: "What binds or reaches everybody needs a trusted source: it is kept, not "
    "recalled.",
    State.CANDIDATE: "It is proposed: it is not recalled before somebody approves it.",
}


def rejected(refusal: Rejection) -> ItemResult:
    """Tell of a refusal by the gate."""
    return ItemResult(
        status=ItemStatus.REJECTED,
        code=refusal.code,
        reason=refusal.reason,
        hint=refusal.hint,
    )


def exists(memory: Memory, *, times: int = 0) -> ItemResult:
    """Tell of a memory that says it to the letter; `times` counts how often it came again."""
    again = f" It has come again {times} times." if times else ""
    return ItemResult(
        status=ItemStatus.EXISTS,
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        headline=memory.headline,
        reason=f"This is stored already, word for word.{again}",
    )


def duplicate(kind: Kind, of: CandidateMemory) -> ItemResult:
    """Tell of a memory that says the same in other words, with the call that would revise it."""
    id_ = ids.show(ids.MEMORY, of.id)
    return ItemResult(
        status=ItemStatus.DUPLICATE,
        id=id_,
        kind=kind,
        headline=of.headline,
        code="duplicate",
        reason=f"A {kind} says this already (similarity {of.similarity:.2f}): {of.headline}",
        hint=f"If this is newer: revise supersede {id_} with your text and a reason. If both are "
        f"true: remember again with distinct_because.",
        similar=_similar([of]),
    )


def stored(
    memory: Memory,
    near: Sequence[CandidateMemory],
    *,
    conflicts: Sequence[CandidateMemory] = (),
    warnings: tuple[str, ...],
    embedding_pending: bool,
) -> ItemResult:
    """Tell of a memory that got in."""
    is_held = memory.state in AWAITING_STATES
    return ItemResult(
        status=ItemStatus.QUARANTINED if is_held else ItemStatus.STORED,
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        headline=memory.headline,
        reason=_HELD_REASONS.get(memory.state),
        hint="Check it, then remember it in your own words." if is_held else None,
        similar=_similar(near),
        conflicts=_similar(conflicts),
        warnings=warnings,
        embedding_pending=embedding_pending,
    )


def to_derived_result(outcome: ItemResult) -> DerivedResult:
    """Tell of what became of a part, in short."""
    return DerivedResult(
        status=outcome.status,
        id=outcome.id,
        kind=outcome.kind,
        headline=outcome.headline,
        code=outcome.code,
        reason=outcome.reason,
    )


def _similar(near: Sequence[CandidateMemory]) -> tuple[SimilarMemory, ...]:
    return tuple(
        SimilarMemory(
            id=ids.show(ids.MEMORY, neighbour.id),
            headline=neighbour.headline,
            similarity=round(neighbour.similarity, 3),
        )
        for neighbour in near
    )
