"""Tables in partitions turned into plain ones, with all that is in and about them.

A database that is distributed by tenant has a shard where one that is not has a partition, and
Citus distributes no table that Postgres has parted by hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, text

from commonbrain.storage.postgres.roles import CONFINE, granting

# ruff: noqa: S608 identifiers come from the catalogue, quoted by Postgres itself
_OLD: Final = "in_partitions"
"""What a table is called until its rows are where they belong."""
_PARTED: Final = text(
    "SELECT quote_ident(c.relname) FROM pg_class c WHERE c.relkind = 'p' "
    "AND c.relnamespace = current_schema()::regnamespace ORDER BY c.relname"
)
_INDEXES: Final = text(
    "SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i "
    "WHERE i.indrelid = CAST(:name AS regclass) AND NOT i.indisprimary ORDER BY 1"
)
# A primary key first: it is what others refer to, and what rows are found by.
_CONSTRAINTS: Final = text(
    "SELECT quote_ident(conname), pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE conrelid = CAST(:name AS regclass) AND contype IN ('p', 'f') "
    "ORDER BY contype DESC, conname"
)


def flattening(connection: Connection) -> list[str]:
    """Write the statements that turn each table in partitions into a plain one; run them together.

    Its index by nearness is not among them: it is built when the rows are where they stay.
    """
    tables = connection.execute(_PARTED).scalars().all()
    if not tables:
        return []
    steps = [step for table in tables for step in _of(connection, table)]
    return [*steps, CONFINE.strip(), *granting(connection, tables)]


def _of(connection: Connection, table: str) -> Sequence[str]:
    about = {"name": table}
    constraints = connection.execute(_CONSTRAINTS, about).all()
    indexes = connection.execute(_INDEXES, about).scalars()
    return (
        f"ALTER TABLE {table} RENAME TO {_OLD}",
        f"CREATE TABLE {table} (LIKE {_OLD} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)",
        f"INSERT INTO {table} SELECT * FROM {_OLD}",
        f"DROP TABLE {_OLD}",
        *(
            f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}"
            for name, definition in constraints
        ),
        # An index of a table in partitions is told as if it had none.
        *(one.replace(" ON ONLY ", " ON ") for one in indexes),
        f"ANALYZE {table}",
    )
