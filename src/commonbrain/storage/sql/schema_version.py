"""The schema version: whether a database is a store, and upgrading it."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

from sqlalchemy import Connection, inspect, text
from sqlalchemy.schema import CreateIndex, CreateTable

from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.values import dataclass
from commonbrain.storage.schema import activity
from commonbrain.storage.schema.memories import OURS
from commonbrain.storage.schema.types import UnreadableValueError, indexes_of
from commonbrain.storage.sql.migrations import STEPS

SCHEMA_VERSION: Final = max(STEPS)
VERSIONS: Final = text("SELECT version_num FROM alembic_version")
READABLE_FROM: Final = "0023"
"""The oldest version whose programs may use this schema on a server, while they are replaced."""
_RECORD: Final = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
"""Named by the migration tool of earlier programs, which read it."""
_ADD: Final = text("INSERT INTO alembic_version VALUES (:version)")
_SET: Final = text("UPDATE alembic_version SET version_num = :version")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSchema:
    """What only one engine has."""

    tables: frozenset[str] = frozenset()
    """Tables of `storage.schema` that its statements make its own way."""
    statements: Sequence[str]
    """What it runs in a new store after the shared tables are made."""


def version_of(connection: Connection, location: str) -> str | None:
    """Return the schema version; None for an empty database.

    Raises:
        StoreCorruptError: it belongs to another program.
        UnreadableValueError: it names no version, or several.

    """
    names = set(inspect(connection).get_table_names())
    if not names:
        return None
    # Other programs have a table `alembic_version` too.
    if not names.issuperset(OURS):
        raise StoreCorruptError(
            f"{location} is a database of another program.",
            code="store_foreign",
            hint="Choose another file with --store or COMMONBRAIN_STORE.",
        )
    return only_version(connection.execute(VERSIONS).scalars().all())


def only_version(versions: Sequence[str]) -> str:
    """Return the version of a store from its rows, of which there is one.

    Raises:
        UnreadableValueError: there is none, or several, after an interrupted change by hand.

    """
    if len(versions) != 1:
        raise UnreadableValueError(f"it names {len(versions)} schema versions instead of one")
    return versions[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrations:
    """How a store gets the newest schema."""

    steps: Mapping[str, Sequence[str]]
    oldest: str = "0023"
    """The schema of the first release; versions of development stores sort before it."""

    @property
    def newest(self) -> str:
        """The version after the last step."""
        return max(self.steps)

    def check_upgradable(self, version: str | None, location: str) -> None:
        """Refuse a store that a later version has upgraded, or that no migration leads from.

        Raises:
            StoreCorruptError: it is newer (`store_newer`), or was made before the first release
                (`store_older`); it was left as found.

        """
        if version is not None and version < self.oldest:
            raise StoreCorruptError(
                f"{location} has schema version {version} of a development version; this program "
                f"upgrades from {self.oldest} on.",
                code="store_older",
                hint="Export it with the version of Commonbrain that made it (`brain export`), "
                "then import the archive into a new store (`brain import`).",
            )
        if version is not None and version > self.newest:
            raise StoreCorruptError(
                f"{location} has schema version {version}; this program knows up to {self.newest}.",
                code="store_newer",
                hint="Upgrade Commonbrain.",
            )

    def upgrade(self, connection: Connection, engine: EngineSchema, *, version: str | None) -> None:
        """Make the schema, or run the missing steps, in the transaction of a connection."""
        if version is None:
            _create(connection, engine)
            version = SCHEMA_VERSION
        for newer, statements in self.steps.items():
            if newer > version:
                for statement in statements:
                    connection.exec_driver_sql(statement)
                connection.execute(_SET, {"version": newer})


def _create(connection: Connection, engine: EngineSchema) -> None:
    """Create every table and index of an empty store."""
    every = activity.sessions.metadata.sorted_tables
    tables = [table for table in every if table.name not in engine.tables]
    for table in tables:
        connection.execute(CreateTable(table))
    # In their order: SQLite prefers the newer of two indexes that serve a query alike.
    for index in chain.from_iterable(map(indexes_of, tables)):
        connection.execute(CreateIndex(index))
    for statement in engine.statements:
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql(_RECORD)
    connection.execute(_ADD, {"version": SCHEMA_VERSION})


MIGRATIONS: Final = Migrations(steps=STEPS)
"""The migrations of this version."""
