"""Distribute a Postgres store by tenant over several machines with Citus.

All rows of a tenant are on one machine, so a transaction of a tenant uses one. Finished steps are
not repeated: an interrupted distribution continues where it ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from psycopg import sql
from sqlalchemy import (
    BindParameter,
    Connection,
    ForeignKeyConstraint,
    bindparam,
    text,
)
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql import operators, visitors
from sqlalchemy.sql.elements import ColumnClause

from commonbrain.storage.schema.types import METADATA
from commonbrain_server.postgres.roles import CONFINE, FUNCTIONS, granting
from commonbrain_server.postgres.schema import READS_WORDS

CITUS: Final = text("SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')")
_DISTRIBUTED: Final = text("SELECT logicalrelid::regclass::text FROM pg_dist_partition")
_FOREIGN: Final = text(
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE contype = 'f' AND connamespace = current_schema()::regnamespace "
    "AND conparentid = 0 ORDER BY 1, 2"
)
# Rows that stayed behind when a table was distributed; its shards are tables of their own.
_FILLED: Final = text(
    "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
    "AND relkind = 'r' AND pg_relation_size(oid) > 0"
)
# Text search configurations belong to no table, so that nothing brings them to other servers. Citus
# creates on each server, and on each that is added later, what is created after it was. Only the
# first distribution replaces them: servers that run during an upgrade would not find them.
_TEXT_SEARCH: Final = (
    "DROP TEXT SEARCH CONFIGURATION IF EXISTS commonbrain",
    "DROP TEXT SEARCH DICTIONARY IF EXISTS commonbrain_stem",
    *READS_WORDS,
)
BEFORE_MIGRATIONS: Final = (
    # Functions and tables are changed over one connection to each server.
    "SET LOCAL citus.multi_shard_modify_mode = 'sequential'",
    # The triggers on both audits only reject, and read nothing but the row.
    "SET LOCAL citus.enable_unsafe_triggers = on",
)
"""What migrations of a distributed store need; without Citus, these settings mean nothing."""
_DERIVED: Final = ("memory_text", "atom_text")
"""Full-text tables, which only Postgres has."""
REFERENCE: Final = ("spaces", "alembic_version")
"""Tables that every machine has in full: small, without a tenant, rarely written."""
_TOGETHER: Final = "tenants"
"""Rows of a tenant are placed with its own row."""
# Citus repeats SET LOCAL on other servers, and not set_config or options of a connection. What it
# repeats is the text of the message in which SET LOCAL is sent, with every other statement in it; a
# statement in a block is a text of its own. A search of words is a function that queries tables of
# tenants wherever it runs: all that it reads is on that server.
_SETTINGS: Final[LiteralString] = (
    "BEGIN SET LOCAL citus.propagate_set_commands = 'local'; "
    "SET LOCAL citus.allow_nested_distributed_execution = on; "
    "SET LOCAL hnsw.iterative_scan = relaxed_order; "
    "SET LOCAL commonbrain.tenant = {tenant}; END"
)
MARK: Final[LiteralString] = (
    "(SELECT version_num::bigint * 1000000 + "
    "coalesce((SELECT max(id) FROM spaces WHERE state = 'current'), 0) FROM alembic_version)"
)
"""A number that changes with the schema and with the serving space."""
BEGIN_WRITING: Final[LiteralString] = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; DO {settings}; "
    "SELECT pg_advisory_xact_lock(hashtextextended('commonbrain ' || {tenant}, 0)); "
    f"SELECT {MARK}"
)
BEGIN_READING: Final[LiteralString] = (
    f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; DO {{settings}}; SELECT {MARK}"
)
"""As on one machine, for transactions over several."""


def session_settings(tenant: str) -> str:
    """Return the block that sets what a transaction of a tenant needs on every server."""
    return sql.SQL(_SETTINGS).format(tenant=sql.Literal(tenant)).as_string()


class OneTenantCompiler(PGCompiler_psycopg):
    """Compiles statements of one tenant so that Citus sends each of them to one server.

    Citus does not follow the tenant from a query into its subqueries in OR, NOT and recursion: what
    is compared with the tenant of another table is compared with the parameter `tenant` instead.
    """

    def __init__(self, dialect: Dialect, statement: Any, *given: Any, **named: Any) -> None:  # noqa: ANN401 the parent's
        """Compile a statement."""
        parts = () if statement is None else visitors.iterate(statement)
        self._has_tenant = any(
            isinstance(part, BindParameter) and part.key == "tenant" for part in parts
        )
        super().__init__(dialect, statement, *given, **named)

    def visit_binary(self, binary: Any, *given: Any, **named: Any) -> str:  # noqa: ANN401 the parent's
        """Compile a comparison."""
        parent: Any = super()
        sides = binary.left, binary.right
        is_of_tenants = binary.operator is operators.eq and all(
            isinstance(side, ColumnClause) and side.name == "tenant_id" for side in sides
        )
        if not (self._has_tenant and is_of_tenants):
            return parent.visit_binary(binary, *given, **named)
        tenant = bindparam("tenant", type_=binary.left.type)
        each = [parent.visit_binary(side == tenant, *given, **named) for side in sides]
        return f"({' AND '.join(each)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """The missing statements, in order."""

    is_begun: bool
    """Whether tables of tenants are distributed."""

    flat: Sequence[str]
    """For plain Postgres, in one transaction."""
    spread: Sequence[str]
    """For Citus, each in a transaction of its own."""
    is_complete: bool
    """Whether only the functions are left to be created on every machine, which is always repeated.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionProgress:
    """The progress of a distribution according to the catalogue."""

    placed: AbstractSet[str]
    """Tables that Citus has distributed."""
    references: Sequence[tuple[str, str, str]]
    """Existing foreign keys: table, name and definition."""
    filled: AbstractSet[str]
    """Tables with rows on this machine."""


def distribution(connection: Connection) -> Distribution:
    """Return what distributes this database; empty if it is distributed."""
    return planned(read_progress(connection), flat=flattening(connection))


def read_progress(connection: Connection) -> DistributionProgress:
    """Read the progress from the catalogue."""
    return DistributionProgress(
        placed=_placed(connection),
        references=[
            (table, name, definition) for table, name, definition in connection.execute(_FOREIGN)
        ],
        filled=set(connection.execute(_FILLED).scalars()),
    )


def planned(progress: DistributionProgress, *, flat: Sequence[str] = ()) -> Distribution:
    """Plan the remaining steps, continuing after any interruption."""
    missing = [one for one in (*REFERENCE, *_ordered()) if one not in progress.placed]
    is_begun = _TOGETHER in progress.placed
    known = progress.references
    # A table with a foreign key to another cannot be distributed before that, so foreign keys are
    # dropped first and restored last; those of distributed tables stay.
    stay = {(table, definition) for table, _, definition in known if table not in missing}
    back = [(*one, name) for one, name in references().items() if one not in stay]
    # After an interruption, rows may be left here.
    to_empty = [one for one in _ordered() if one in missing or one in progress.filled]
    return Distribution(
        is_begun=is_begun,
        flat=flat,
        spread=[
            *(
                f"ALTER TABLE {table} DROP CONSTRAINT {name}"
                for table, name, _ in known
                if table in missing
            ),
            *(() if is_begun else _TEXT_SEARCH),
            *(["SET citus.enable_unsafe_triggers = on"] if missing else []),
            *(_place(one) for one in missing),
            *(
                f"ALTER TABLE {at} ADD CONSTRAINT {name} {definition}"
                for at, definition, name in back
            ),
            # Repeating this changes nothing, and an upgrade may have added a function.
            # Each function runs where it is called.
            *(f"SELECT create_distributed_function('{one}')" for one in FUNCTIONS),
            # Rows stayed behind when they were copied to their machines.
            *(f"SELECT truncate_local_data_after_distributing_table('{one}')" for one in to_empty),
            # Shards have no statistics until then, and bad plans.
            *(f"ANALYZE {one}" for one in missing),
        ],
        is_complete=not (flat or missing or back or to_empty),
    )


def references() -> Mapping[tuple[str, str], str]:
    """Return every foreign key of the schema, by table and definition, with a name."""
    definition = {
        (table.name, _definition(one)): str(one.name)
        for table in METADATA.sorted_tables
        for one in sorted(table.foreign_key_constraints, key=lambda one: str(one.name))
    }
    for table in _DERIVED:
        own = "FOREIGN KEY (tenant_id) REFERENCES tenants(id)"
        definition[table, own] = f"{table}_tenant_id_fkey"
    return definition


def _definition(reference: ForeignKeyConstraint) -> str:
    here = ", ".join(reference.column_keys)
    there = ", ".join(one.column.name for one in reference.elements)
    return f"FOREIGN KEY ({here}) REFERENCES {reference.referred_table.name}({there})"


def _placed(connection: Connection) -> set[str]:
    """Return the tables that Citus has distributed."""
    if not connection.execute(CITUS).scalar_one():
        return set()
    return set(connection.execute(_DISTRIBUTED).scalars())


def _ordered() -> list[str]:
    """Return the tables of tenants, referenced ones first."""
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
        # The definition of an index of a partitioned table leaves out its partitions.
        *(one.replace(" ON ONLY ", " ON ") for one in indexes),
        f"ANALYZE {table}",
    )
