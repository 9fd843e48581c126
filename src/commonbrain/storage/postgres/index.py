"""Finding in Postgres: full text in tsvectors, vectors in pgvector; the process keeps neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import bindparam, text, update
from sqlalchemy.dialects.postgresql import insert

from commonbrain.embeddings.interface import Matrix, Vectors
from commonbrain.model.kinds import CausalField
from commonbrain.model.memory import FINDABLE_STATES, Memory
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain.storage.postgres.fts import PostgresFullText
from commonbrain.storage.postgres.schema import field_vectors, vectors
from commonbrain.storage.postgres.statistics import OneSize, TenantSizes
from commonbrain.storage.postgres.vectors import PostgresVectors, VectorTable, half
from commonbrain.storage.repositories.embedding_spaces import MissingEmbeddings
from commonbrain.storage.sql.context import SqlContext

_FINDABLE: Final = sorted(FINDABLE_STATES)
# A vector that was dropped stays as a row without its value, as it does in SQLite.
_PUT_WINDOW: Final = insert(vectors).on_conflict_do_update(
    index_elements=list(vectors.primary_key), set_={"vector": insert(vectors).excluded.vector}
)
_PUT_FIELD: Final = insert(field_vectors).on_conflict_do_update(
    index_elements=list(field_vectors.primary_key),
    set_={"vector": insert(field_vectors).excluded.vector},
)
_DROP: Final = tuple(
    update(table)
    .where(
        table.c.tenant_id == bindparam("tenant"),
        table.c.memory_id == bindparam("memory"),
        table.c.vector.is_not(None),
    )
    .values(vector=None)
    for table in (vectors, field_vectors)
)
# A memory loses all of its windows, or all of its fields, for they are made together.
_UNSOUND: Final = tuple(
    text(
        f"UPDATE {table.name} SET vector = NULL WHERE tenant_id = :tenant "  # noqa: S608 our own
        "AND space_id = :space AND vector IS NOT NULL AND memory_id IN (SELECT w.memory_id "
        f"FROM {table.name} w JOIN memories m ON m.tenant_id = w.tenant_id AND m.id = w.memory_id "
        "WHERE w.tenant_id = :tenant AND w.space_id = :space AND w.vector IS NOT NULL "
        "AND (vector_dims(w.vector) <> :size OR m.state <> ALL (:findable)))"
    )
    for table in (vectors, field_vectors)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresIndex:
    """Full text and vectors of one tenant in one transaction."""

    work: SqlContext
    which: VectorTable
    sizes: TenantSizes
    words: PostgresFullText
    lacking: MissingEmbeddings
    size: OneSize

    @classmethod
    def of(
        cls, work: SqlContext, *, space_id: int, dimensions: int, sizes: TenantSizes
    ) -> PostgresIndex:
        """Set up the index on a transaction in progress."""
        size = OneSize(work=work, sizes=sizes)
        return cls(
            work=work,
            which=VectorTable(space_id=space_id, dimensions=dimensions),
            sizes=sizes,
            words=PostgresFullText(work=work, size=size),
            lacking=MissingEmbeddings(work=work, space_id=space_id),
            size=size,
        )

    def put(self, memory: Memory, given: Vectors | None) -> None:
        """Make a memory findable by its words, and by its meaning where vectors are given."""
        self.words.put(memory)
        if given is not None:
            self._put_windows(memory.id, given.windows)
            self._put_fields(memory.id, given.fields)

    def embed(self, memory_id: int, given: Vectors) -> bool:
        """Give a memory the vectors that it lacks, if it is findable."""
        lacks_own, lacks_fields = self.lacking.of(memory_id)
        if lacks_own:
            self._put_windows(memory_id, given.windows)
        if lacks_fields:
            self._put_fields(memory_id, given.fields)
        return lacks_own or lacks_fields

    def drop_unsound_vectors(self) -> int:
        """Take away vectors of another size or of memories that cannot be found; count them."""
        given = {
            "tenant": self.work.tenant,
            "space": self.which.space_id,
            "size": self.which.dimensions,
            "findable": _FINDABLE,
        }
        return sum(self.work.connection.execute(one, given).rowcount for one in _UNSOUND)

    def reword(self, memory: Memory) -> None:
        """Index the words of a memory anew, whose tags or people changed; its vectors stay."""
        self.words.put(memory)

    def drop(self, memory_id: int) -> None:
        """Make a memory unfindable."""
        self.words.drop(memory_id)
        for statement in _DROP:
            self.work.change(statement, {"tenant": self.work.tenant, "memory": memory_id})

    def lexical(self, terms: Sequence[str], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any of the terms may match."""
        return self.words.search(terms, scope, limit=limit)

    def nearest(
        self, query: Matrix, scope: QueryScope, *, limit: int, at_least: float = -1.0
    ) -> list[Hit]:
        """Rank by cosine to a unit vector, the best window of each memory, best first."""
        is_large = self.size.now().is_large
        shelf = self._shelf(scope.filter.field)
        return shelf.nearest(query, scope, limit=limit, at_least=at_least, is_large=is_large)

    def similarities(
        self, query: Matrix, ids: Sequence[int], *, field: CausalField | None = None
    ) -> dict[int, float]:
        """Give the cosine of each memory, or of a field; those without a vector are absent."""
        return self._shelf(field).similarities(query, ids)

    def cosines(self, ids: Sequence[int]) -> list[list[float]]:
        """Give the cosine of every two of these memories, each by the mean of its windows."""
        return self._shelf(None).cosines(ids)

    def first_windows(self, ids: Sequence[int]) -> dict[int, Matrix]:
        """Give the vector of how each memory begins; those without a vector are absent."""
        return self._shelf(None).firsts(ids)

    def follow(self) -> None:
        """Do nothing: the process keeps no vectors."""

    def pending(self) -> int:
        """Count the findable memories that lack vectors: all, or those of their fields."""
        return self.lacking.pending()

    def lacks_fields(self) -> bool:
        """Say whether there are findable atoms whose fields never got vectors."""
        return self.lacking.any_fields()

    def unembedded(self, *, limit: int, after: int = 0) -> list[int]:
        """List findable memories above an id that lack vectors, ascending."""
        return self.lacking.oldest(limit=limit, after=after)

    def unworded(self, *, limit: int, after: int = 0) -> list[int]:
        """List findable memories above an id that the full text lacks, ascending."""
        return self.words.lacking(limit=limit, after=after)

    def _shelf(self, field: CausalField | None) -> PostgresVectors:
        return PostgresVectors(work=self.work, which=replace(self.which, field=field))

    def _put_windows(self, memory_id: int, windows: Matrix) -> None:
        key = self._key(memory_id)
        self.work.change_by_each(
            _PUT_WINDOW,
            [key | {"part": part, "vector": half(one)} for part, one in enumerate(windows)],
        )

    def _put_fields(self, memory_id: int, given: Mapping[CausalField, Matrix]) -> None:
        key = self._key(memory_id)
        rows = [key | {"field": field, "vector": half(one)} for field, one in given.items()]
        self.work.change_by_each(_PUT_FIELD, rows)

    def _key(self, memory_id: int) -> dict[str, object]:
        return {
            "tenant_id": self.work.tenant,
            "memory_id": memory_id,
            "space_id": self.which.space_id,
        }
