"""What the indexes of all engines share: words, vectors, and how similar memories are."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from commonbrain.embeddings.interface import Matrix, Vectors
from commonbrain.model.kinds import CausalField
from commonbrain.model.memory import Memory
from commonbrain.model.values import dataclass
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain.storage.repositories.embedding_spaces import MissingEmbeddings
from commonbrain.storage.sql.context import SqlContext

_PRODUCTS_MAX: Final = 200_000
"""Multiplications at once; for more, BLAS wakes threads, which takes longer than the product."""

_STRONG: Final = 1.3
"""Times the weight of a word that one memory has: from there a match by words is strong."""
_FEW: Final = 30
"""Among fewer memories, how many have a word says little."""

Window = NDArray[np.float16] | NDArray[np.float32]


def cosines_of(ids: Sequence[int], windows: Iterable[tuple[int, Window]]) -> list[list[float]]:
    """Compare memories by the means of their windows; without one the similarity is 0.

    Args:
        ids: the memories, in the order of rows and columns.
        windows: unit vectors of shape `(dimensions,)`, by memory in any order.

    """
    sums: dict[int, NDArray[np.float32]] = {}
    for id_, window in windows:
        whole = np.asarray(window, dtype=np.float32)
        sums[id_] = sums[id_] + whole if id_ in sums else whole
    if not sums:
        return [[0.0] * len(ids) for _ in ids]
    none = np.zeros_like(next(iter(sums.values())))
    matrix = np.stack([sums.get(id_, none) for id_ in ids])
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    matrix /= np.where(lengths > 0, lengths, 1)
    step = max(1, _PRODUCTS_MAX // matrix.size)
    parts = [matrix[at : at + step] @ matrix.T for at in range(0, len(ids), step)]
    return np.concatenate(parts).tolist()


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

    def count(self, field: CausalField | None) -> int:
        """Return by about how many memories a search weighs words."""
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
        if not (hits := self.words.search(terms, scope, limit=limit)):
            return []
        strong, memories = hits[0].score, self.words.count(scope.filter.field)
        if memories >= _FEW:
            # The weight in BM25 of a word that one memory has, by Robertson and Spärck Jones.
            strong = min(len(terms), _STRONG) * math.log((memories - 0.5) / 1.5)
        return [Hit(id=hit.id, score=hit.score / strong) for hit in hits]

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
