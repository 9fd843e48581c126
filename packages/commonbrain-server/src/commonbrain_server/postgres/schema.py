"""The part of the schema that only Postgres has: index tables, text search, row-level security.

The migrations create the tables by `POSTGRES`. Every upgrade recreates what is at the end of this
file, so that a table added by a later migration is under row-level security like the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from pgvector import HalfVector
from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    TypeDecorator,
)
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.types import UserDefinedType

from commonbrain.model.kinds import CausalField
from commonbrain.storage.schema.activity import sessions
from commonbrain.storage.schema.memories import memories
from commonbrain.storage.schema.types import EnumText
from commonbrain.storage.sql.schema_version import EngineSchema

PARTS: Final = 64
"""Partitions by tenant of each index table; a store keeps the number it was created with.

Tenants that share a partition with a large one pay for it in each search. With 16 partitions most
of 20 tenants did, and a request cost Postgres 13.3 ms at a million memories; with 64 it costs 10.7.
Older stores have 16.
"""
_FIELD_PARTS: Final = 16
"""Partitions for the fields of atoms, which are few and seldom searched."""
_KEYS: Final = "tenant_id varchar(128) NOT NULL REFERENCES tenants (id), memory_id bigint NOT NULL"
_AT_ONCE: Final = "WITH (fastupdate = off)"
"""New words are indexed at once.

GIN would first keep them in a pending list, which every search scans completely.
"""
_TO_MEMORY: Final = "FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, id)"


def _parted(table: str, columns: str, *, count: int = PARTS) -> tuple[str, ...]:
    parts = (
        f"CREATE TABLE {table}_{part} PARTITION OF {table} "
        f"FOR VALUES WITH (MODULUS {count}, REMAINDER {part})"
        for part in range(count)
    )
    return f"CREATE TABLE {table} ({columns}) PARTITION BY HASH (tenant_id)", *parts


# Words are stemmed as SQLite stems them, without stop words: a search leaves out words by how
# common they are among the tenant's own memories.
READS_WORDS: Final = (
    "CREATE TEXT SEARCH DICTIONARY commonbrain_stem (TEMPLATE = snowball, Language = porter)",
    "CREATE TEXT SEARCH CONFIGURATION commonbrain (COPY = pg_catalog.english)",
    "ALTER TEXT SEARCH CONFIGURATION commonbrain ALTER MAPPING REPLACE english_stem "
    "WITH commonbrain_stem",
)
POSTGRES: Final = EngineSchema(
    tables=frozenset({"vectors", "field_vectors"}),
    statements=(
        *READS_WORDS,
        *_parted(
            "vectors",
            f"{_KEYS}, space_id integer NOT NULL REFERENCES spaces (id), "
            "part smallint NOT NULL, vector halfvec, "
            f"PRIMARY KEY (tenant_id, memory_id, space_id, part), {_TO_MEMORY}",
        ),
        "CREATE INDEX ix_vectors_dropped ON vectors (tenant_id, space_id, memory_id) "
        "WHERE vector IS NULL",
        *_parted(
            "memory_text",
            f"{_KEYS}, length integer NOT NULL, words tsvector NOT NULL, "
            "PRIMARY KEY (tenant_id, memory_id)",
        ),
        f"CREATE INDEX ix_memory_text_words ON memory_text USING gin (words) {_AT_ONCE}",
        *_parted(
            "field_vectors",
            f"{_KEYS}, space_id integer NOT NULL REFERENCES spaces (id), "
            "field varchar(24) NOT NULL, vector halfvec, "
            f"PRIMARY KEY (tenant_id, memory_id, space_id, field), {_TO_MEMORY}",
            count=_FIELD_PARTS,
        ),
        *_parted(
            "atom_text",
            f"{_KEYS}, field varchar(24) NOT NULL, length integer NOT NULL, "
            "words tsvector NOT NULL, PRIMARY KEY (tenant_id, memory_id, field)",
            count=_FIELD_PARTS,
        ),
        f"CREATE INDEX ix_atom_text_words ON atom_text USING gin (words) {_AT_ONCE}",
        # The reason of a line may be erased, and nothing else of it changes.
        "CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF TG_OP = 'UPDATE' AND to_jsonb(NEW) = to_jsonb(OLD) || "
        "'{\"reason\": null}' THEN RETURN NEW; END IF; "
        "RAISE EXCEPTION 'audit is append-only' "
        "USING ERRCODE = 'integrity_constraint_violation'; END $$",
        "CREATE TRIGGER audit_is_never_changed BEFORE UPDATE OR DELETE ON audit "
        "FOR EACH ROW EXECUTE FUNCTION audit_is_append_only()",
        "CREATE FUNCTION access_audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'access_audit is append-only' "
        "USING ERRCODE = 'integrity_constraint_violation'; END $$",
        "CREATE TRIGGER access_audit_is_append_only BEFORE UPDATE OR DELETE ON access_audit "
        "FOR EACH ROW EXECUTE FUNCTION access_audit_is_append_only()",
    ),
)
"""Its own tables are made with the baseline: they refer to shared tables, and others to them."""


INDEX: Final = MetaData()

# The shared tables state the condition of a partial index for SQLite alone.
_TABLES: Final = {**sessions.metadata.tables, **memories.metadata.tables}
for _partial in (index for table in _TABLES.values() for index in table.indexes):
    _partial.dialect_options["postgresql"]["where"] = _partial.dialect_options["sqlite"]["where"]


class Half(UserDefinedType[object]):
    """A vector of half precision, which pgvector's codec reads and writes in binary."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Return pgvector's name; the index over it defines its dimensions."""
        return "halfvec"


class HalfBytes(TypeDecorator[bytes]):
    """A half-precision vector in SQLite's form: its numbers as bytes."""

    impl = Half
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> HalfVector | None:  # noqa: ARG002
        """Convert bytes to a vector."""
        return None if value is None else HalfVector(np.frombuffer(value, np.float16))

    def process_result_value(self, value: HalfVector | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002
        """Convert a vector to bytes."""
        return None if value is None else value.to_numpy().astype(np.float16).tobytes()


vectors: Final = Table(
    "vectors",
    INDEX,
    Column("tenant_id", String(128), primary_key=True),
    Column("memory_id", BigInteger, primary_key=True, autoincrement=False),
    Column("space_id", Integer, primary_key=True, autoincrement=False),
    Column("part", SmallInteger, primary_key=True, autoincrement=False),
    Column("vector", Half),
)

field_vectors: Final = Table(
    "field_vectors",
    INDEX,
    Column("tenant_id", String(128), primary_key=True),
    Column("memory_id", BigInteger, primary_key=True, autoincrement=False),
    Column("space_id", Integer, primary_key=True, autoincrement=False),
    Column("field", EnumText(CausalField), primary_key=True),
    Column("vector", Half),
)


def _of_bytes(table: Table) -> Table:
    columns = (
        Column(
            one.name,
            HalfBytes() if isinstance(one.type, Half) else one.type,
            primary_key=one.primary_key,
            autoincrement=False,
        )
        for one in table.columns
    )
    return Table(table.name, MetaData(), *columns)


OF_BYTES: Final[Mapping[str, Table]] = {
    table.name: _of_bytes(table) for table in (vectors, field_vectors)
}
"""The vector tables by name, with values as in every engine; for copying stores."""


# ruff: noqa: S608 the statement is put together from constants of this file alone
# ts_rank of a word that occurs n times is r = (1 + 1/4 + ... + 1/n^2) / (pi^2/6), so that
# n = 0.608 / (1 - r) - 0.5 within 0.06 of it: BM25 asks how often, and Postgres does not tell. Its
# constants are those of SQLite's full text: k1 = 1.2, b = 0.75. Both sides of the fraction
# n / (n + k) are multiplied by 1 - r, for this is computed for every word of every match.
_LEFT: Final = "(1.000001::float8 - m.r%1$s)"
_OFTEN: Final = f"(0.608::float8 - 0.5::float8 * {_LEFT})"
_GAIN: Final = (
    f"CASE WHEN m.r%1$s > 0 THEN w.w%1$s * {_OFTEN} / ({_OFTEN} + m.k * {_LEFT}) ELSE 0 END"
)
# All matches of a searched word were found, so they can be counted.
_WEIGHT: Final = (
    "coalesce($6[%1$s], ln(greatest(($9 - count(*) FILTER (WHERE m.r%1$s > 0) + 0.5) "
    "/ (count(*) FILTER (WHERE m.r%1$s > 0) + 0.5), 1.000001))) AS w%1$s"
)
# Of rows, about as many are asked for. Expecting a thousand, as of any function, the planner would
# read each memory of a tenant of a few thousand, instead of those that were found.
_FIND: Final = f"""
CREATE OR REPLACE FUNCTION words_found(
    asked text[], sought integer, weights float8[], asked_field text,
    memories float8, average float8, newest bigint, most integer, scored bigint)
RETURNS TABLE (memory_id bigint, score float8, matches bigint)
LANGUAGE plpgsql STABLE ROWS 100 SECURITY DEFINER
SET search_path = pg_catalog, {{schema}}, pg_temp AS $body$
#variable_conflict use_variable
DECLARE
    tenant CONSTANT text := nullif(current_setting('commonbrain.tenant', true), '');
    name CONSTANT text := CASE WHEN asked_field IS NULL THEN 'memory_text' ELSE 'atom_text' END;
    here CONSTANT text := 't.tenant_id = $1 AND ($2 IS NULL OR '
        || CASE WHEN asked_field IS NULL THEN 'true)' ELSE 't.field = $2)' END;
    ranks text := '';
    weighted text := '';
    gains text := '0::float8';
    since bigint := 0;
    query tsquery;
    any_of tsquery;
    every tsquery[] := ARRAY[]::tsquery[];
BEGIN
    IF tenant IS NULL OR cardinality(asked) = 0 THEN RETURN; END IF;
    FOR at IN 1 .. cardinality(asked) LOOP
        query := phraseto_tsquery('commonbrain', asked[at]);
        every := every || query;
        IF at <= sought THEN
            any_of := CASE WHEN any_of IS NULL THEN query ELSE any_of || query END;
        END IF;
        ranks := ranks || format(CASE WHEN numnode(query) = 1
            THEN ', ts_rank(ARRAY[1, 1, 1, 1]::float4[], t.words, $5[%1$s]) AS r%1$s'
            ELSE ', CASE WHEN t.words @@ $5[%1$s] THEN 0.6079 ELSE 0 END AS r%1$s' END, at);
        weighted := weighted || format('{_WEIGHT}, ', at);
        gains := gains || format(' + {_GAIN}', at);
    END LOOP;
    IF newest IS NOT NULL THEN
        EXECUTE format('SELECT t.memory_id FROM %I t WHERE %s '
            'ORDER BY t.memory_id DESC OFFSET $3 LIMIT 1', name, here)
        INTO since USING tenant, asked_field, newest;
    END IF;
    RETURN QUERY EXECUTE format('WITH m AS MATERIALIZED (SELECT t.memory_id, '
        '0.3::float8 + t.length * (0.9 / greatest($7, 1)) AS k %s FROM %I t WHERE %s '
        'AND t.memory_id >= $3 AND t.words @@ $4 LIMIT $10), '
        'w AS MATERIALIZED (SELECT %s count(*) AS matches FROM m) '
        'SELECT m.memory_id, 2.2::float8 * (%s) AS score, w.matches FROM m, w '
        'ORDER BY 2 DESC, 1 DESC LIMIT $8', ranks, name, here, weighted, gains)
    USING tenant, asked_field, coalesce(since, 0), any_of, every, weights, average, most, memories,
        scored;
END $body$
"""
# Searches of older programs had other arguments and are other functions. They keep their definition
# and privileges, because programs are replaced one by one after the upgrade. The next version of
# the schema may drop words_counted, and words_found with five, six and eight arguments.
SEARCH: Final = (_FIND,)
