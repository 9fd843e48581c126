"""What the house needs of models: texts in, vectors of one known space out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from commonbrain.model.kinds import Atom, CausalField
from commonbrain.text.summaries import Reflection, SourceText

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


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
class EmbeddingSpace:
    """One model's vector space; vectors of two spaces are never compared.

    `name` identifies model, version and quantisation together: if any of them changes, so does the
    name. The thresholds hold in this space only; three are cosine similarities (-1..1).
    """

    name: str
    dimensions: int
    duplicate_threshold: float
    """At or above it two texts of one kind say the same."""
    similar_threshold: float
    """At or above it a neighbour is worth a hint."""
    relevance_threshold: float
    """Below it, and without a word in common, a memory does not answer a query."""
    answer_threshold: float | None = None
    """What cosine and shared words of the best come to, together, where something answers.

    None where it was never measured, 0 where whoever runs it takes all for answers.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSpace:
    """One of a store's spaces as it stands."""

    id: int
    name: str
    dimensions: int
    state: SpaceState


# A name for type checkers alone: a command that needs no vector does not pay for loading numpy.
Matrix: TypeAlias = "NDArray[np.float32]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Vectors:
    """The vectors of one memory, all of length 1: of its windows, of the fields of an atom."""

    windows: Matrix
    """Shape `(windows, dimensions)`."""
    fields: Mapping[CausalField, Matrix] = field(default_factory=dict["CausalField", "Matrix"])
    """Shape `(dimensions,)` each, for the fields that are not empty."""


class Embedder(Protocol):
    """Turns texts into unit vectors of its `space`; safe to call from several threads at once.

    Laws: the same text gives the same vector, alone or in a batch, to within 1e-5 of cosine; every
    row has length 1; work happens on the first call, not on construction.
    """

    @property
    def space(self) -> EmbeddingSpace:
        """The space of every vector this embedder returns; known without loading the model."""
        ...

    def query(self, text: str) -> Matrix:
        """Embed what somebody asks.

        Returns:
            One unit vector, shape `(dimensions,)`.

        Raises:
            UnavailableError: `embedder_down`; nothing was changed, a later call may succeed.

        """
        ...

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed what is stored; a text longer than the model reads becomes overlapping windows.

        Returns:
            One matrix per text in the order given, shape `(windows, dimensions)`, windows >= 1.

        Raises:
            UnavailableError: `embedder_down`; nothing was changed, a later call may succeed.

        """
        ...


class Extractor(Protocol):
    """Finds in a text what it says caused what; safe to call from several threads at once.

    Laws: at most three atoms, each with a subject and an outcome, no field longer than 200
    characters. What it gives is a claim of the text's author at best: who calls it grants it no
    more trust and no wider scope than the text has.
    """

    @property
    def name(self) -> str:
        """Name what finds: shown to users, and kept beside what was found."""
        ...

    def atoms(self, text: str) -> Sequence[Atom]:
        """Find atoms, the most telling first; none where the text tells of no cause.

        Raises:
            UnavailableError: `extractor_down`; nothing was changed, a later call may succeed.

        """
        ...


class Reflector(Protocol):
    """Says what several memories tell together; safe to call from several threads at once.

    Laws: every point and claim names at least one of the places of what it was given. What it
    says is a claim of their authors at best: who calls it grants it no more trust and no wider
    scope than all of them have.
    """

    @property
    def name(self) -> str:
        """Name what reflects: shown to users, and kept with what came of it."""
        ...

    def reflect(self, told: Sequence[SourceText], *, claims_max: int) -> Reflection:
        """Sum up what was told, in its order, and give at most so many claims that may last.

        One without points says in `fault` why; what it cost stands in it all the same.

        Raises:
            UnavailableError: `reflector_down`; nothing was changed, a later call may succeed.

        """
        ...


class Reranker(Protocol):
    """Orders the candidates of a recall by what is known of each; safe to call from any thread.

    Laws: the same rows give the same scores; every score is a finite number; what it was made of
    never changes.
    """

    @property
    def features(self) -> tuple[str, ...]:
        """What each column of `rows` is, by the names in a trace; one that a trace lacks is 0."""
        ...

    def scores(self, rows: Matrix) -> Matrix:
        """Score all candidates of one recall, which are held against each other.

        Args:
            rows: shape `(candidates, len(features))`.

        Returns:
            Shape `(candidates,)`, the best highest; scores of other recalls are on other scales.

        """
        ...
