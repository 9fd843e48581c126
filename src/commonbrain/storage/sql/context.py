"""The context of one transaction, shared by its repositories."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection, Engine, Insert, SelectBase, Table, UpdateBase, insert, select

from commonbrain.embeddings.interface import EmbeddingSpace, SpaceState, StoredSpace
from commonbrain.model import ids
from commonbrain.observability.health import ReplicaReads
from commonbrain.storage.interface import Index, SpaceMismatch
from commonbrain.storage.maintenance import Backup, Finding, Progress
from commonbrain.storage.schema.memories import spaces, tenants
from commonbrain.storage.sql.fast_queries import Row, compiled, rows_of

_Result = TypeVar("_Result")


class Dialect(Protocol):
    """What differs between engines; everything else is shared."""

    engine: Engine
    """Provides connections."""
    space_id: int
    """The row of the embedding space in this store; set on opening."""

    @property
    def location(self) -> str:
        """Where the store is, for display."""
        ...

    def insert_or_skip(self, into: Table) -> Insert:
        """Build an insert that does nothing if the primary key exists."""
        ...

    def stored_table(self, table: Table) -> Table:
        """Return a table as this engine stores it; values are the same."""
        ...

    def index(self, work: "SqlContext") -> Index:
        """Return the index of full text and vectors."""
        ...

    def is_prepared(self, connection: Connection) -> bool:
        """Return whether the store is in the required mode."""
        ...

    def prepare(self) -> None:
        """Switch the store to the required mode, outside any transaction."""
        ...

    def writer(self, tenant: str) -> Connection:
        """Open a connection whose transaction holds the write lock from its beginning."""
        ...

    def note_reads(self, connection: Connection, given: dict[str, Any]) -> int:
        """Write traces and accesses, given as JSON lists, in few steps; count new traces."""
        ...

    def compact(self) -> None:
        """Rewrite the store without deleted data, outside any transaction."""
        ...

    def reader(self, tenant: str | None) -> Connection:
        """Open a connection for reading, of one tenant or of each in turn."""
        ...

    def ask_copy(self, tenant: str, ask: Callable[[Connection], _Result]) -> tuple[_Result] | None:
        """Query a replica that has everything that was acknowledged; None if there is none."""
        ...

    def replica_reads(self) -> list[ReplicaReads]:
        """Return the status of the replicas."""
        ...

    def dispose(self) -> None:
        """Close every connection."""
        ...

    def each_tenant(self, connection: Connection) -> Iterator[str]:
        """Yield each tenant; queries in between are limited to that tenant."""
        ...

    def check_location(self) -> None:
        """Raise if a commit went to a place where it will not be found."""
        ...

    def schema_mark(self, connection: Connection) -> int:
        """Return a number that changes with every change of the schema."""
        ...

    def mark_switch(self, connection: Connection) -> None:
        """Change the schema mark, so that every process notices that another space serves."""
        ...

    def take_turn(self, connection: Connection, tenant: str) -> None:
        """Take the write lock of another tenant, within a writing transaction."""
        ...

    def is_indexed(self, connection: Connection, space_id: int) -> bool:
        """Return whether vectors of a space have a search index."""
        ...

    def in_space(self, space: EmbeddingSpace, space_id: int) -> "Dialect":
        """Return the dialect of the same store in another embedding space.

        Connections are shared.
        """
        ...

    def readable_from(self, connection: Connection) -> str | None:
        """Return the oldest version whose programs may use a schema newer than they are."""
        ...

    def examine(self, connection: Connection) -> list[Finding]:
        """Check what only this engine has."""
        ...

    def clear_text(self, connection: Connection) -> None:
        """Remove full-text entries without a memory."""
        ...

    def backup(self, destination: Path, *, replace: bool, on_progress: Progress) -> Backup:
        """Write a consistent snapshot into a file."""
        ...


@dataclass(slots=True, kw_only=True)
class SqlContext:
    """A connection in a transaction of one tenant, and its changes of vectors."""

    connection: Connection
    tenant: str
    dialect: Dialect
    followed: set[str | None] = field(default_factory=set["str | None"])
    """Fields, None for whole memories, whose in-memory vectors are up to date."""
    changed: set[int] = field(default_factory=set[int])
    """Memories whose vectors this transaction has changed."""
    highest: dict[Table, int] = field(default_factory=dict["Table", int])
    """The highest id of a table, where known: no other transaction can raise it."""

    def append(self, table: Table, row: Mapping[str, Any], *, at: datetime) -> int:
        """Insert a row with an id generated here, and return the id; for rows without a public id.

        Many rows of an import share a millisecond, so a generated id may be taken.
        """
        while True:
            drawn = ids.make_id(at, secrets.randbits(ids.RANDOM_BITS))
            if self.add(table, {"tenant_id": self.tenant, **row, "id": drawn}):
                return drawn

    def rows(self, question: SelectBase, given: Mapping[str, Any]) -> list[Row]:
        """Run a frequent query for this tenant."""
        return rows_of(self.connection, question, given={"tenant": self.tenant, **given})

    def add(self, table: Table, row: Mapping[str, Any]) -> bool:
        """Insert a row unless its primary key exists; return whether it was inserted."""
        return self.change(self.dialect.insert_or_skip(table), row) > 0

    def change(self, statement: UpdateBase, given: Mapping[str, Any]) -> int:
        """Run a frequent update; return the number of changed rows."""
        names = tuple(given)
        return compiled(statement, self.connection.dialect, names=names).change(
            self.connection, given
        )

    def change_by_each(self, statement: UpdateBase, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run an update once for each of these rows, which have the same names."""
        if rows:
            names = tuple(rows[0])
            compiled(statement, self.connection.dialect, names=names).change_by_each(
                self.connection, rows
            )


_AUDIT_KEY_BYTES: Final = 32
"""As long as the digest that it keys (RFC 2104)."""


_OPENED: Final = frozenset({SpaceState.CURRENT, SpaceState.RETIRED})
"""A program that missed a move continues in the space that it knows, and says so."""


def known_spaces(connection: Connection) -> list[StoredSpace]:
    """List the spaces of the store, including dropped ones, oldest first."""
    rows = connection.execute(select(spaces).order_by(spaces.c.id)).mappings()
    return [StoredSpace(**row) for row in rows]


def known_space(connection: Connection, space: EmbeddingSpace) -> int | None:
    """Return the id of a space in which the store can be opened; None if it has none yet.

    Raises:
        SpaceMismatch: the store's vectors belong to another space.

    """
    known = known_spaces(connection)
    for one in known:
        is_same = (one.name, one.dimensions) == (space.name, space.dimensions)
        if is_same and one.state in _OPENED:
            return one.id
    if not known:
        return None
    serving = [one.name for one in known if one.state is SpaceState.CURRENT]
    raise SpaceMismatch(", ".join(serving), made=space.name)


def serving_space(connection: Connection) -> StoredSpace | None:
    """Return the serving space; None if the store has none yet."""
    serves = select(spaces).where(spaces.c.state == SpaceState.CURRENT)
    row = connection.execute(serves).mappings().first()
    return None if row is None else StoredSpace(**row)


def register(connection: Connection, tenant: str, *, space: EmbeddingSpace, now: datetime) -> int:
    """Create the rows of tenant and space if missing; return the space's id."""
    add_tenant(connection, tenant, now=now)
    space_id = known_space(connection, space)
    if space_id is not None:
        return space_id
    row = {"name": space.name, "dimensions": space.dimensions}
    added = connection.execute(insert(spaces).values(row).returning(spaces.c.id))
    return added.scalar_one()


def add_tenant(connection: Connection, tenant: str, *, now: datetime) -> bool:
    """Create a tenant's row unless it exists; return whether it was created."""
    if connection.execute(select(tenants.c.id).where(tenants.c.id == tenant)).first() is not None:
        return False
    key = secrets.token_bytes(_AUDIT_KEY_BYTES)
    row = {"id": tenant, "created_at": now, "audit_key": key}
    connection.execute(insert(tenants).values(row))
    return True
