"""What the house needs of models: texts in, vectors of one known space out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from commonbrain.domain.atom import Atom, CausalField
from commonbrain.domain.reflection import Reflection, Told
from commonbrain.domain.space import Space

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

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
    def space(self) -> Space:
        """The space of every vector this embedder returns; known without loading the model."""
        ...

    def query(self, text: str) -> Matrix:
        """Embed what somebody asks.

        Returns:
            One unit vector, shape `(dimensions,)`.

        Raises:
            Unavailable: `embedder_down`; nothing was changed, a later call may succeed.

        """
        ...

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed what is stored; a text longer than the model reads becomes overlapping windows.

        Returns:
            One matrix per text in the order given, shape `(windows, dimensions)`, windows >= 1.

        Raises:
            Unavailable: `embedder_down`; nothing was changed, a later call may succeed.

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
            Unavailable: `extractor_down`; nothing was changed, a later call may succeed.

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

    def reflect(self, told: Sequence[Told], *, claims_max: int) -> Reflection:
        """Sum up what was told, in its order, and give at most so many claims that may last.

        One without points says in `fault` why; what it cost stands in it all the same.

        Raises:
            Unavailable: `reflector_down`; nothing was changed, a later call may succeed.

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
