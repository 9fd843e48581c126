"""The index in Postgres: full text in tsvectors, vectors in pgvector, nothing in memory."""

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
from commonbrain.storage.repositories.embedding_spaces import MissingEmbeddings
from commonbrain.storage.sql.context import SqlContext
from commonbrain_server.postgres.fts import PostgresFullText
from commonbrain_server.postgres.schema import field_vectors, vectors
from commonbrain_server.postgres.statistics import OneSize, TenantSizes
from commonbrain_server.postgres.vectors import PostgresVectors, VectorTable, half

_FINDABLE: Final = sorted(FINDABLE_STATES)
# A removed vector stays as a row without its value, as in SQLite.
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
# A memory loses all of its windows, or all of its fields, which are made together.
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
    missing: MissingEmbeddings
    size: OneSize

    @classmethod
    def of(
        cls, work: SqlContext, *, space_id: int, dimensions: int, sizes: TenantSizes
    ) -> PostgresIndex:
        """Set up the index of a transaction."""
        size = OneSize(work=work, sizes=sizes)
        return cls(
            work=work,
            which=VectorTable(space_id=space_id, dimensions=dimensions),
            sizes=sizes,
            words=PostgresFullText(work=work, size=size),
            missing=MissingEmbeddings(work=work, space_id=space_id),
            size=size,
        )

    def put(self, memory: Memory, given: Vectors | None) -> None:
        """Index a memory by its words, and by its vectors if given."""
        self.words.put(memory)
        if given is not None:
            self._put_windows(memory.id, given.windows)
            self._put_fields(memory.id, given.fields)

    def embed(self, memory_id: int, given: Vectors) -> bool:
        """Store the missing vectors of a memory, if it is searchable."""
        lacks_own, lacks_fields = self.missing.of(memory_id)
        if lacks_own:
            self._put_windows(memory_id, given.windows)
        if lacks_fields:
            self._put_fields(memory_id, given.fields)
        return lacks_own or lacks_fields

    def drop_unsound_vectors(self) -> int:
        """Remove vectors of the wrong size or of memories that are not searchable.

        Return their number.
        """
        given = {
            "tenant": self.work.tenant,
            "space": self.which.space_id,
            "size": self.which.dimensions,
            "findable": _FINDABLE,
        }
        return sum(self.work.connection.execute(one, given).rowcount for one in _UNSOUND)

    def reword(self, memory: Memory) -> None:
        """Index the words of a memory again after its tags or people changed; its vectors stay."""
        self.words.put(memory)

    def drop(self, memory_id: int) -> None:
        """Remove a memory from the index."""
        self.words.drop(memory_id)
        for statement in _DROP:
            self.work.change(statement, {"tenant": self.work.tenant, "memory": memory_id})

    def lexical(self, terms: Sequence[str], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any term may match."""
        return self.words.search(terms, scope, limit=limit)

    def nearest(
        self, query: Matrix, scope: QueryScope, *, limit: int, at_least: float = -1.0
    ) -> list[Hit]:
        """Rank by cosine to a unit vector, the best window of each memory, best first."""
        vectors = self._vectors_of(scope.filter.field)
        size = self.size.now()
        return vectors.nearest(query, scope, limit=limit, at_least=at_least, size=size)

    def similarities(
        self, query: Matrix, ids: Sequence[int], *, field: CausalField | None = None
    ) -> dict[int, float]:
        """Return the cosine of each memory, or of a field; those without a vector are absent."""
        return self._vectors_of(field).similarities(query, ids)

    def cosines(self, ids: Sequence[int]) -> list[list[float]]:
        """Return the cosine of each pair of memories, by the means of their windows."""
        return self._vectors_of(None).cosines(ids)

    def first_windows(self, ids: Sequence[int]) -> dict[int, Matrix]:
        """Return the vector of each memory's first window; those without a vector are absent."""
        return self._vectors_of(None).firsts(ids)

    def follow(self) -> None:
        """Do nothing: no vectors are held in memory."""

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

    def _vectors_of(self, field: CausalField | None) -> PostgresVectors:
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
