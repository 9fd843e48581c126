"""What the indexes of all engines have in common: which words and vectors are put and found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

from commonbrain.embeddings.interface import Matrix, Vectors
from commonbrain.model.kinds import CausalField
from commonbrain.model.memory import Memory
from commonbrain.model.values import dataclass
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain.storage.repositories.embedding_spaces import MissingEmbeddings
from commonbrain.storage.sql.context import SqlContext


class FullText(Protocol):
    """The full text of one tenant in one transaction."""

    def put(self, memory: Memory) -> None:
        """Index a memory, and each field of an atom."""
        ...

    def missing(self, *, limit: int, after: int) -> list[int]:
        """List searchable memories above an id that are missing here, ascending."""
        ...

    def search(self, terms: Sequence[str], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any term may match."""
        ...


class StoredVectors(Protocol):
    """The vectors of whole memories, or of one field, of one tenant in one transaction."""

    def similarities(self, query: Matrix, ids: Sequence[int]) -> dict[int, float]:
        """Return the cosine of each memory; those without a vector are absent."""
        ...

    def cosines(self, ids: Sequence[int]) -> list[list[float]]:
        """Return the cosine of each pair of memories."""
        ...

    def firsts(self, ids: Sequence[int]) -> dict[int, Matrix]:
        """Return the vector of each memory's first window; those without a vector are absent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlIndex(ABC):
    """Full text and vectors of one tenant in one transaction."""

    work: SqlContext
    words: FullText
    missing: MissingEmbeddings

    def put(self, memory: Memory, given: Vectors | None) -> None:
        """Index a memory by its words, and by its vectors if given."""
        self.words.put(memory)
        if given is not None:
            self.put_windows(memory.id, given.windows)
            self.put_fields(memory.id, given.fields)

    def embed(self, memory_id: int, given: Vectors) -> bool:
        """Store the missing vectors of a memory, if it is searchable."""
        lacks_own, lacks_fields = self.missing.of(memory_id)
        if lacks_own:
            self.put_windows(memory_id, given.windows)
        if lacks_fields:
            self.put_fields(memory_id, given.fields)
        return lacks_own or lacks_fields

    def lexical(self, terms: Sequence[str], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any term may match."""
        return self.words.search(terms, scope, limit=limit)

    def similarities(
        self, query: Matrix, ids: Sequence[int], *, field: CausalField | None = None
    ) -> dict[int, float]:
        """Return the cosine of each memory, or of a field; those without a vector are absent."""
        return self.vectors_of(field).similarities(query, ids)

    def cosines(self, ids: Sequence[int]) -> list[list[float]]:
        """Return the cosine of each pair of memories, by the means of their windows."""
        return self.vectors_of(None).cosines(ids)

    def first_windows(self, ids: Sequence[int]) -> dict[int, Matrix]:
        """Return the vector of each memory's first window; those without a vector are absent."""
        return self.vectors_of(None).firsts(ids)

    def pending(self) -> int:
        """Count searchable memories without vectors, of their text or of their fields."""
        return self.missing.pending()

    def lacks_fields(self) -> bool:
        """Return whether searchable atoms have no vectors of their fields."""
        return self.missing.any_fields()

    def unembedded(self, *, limit: int, after: int = 0) -> list[int]:
        """List searchable memories above an id that have no vectors, ascending."""
        return self.missing.oldest(limit=limit, after=after)

    def unworded(self, *, limit: int, after: int = 0) -> list[int]:
        """List searchable memories above an id that are missing from the full text, ascending."""
        return self.words.missing(limit=limit, after=after)

    @abstractmethod
    def vectors_of(self, field: CausalField | None) -> StoredVectors:
        """Return the vectors of whole memories, or of one field."""

    @abstractmethod
    def put_windows(self, memory_id: int, windows: Matrix) -> None:
        """Store the vectors of a memory's windows, `(windows, dimensions)`."""

    @abstractmethod
    def put_fields(self, memory_id: int, given: Mapping[CausalField, Matrix]) -> None:
        """Store the vector of each field of an atom."""
