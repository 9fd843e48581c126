"""What remember answers: one value per item, never an exception for an expected refusal."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from commonbrain.domain import ids
from commonbrain.domain.duplicates import Neighbour
from commonbrain.domain.gate import Rejected
from commonbrain.domain.kinds import Kind
from commonbrain.domain.memory import Memory, State


class Status(StrEnum):
    """What became of one item."""

    STORED = "stored"
    EXISTS = "exists"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"

    @property
    def is_refused(self) -> bool:
        """Whether the caller's text did not get in."""
        return self in {Status.DUPLICATE, Status.REJECTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Similar:
    """A memory near the one just offered; `similarity` is a cosine."""

    id: str
    headline: str
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one item: `stored` means durable and searchable now.

    `id` names the new memory, or the one that says it already; `code`, `reason` and `hint` tell
    what kept it out and what to do.
    """

    status: Status
    id: str | None = None
    kind: Kind | None = None
    headline: str | None = None
    code: str | None = None
    reason: str | None = None
    hint: str | None = None
    similar: tuple[Similar, ...] = ()
    warnings: tuple[str, ...] = ()
    embedding_pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What became of every item, in the order given."""

    items: tuple[Outcome, ...]


def rejected(refusal: Rejected) -> Outcome:
    """Tell of a refusal by the gate."""
    return Outcome(
        status=Status.REJECTED,
        code=refusal.code,
        reason=refusal.reason,
        hint=refusal.hint,
    )


def exists(memory: Memory) -> Outcome:
    """Tell of a memory that says it to the letter."""
    return Outcome(
        status=Status.EXISTS,
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        headline=memory.headline,
        reason="This is stored already, word for word.",
    )


def duplicate(kind: Kind, of: Neighbour) -> Outcome:
    """Tell of a memory that says the same in other words, with the call that would revise it."""
    id_ = ids.show(ids.MEMORY, of.id)
    return Outcome(
        status=Status.DUPLICATE,
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
    near: Sequence[Neighbour],
    *,
    warnings: tuple[str, ...],
    embedding_pending: bool,
) -> Outcome:
    """Tell of a memory that got in."""
    quarantined = memory.state is State.QUARANTINED
    return Outcome(
        status=Status.QUARANTINED if quarantined else Status.STORED,
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        headline=memory.headline,
        reason="What binds or reaches everybody needs a trusted source: it is kept, not recalled."
        if quarantined
        else None,
        hint="Check it, then remember it in your own words." if quarantined else None,
        similar=_similar(near),
        warnings=warnings,
        embedding_pending=embedding_pending,
    )


def _similar(near: Sequence[Neighbour]) -> tuple[Similar, ...]:
    return tuple(
        Similar(
            id=ids.show(ids.MEMORY, neighbour.id),
            headline=neighbour.headline,
            similarity=round(neighbour.similarity, 3),
        )
        for neighbour in near
    )
