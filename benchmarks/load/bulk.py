"""Fills a store in Postgres by COPY, as its owner: a million memories in minutes, not in hours.

What is written is what `remember` would have written of a fact that was never touched since: the
projection, the detail, the full text and the vector. There is no line of audit and no event for
workers, so that this is for measuring alone; memories that matter come in by `brain import`.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import psycopg
from commonbrain_server.postgres.fts import words_of
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from benchmarks.load.dataset import Clusters, made
from commonbrain.model import ids
from commonbrain.model.timestamps import to_millis
from commonbrain.storage.repositories.memory_rows import PROJECTED, encode_reading
from commonbrain.storage.schema.memories import memories
from commonbrain.text.reading import read_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from commonbrain.model.memory import Memory

_BATCH: Final = 5000
_INDEXES: Final = (
    "SELECT c.relname, pg_get_indexdef(c.oid) FROM pg_class c "
    "JOIN pg_index i ON i.indexrelid = c.oid "
    "WHERE c.relkind IN ('i', 'I') AND NOT c.relispartition "
    "AND (c.relname LIKE 'ix_%nearest%' OR c.relname LIKE 'ix_%_text_words')"
)
_COPY: Final = {
    "memories": f"COPY memories (tenant_id, {', '.join(PROJECTED)}, reading) FROM STDIN",
    "facts": "COPY facts (tenant_id, memory_id, kind, body, subject, ttl_s) FROM STDIN",
    "said": "COPY said (memory_id, length, words) FROM STDIN",
    "vectors": "COPY vectors (tenant_id, memory_id, space_id, part, vector) "
    "FROM STDIN (FORMAT BINARY)",
}
_WORDS: Final = (
    "INSERT INTO memory_text (tenant_id, memory_id, length, words) "
    "SELECT %s, memory_id, length, to_tsvector('commonbrain', words) FROM said"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """How a store is filled: who owns it, near what its vectors lie, and in which space."""

    url: str
    clusters: Clusters
    space_id: int
    agents: int
    now: datetime

    def indexes(self) -> dict[str, str]:
        """Take away what is quicker to build at once than row by row; give how it is made."""
        with closing(psycopg.connect(self.url, autocommit=True)) as connection:
            known = dict(connection.execute(_INDEXES).fetchall())
            for name in known:
                connection.execute(f'DROP INDEX "{name}"'.encode())
        return known

    def index(self, made_by: dict[str, str]) -> None:
        """Build again what was taken away, and let the planner know what there is."""
        with closing(psycopg.connect(self.url, autocommit=True)) as connection:
            connection.execute("SET maintenance_work_mem = '2GB'")
            for statement in made_by.values():
                # The definition of an index of a partitioned table leaves out its partitions.
                connection.execute(statement.replace(" ON ONLY ", " ON ").encode())
            connection.execute("VACUUM ANALYZE")

    def fill(self, tenant: str, count: int, *, seed: int) -> None:
        """Write one tenant's memories."""
        random_source = np.random.default_rng(seed)
        first = to_millis(self.now) - count * 1000
        every = [((first + at * 1000) << ids.RANDOM_BITS) | at for at in range(count)]
        written = made(every, seed=seed, agents=self.agents, at=self.now)
        with closing(psycopg.connect(self.url)) as connection:
            register_vector(connection)
            connection.execute("SET synchronous_commit = off")
            connection.execute("CREATE TEMP TABLE said (memory_id bigint, length int, words text)")
            connection.execute(
                "INSERT INTO tenants (id, created_at, audit_key) VALUES (%s, %s, %s) "
                "ON CONFLICT DO NOTHING",
                (tenant, to_millis(self.now), random_source.bytes(32)),
            )
            while batch := list(islice(written, _BATCH)):
                self._write(connection, batch, tenant=tenant, random_source=random_source)
                connection.commit()

    def _write(
        self,
        connection: psycopg.Connection[Any],
        batch: Sequence[Memory],
        *,
        tenant: str,
        random_source: np.random.Generator,
    ) -> None:
        rows: dict[str, Iterator[Sequence[Any]]] = {
            "memories": (
                [*projection(one, tenant), encode_reading(read_memory(one))] for one in batch
            ),
            "facts": ((tenant, one.id, "fact", one.body, None, None) for one in batch),
            "said": (_text(one) for one in batch),
        }
        cursor = connection.cursor()
        for table, each in rows.items():
            with cursor.copy(_COPY[table].encode()) as copy:
                for row in each:
                    copy.write_row(row)
        cursor.execute(_WORDS, (tenant,))
        cursor.execute("TRUNCATE said")
        drawn = self.clusters.draw(len(batch), random_source=random_source)
        with cursor.copy(_COPY["vectors"].encode()) as copy:
            copy.set_types(["varchar", "int8", "int4", "int2", "halfvec"])
            for one, vector in zip(batch, drawn, strict=True):
                copy.write_row((tenant, one.id, self.space_id, 0, HalfVector(vector)))


def projection(memory: Memory, tenant: str) -> list[Any]:
    """Return a row of `memories` for COPY: the tenant, then the projected columns."""
    types = [memories.c[name].type for name in PROJECTED]
    values = (getattr(memory, name) for name in PROJECTED)
    return [tenant, *(_plain(value, type_) for value, type_ in zip(values, types, strict=True))]


def _plain(value: Any, type_: Any) -> Any:  # noqa: ANN401 columns hold anything
    if hasattr(type_, "process_bind_param"):
        return type_.process_bind_param(value, None)
    return json.dumps(value) if isinstance(value, dict) else value


def _text(memory: Memory) -> tuple[int, int, str]:
    words = words_of(f"{memory.text}\n{memory.keywords}")
    return memory.id, len(words), " ".join(words)
