"""How a store in Postgres is distributed by tenant over many machines, by Citus.

All that a tenant has goes to one place, so that a transaction of a tenant meets one machine. What
is already done is not done again: a distribution that was interrupted goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, LiteralString

from sqlalchemy import Connection, ForeignKeyConstraint, text

from commonbrain.storage.postgres.roles import FUNCTIONS
from commonbrain.storage.postgres.schema import READS_WORDS
from commonbrain.storage.postgres.unpartition import flattening
from commonbrain.storage.schema.types import METADATA

CITUS: Final = text("SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')")
_DISTRIBUTED: Final = text("SELECT logicalrelid::regclass::text FROM pg_dist_partition")
_FOREIGN: Final = text(
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE contype = 'f' AND connamespace = current_schema()::regnamespace "
    "AND conparentid = 0 ORDER BY 1, 2"
)
# Of a table that was placed this is what stayed behind: its shards are tables of their own.
_FILLED: Final = text(
    "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
    "AND relkind = 'r' AND pg_relation_size(oid) > 0"
)
_TO_BEGIN: Final = (
    # How words are read is known to no table, and goes nowhere by itself.
    *(f"SELECT run_command_on_workers($${one}$$)" for one in READS_WORDS),
    # The triggers on both audits only ever refuse, and look at nothing but the row.
    "SET citus.enable_unsafe_triggers = on",
)
_DERIVED: Final = ("memory_text", "atom_text")
"""Tables of the full text, which only Postgres has."""
REFERENCE: Final = ("spaces", "alembic_version")
"""What every machine has whole: small, of no tenant, and hardly ever written."""
_TOGETHER: Final = "tenants"
"""What a tenant has goes where its own row is."""
EF_SEARCH: Final[LiteralString] = "150"
"""How many vectors HNSW gives at once, on one machine and on many.

As many as a search takes, about, where half of them are another tenant's: to go on where it ended
costs as much again.
"""
# Citus carries what is SET LOCAL to other machines, once told to, and nothing that set_config sets;
# of a connection's own options it carries none. A search of words is a function that asks tables of
# tenants itself, wherever it runs: all it asks for is where the tenant is.
_CARRIED: Final[LiteralString] = (
    "SET LOCAL citus.propagate_set_commands = 'local'; "
    "SET LOCAL citus.allow_nested_distributed_execution = on; "
    f"SET LOCAL hnsw.iterative_scan = relaxed_order; SET LOCAL hnsw.ef_search = {EF_SEARCH}; "
    "SET LOCAL commonbrain.tenant = {tenant}; "
)
MARK: Final[LiteralString] = (
    "(SELECT version_num::bigint * 1000000 + "
    "coalesce((SELECT max(id) FROM spaces WHERE state = 'current'), 0) FROM alembic_version)"
)
"""A number that every change of the schema, and of the space that serves, changes."""
BEGIN_WRITING: Final[LiteralString] = (
    f"BEGIN ISOLATION LEVEL READ COMMITTED; {_CARRIED}"
    "SELECT pg_advisory_xact_lock(hashtextextended('commonbrain ' || {tenant}, 0)); "
    f"SELECT {MARK}"
)
BEGIN_READING: Final[LiteralString] = (
    f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_CARRIED}SELECT {MARK}"
)
"""As on one machine, for transactions that reach over many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The statements that are still missing, in their order."""

    flat: Sequence[str]
    """Plain Postgres, in one transaction."""
    spread: Sequence[str]
    """For Citus, each in a transaction of its own."""
    is_complete: bool
    """Whether all is done but that functions are told to every machine, which is always done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the catalogue tells of how far a distribution has come."""

    placed: AbstractSet[str]
    """Tables that Citus has placed."""
    references: Sequence[tuple[str, str, str]]
    """Those that there are: of which table, by which name, and as Postgres tells them."""
    filled: AbstractSet[str]
    """Tables that have rows of their own on this machine."""


def distribution(connection: Connection) -> Distribution:
    """Say what turns this database into a distributed one; nothing where it is."""
    return planned(found_in(connection), flat=flattening(connection))


def found_in(connection: Connection) -> Found:
    """Ask the catalogue how far a distribution has come."""
    return Found(
        placed=_placed(connection),
        references=[(table, name, told) for table, name, told in connection.execute(_FOREIGN)],
        filled=set(connection.execute(_FILLED).scalars()),
    )


def planned(found: Found, *, flat: Sequence[str] = ()) -> Distribution:
    """Say what is still to be done; what was interrupted anywhere is gone on with there."""
    missing = [one for one in (*REFERENCE, *_ordered()) if one not in found.placed]
    known = found.references
    # A table that refers to another is not distributed, and one that is loaded is not checked
    # against another that is not there yet: references go first, and come back last.
    stay: set[tuple[str, str]] = set()
    if not missing:
        stay = {(table, told) for table, _, told in known}
    back = [(*one, name) for one, name in references().items() if one not in stay]
    # Whoever was interrupted after the tables were placed has rows left here.
    to_empty = [one for one in _ordered() if one in missing or one in found.filled]
    return Distribution(
        flat=flat,
        spread=[
            *(f"ALTER TABLE {table} DROP CONSTRAINT {name}" for table, name, _ in known if missing),
            *(_TO_BEGIN if missing else []),
            *(_place(one) for one in missing),
            *(f"ALTER TABLE {at} ADD CONSTRAINT {name} {told}" for at, told, name in back),
            # To tell them again changes nothing, and an upgrade may have brought another.
            *(_everywhere(one) for one in FUNCTIONS),
            *(_emptied(one) for one in to_empty),
        ],
        is_complete=not (flat or missing or back or to_empty),
    )


def references() -> Mapping[tuple[str, str], str]:
    """Give every reference that the schema has, by table and as Postgres tells it, with a name."""
    told = {
        (table.name, _told(one)): str(one.name)
        for table in METADATA.sorted_tables
        for one in sorted(table.foreign_key_constraints, key=lambda one: str(one.name))
    }
    for table in _DERIVED:
        own = "FOREIGN KEY (tenant_id) REFERENCES tenants(id)"
        told[table, own] = f"{table}_tenant_id_fkey"
    return told


def _told(reference: ForeignKeyConstraint) -> str:
    here = ", ".join(reference.column_keys)
    there = ", ".join(one.column.name for one in reference.elements)
    return f"FOREIGN KEY ({here}) REFERENCES {reference.referred_table.name}({there})"


def _placed(connection: Connection) -> set[str]:
    """Name the tables that Citus has placed."""
    if not connection.execute(CITUS).scalar_one():
        return set()
    return set(connection.execute(_DISTRIBUTED).scalars())


def _ordered() -> list[str]:
    """Name the tables of tenants, what others refer to before them."""
    return [
        *(one.name for one in METADATA.sorted_tables if one.name not in REFERENCE),
        *_DERIVED,
    ]


def _place(table: str) -> str:
    if table in REFERENCE:
        return f"SELECT create_reference_table('{table}')"
    if table == _TOGETHER:
        return f"SELECT create_distributed_table('{table}', 'id')"
    return (
        f"SELECT create_distributed_table('{table}', 'tenant_id', colocate_with => '{_TOGETHER}')"
    )


def _everywhere(function: str) -> str:
    """Let every machine have a function; it runs where it is called, as it names no tenant."""
    return f"SELECT create_distributed_function('{function}')"


def _emptied(table: str) -> str:
    """Take away the rows that stayed where they were when they were copied to their places."""
    return f"SELECT truncate_local_data_after_distributing_table('{table}')"
