"""What only Postgres has of the schema: tables of the index, how words are read, who sees what.

The migrations make the tables. What stands at the end here is written anew by every upgrade, so
that a table which a later migration adds is under row-level security like the others.
"""

from typing import Final

PARTS: Final = 64
"""Partitions by tenant of each table of the index; a store keeps the number it was made with.

Who shares one with a large tenant pays for it in each search. With 16 most of 20 tenants did, and
a request cost Postgres 13.3 ms at a million memories; with 64 it costs 10.7. Older stores have 16.
"""
_FIELD_PARTS: Final = 16
"""The same of the fields of atoms, which are searched seldom and are few."""
_KEYS: Final = "tenant_id varchar(128) NOT NULL REFERENCES tenants (id), memory_id bigint NOT NULL"
_AT_ONCE: Final = "WITH (fastupdate = off)"
"""New words go where they are searched for: GIN would first keep them in a list, and every search
reads that from end to end."""
_TO_MEMORY: Final = "FOREIGN KEY (tenant_id, memory_id) REFERENCES memories (tenant_id, id)"


def _parted(table: str, columns: str, *, count: int = PARTS) -> tuple[str, ...]:
    parts = (
        f"CREATE TABLE {table}_{part} PARTITION OF {table} "
        f"FOR VALUES WITH (MODULUS {count}, REMAINDER {part})"
        for part in range(count)
    )
    return f"CREATE TABLE {table} ({columns}) PARTITION BY HASH (tenant_id)", *parts


# Words are stemmed as SQLite stems them, and none is left out: what is common is left out of a
# search by how often a tenant's own memories have it.
READS_WORDS: Final = (
    "CREATE TEXT SEARCH DICTIONARY commonbrain_stem (TEMPLATE = snowball, Language = porter)",
    "CREATE TEXT SEARCH CONFIGURATION commonbrain (COPY = pg_catalog.english)",
    "ALTER TEXT SEARCH CONFIGURATION commonbrain ALTER MAPPING REPLACE english_stem "
    "WITH commonbrain_stem",
)
FIRST_LIGHT: Final = (
    *READS_WORDS,
    *_parted(
        "vectors",
        f"{_KEYS}, space_id integer NOT NULL REFERENCES spaces (id), part smallint NOT NULL, "
        f"vector halfvec, PRIMARY KEY (tenant_id, memory_id, space_id, part), {_TO_MEMORY}",
    ),
    *_parted(
        "memory_text",
        f"{_KEYS}, length integer NOT NULL, words tsvector NOT NULL, "
        "PRIMARY KEY (tenant_id, memory_id)",
    ),
    f"CREATE INDEX ix_memory_text_words ON memory_text USING gin (words) {_AT_ONCE}",
    "CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'audit is append-only' "
    "USING ERRCODE = 'integrity_constraint_violation'; END $$",
    "CREATE TRIGGER audit_is_never_changed BEFORE UPDATE OR DELETE ON audit "
    "FOR EACH ROW EXECUTE FUNCTION audit_is_append_only()",
)
FIELDS: Final = (
    *_parted(
        "field_vectors",
        f"{_KEYS}, space_id integer NOT NULL REFERENCES spaces (id), "
        "field varchar(24) NOT NULL CHECK (field IN ('subject', 'action', 'outcome', "
        "'consequences')), vector halfvec, "
        f"PRIMARY KEY (tenant_id, memory_id, space_id, field), {_TO_MEMORY}",
        count=_FIELD_PARTS,
    ),
    *_parted(
        "atom_text",
        f"{_KEYS}, field varchar(24) NOT NULL, length integer NOT NULL, words tsvector NOT NULL, "
        "PRIMARY KEY (tenant_id, memory_id, field)",
        count=_FIELD_PARTS,
    ),
    f"CREATE INDEX ix_atom_text_words ON atom_text USING gin (words) {_AT_ONCE}",
)
