"""The shelf of what finds: words and meanings of memories, and of the fields of atoms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from commonbrain.embeddings.interface import Matrix, Vectors
from commonbrain.model.kinds import CausalField
from commonbrain.model.memory import Memory
from commonbrain.storage.query_scope import QueryScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that an arm found; a higher `score` is better, comparable within one call only."""

    id: int
    score: float


class Index(Protocol):
    """The shelf of what can be derived from the rows: full text and vectors.

    A look at one field of atoms is answered by the words and vectors of that field alone.
    """

    def put(self, memory: Memory, given: Vectors | None) -> None:
        """Make a memory findable by its words, and by its meaning where vectors are given."""
        ...

    def reword(self, memory: Memory) -> None:
        """Index the words of a memory anew, whose tags or people changed; its vectors stay."""
        ...

    def drop(self, memory_id: int) -> None:
        """Make a memory unfindable: neither words nor vectors of it remain."""
        ...

    def lexical(self, terms: Sequence[str], look: QueryScope, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any of the terms may match.

        Of no terms nothing is found. Within one transaction the same terms score a memory the
        same, whatever the look.
        """
        ...

    def nearest(
        self, query: Matrix, look: QueryScope, *, limit: int, at_least: float = -1.0
    ) -> list[Hit]:
        """Rank by cosine to a unit vector `(d,)`, the best window of each memory, best first.

        What is farther than `at_least` is left out, which spares the search of a narrow look.
        """
        ...

    def similarities(
        self, query: Matrix, ids: Sequence[int], *, field: CausalField | None = None
    ) -> dict[int, float]:
        """Give the cosine of each memory, or of a field; those without a vector are absent."""
        ...

    def cosines(self, ids: Sequence[int]) -> list[list[float]]:
        """Give the cosine of every two of these memories, each by the mean of its windows.

        In rows and columns in the order of the ids; 0 where one of the two has no vector.
        """
        ...

    def first_windows(self, ids: Sequence[int]) -> dict[int, Matrix]:
        """Give the vector `(d,)` of how each memory begins; those without a vector are absent.

        As it is kept, which is to half precision, and of the serving space.
        """
        ...

    def follow(self) -> None:
        """Bring what this process keeps of vectors up to the rows.

        Searching does so by itself; doing it before a transaction that writes keeps others from
        waiting for it.
        """
        ...

    def pending(self) -> int:
        """Count the findable memories that lack vectors: all, or those of their fields."""
        ...

    def lacks_fields(self) -> bool:
        """Say whether there are findable atoms whose fields never got vectors."""
        ...

    def unembedded(self, *, limit: int, after: int = 0) -> list[int]:
        """List findable memories above an id, superseded ones too, that lack vectors; ascending."""
        ...

    def unworded(self, *, limit: int, after: int = 0) -> list[int]:
        """List findable memories above an id whose words are lost; ascending, usually none."""
        ...

    def embed(self, memory_id: int, given: Vectors) -> bool:
        """Give a memory the vectors that it lacks, if it is findable.

        Returns:
            Whether it got them; another process may have been faster, or have forgotten it.

        """
        ...

    def drop_unsound_vectors(self) -> int:
        """Take away vectors of another size or of memories that cannot be found; count them."""
        ...
