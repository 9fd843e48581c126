"""The index in Postgres: full text in tsvectors, vectors in pgvector, nothing in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sqlalchemy import bindparam, text, update
from sqlalchemy.dialects.postgresql import insert

from commonbrain.embeddings.interface import Matrix
from commonbrain.model.kinds import CausalField
from commonbrain.model.memory import FINDABLE_STATES, Memory
from commonbrain.model.values import dataclass
from commonbrain.storage.index import SqlIndex
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
class PostgresIndex(SqlIndex):
    """Full text and vectors of one tenant in one transaction."""

    words: PostgresFullText
    which: VectorTable
    sizes: TenantSizes
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

    def nearest(
        self, query: Matrix, scope: QueryScope, *, limit: int, at_least: float = -1.0
    ) -> list[Hit]:
        """Rank by cosine to a unit vector, the best window of each memory, best first."""
        vectors = self.vectors_of(scope.filter.field)
        size = self.size.now()
        return vectors.nearest(query, scope, limit=limit, at_least=at_least, size=size)

    def follow(self) -> None:
        """Do nothing: no vectors are held in memory."""

    def vectors_of(self, field: CausalField | None) -> PostgresVectors:
        """Return the vectors of whole memories, or of one field."""
        return PostgresVectors(work=self.work, which=replace(self.which, field=field))

    def put_windows(self, memory_id: int, windows: Matrix) -> None:
        """Store the vectors of a memory's windows."""
        key = self._key(memory_id)
        self.work.change_by_each(
            _PUT_WINDOW,
            [key | {"part": part, "vector": half(one)} for part, one in enumerate(windows)],
        )

    def put_fields(self, memory_id: int, given: Mapping[CausalField, Matrix]) -> None:
        """Store the vector of each field of an atom."""
        key = self._key(memory_id)
        rows = [key | {"field": field, "vector": half(one)} for field, one in given.items()]
        self.work.change_by_each(_PUT_FIELD, rows)

    def _key(self, memory_id: int) -> dict[str, object]:
        return {
            "tenant_id": self.work.tenant,
            "memory_id": memory_id,
            "space_id": self.which.space_id,
        }
