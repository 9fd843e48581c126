"""The vector space an embedding lives in, and the similarities that mean something there."""

from dataclasses import dataclass
from enum import StrEnum


class SpaceState(StrEnum):
    """What a space of a store is to it."""

    BUILDING = "building"
    """Filled beside the one that serves; nobody is answered from it yet."""
    CURRENT = "current"
    """Serves; a store has one."""
    RETIRED = "retired"
    """Served before and is kept whole, so that the store can go back to it."""
    DROPPED = "dropped"
    """Only its row is left, for programs that still have it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """One model's vector space; vectors of two spaces are never compared.

    `name` identifies model, version and quantisation together: if any of them changes, so does the
    name. The thresholds hold in this space only; three are cosine similarities (-1..1).
    """

    name: str
    dimensions: int
    duplicate_at: float
    """At or above it two texts of one kind say the same."""
    similar_at: float
    """At or above it a neighbour is worth a hint."""
    relevant_at: float
    """Below it, and without a word in common, a memory does not answer a query."""
    answers_at: float | None = None
    """What cosine and shared words of the best come to, together, where something answers.

    None where it was never measured, 0 where whoever runs it takes all for answers.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSpace:
    """One of a store's spaces as it stands."""

    id: int
    name: str
    dimensions: int
    state: SpaceState
