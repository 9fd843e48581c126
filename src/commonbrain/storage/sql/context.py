"""One transaction in progress: what every shelf is made of."""

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

_Told = TypeVar("_Told")


class Dialect(Protocol):
    """What one engine does its own way; everything else is shared."""

    engine: Engine
    """Where connections come from."""
    space_id: int
    """The row of the vector space in this store; set when it is opened."""

    @property
    def location(self) -> str:
        """Where the store is, for people."""
        ...

    def insert_or_skip(self, into: Table) -> Insert:
        """Build an insert that does nothing when the primary key is taken."""
        ...

    def as_kept(self, table: Table) -> Table:
        """Give a table of the schema as this engine has it; values read from either are alike."""
        ...

    def index(self, work: "SqlContext") -> Index:
        """Give the shelf of full text and vectors."""
        ...

    def is_prepared(self, connection: Connection) -> bool:
        """Say whether the store is in the mode it needs."""
        ...

    def prepare(self) -> None:
        """Put the store into the mode it needs, outside any transaction."""
        ...

    def writer(self, tenant: str) -> Connection:
        """Open a connection whose transaction holds the right to write from its beginning."""
        ...

    def note_reads(self, connection: Connection, given: dict[str, Any]) -> int:
        """Write traces and accesses, given as JSON lists, in few steps; count new traces."""
        ...

    def compact(self) -> None:
        """Rewrite the store without what was deleted, outside any transaction."""
        ...

    def reader(self, tenant: str | None) -> Connection:
        """Open a connection whose transaction only reads, of one tenant or of each in turn."""
        ...

    def ask_copy(self, tenant: str, ask: Callable[[Connection], _Told]) -> tuple[_Told] | None:
        """Ask a copy that sees all that anybody was told is kept; None when there is none."""
        ...

    def replica_reads(self) -> list[ReplicaReads]:
        """Tell how such copies fared."""
        ...

    def dispose(self) -> None:
        """Let go of every connection."""
        ...

    def each_tenant(self, connection: Connection) -> Iterator[str]:
        """Turn to one tenant after the other: what is asked meanwhile is asked of that one."""
        ...

    def check_kept(self) -> None:
        """Refuse to acknowledge what was committed to a place where nobody will find it."""
        ...

    def schema_mark(self, connection: Connection) -> int:
        """Give a number that every change of the schema changes."""
        ...

    def mark_switch(self, connection: Connection) -> None:
        """Change the schema's mark, so that every process notices that another space serves."""
        ...

    def take_turn(self, connection: Connection, tenant: str) -> None:
        """Take the right to write of one more tenant, within a transaction that writes."""
        ...

    def is_indexed(self, connection: Connection, space_id: int) -> bool:
        """Say whether vectors of a space have the index that many of them are searched by."""
        ...

    def beside(self, space: EmbeddingSpace, space_id: int) -> "Dialect":
        """Give the same place as it is in another space; connections are shared."""
        ...

    def readable_from(self, connection: Connection) -> str | None:
        """Give the oldest version whose programs may use a schema that is newer than they are."""
        ...

    def examine(self, connection: Connection) -> list[Finding]:
        """Check what only this engine has."""
        ...

    def clear_text(self, connection: Connection) -> None:
        """Take out of the full text what stands for no memory."""
        ...

    def backup(self, destination: Path, *, replace: bool, on_progress: Progress) -> Backup:
        """Write everything, as of one moment, into a file."""
        ...


@dataclass(slots=True, kw_only=True)
class SqlContext:
    """A connection inside a transaction of one tenant, and what it did to vectors so far."""

    connection: Connection
    tenant: str
    dialect: Dialect
    followed: set[str | None] = field(default_factory=set["str | None"])
    """The fields, None for whole memories, whose vectors kept in the process are up to date."""
    changed: set[int] = field(default_factory=set[int])
    """The memories whose vectors this transaction wrote or dropped itself."""
    highest: dict[Table, int] = field(default_factory=dict["Table", int])
    """The highest number in a table, where it is known: no other transaction can raise it."""

    def append(self, table: Table, row: Mapping[str, Any], *, at: datetime) -> int:
        """Insert a row under an id drawn here, for what nobody outside ever names; give it.

        Many rows share a millisecond in an import, so a drawn id may well be taken.
        """
        while True:
            drawn = ids.make_id(at, secrets.randbits(ids.RANDOM_BITS))
            if self.add(table, {"tenant_id": self.tenant, **row, "id": drawn}):
                return drawn

    def rows(self, question: SelectBase, given: Mapping[str, Any]) -> list[Row]:
        """Ask about this tenant what is asked all the time."""
        return rows_of(self.connection, question, given={"tenant": self.tenant, **given})

    def add(self, table: Table, row: Mapping[str, Any]) -> bool:
        """Insert a row unless its primary key is taken; say whether it went in."""
        return self.change(self.dialect.insert_or_skip(table), row) > 0

    def change(self, statement: UpdateBase, given: Mapping[str, Any]) -> int:
        """Write what is written all the time; give the number of rows that changed."""
        names = tuple(given)
        return compiled(statement, self.connection.dialect, names=names).change(
            self.connection, given
        )

    def change_by_each(self, statement: UpdateBase, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the same once for each of these, which all have the same names."""
        if rows:
            names = tuple(rows[0])
            compiled(statement, self.connection.dialect, names=names).change_by_each(
                self.connection, rows
            )


_AUDIT_KEY_BYTES: Final = 32
"""As long as the digest it keys (RFC 2104)."""


_OPENED: Final = frozenset({SpaceState.CURRENT, SpaceState.RETIRED})
"""A program that was not told of a move goes on in the space that it knows, and says so."""


def known_spaces(connection: Connection) -> list[StoredSpace]:
    """List the spaces of the store, those too of which only the row is left, oldest first."""
    rows = connection.execute(select(spaces).order_by(spaces.c.id)).mappings()
    return [StoredSpace(**row) for row in rows]


def known_space(connection: Connection, space: EmbeddingSpace) -> int | None:
    """Give the id of a space that the store can be opened in, None when it has none yet.

    Raises:
        SpaceMismatch: the store's vectors live in another space.

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
    """Give the space that serves; None in a store that has none yet."""
    serves = select(spaces).where(spaces.c.state == SpaceState.CURRENT)
    row = connection.execute(serves).mappings().first()
    return None if row is None else StoredSpace(**row)


def register(connection: Connection, tenant: str, *, space: EmbeddingSpace, now: datetime) -> int:
    """Make the tenant's and the space's rows where they are missing; give the space's id."""
    add_tenant(connection, tenant, now=now)
    space_id = known_space(connection, space)
    if space_id is not None:
        return space_id
    row = {"name": space.name, "dimensions": space.dimensions}
    added = connection.execute(insert(spaces).values(row).returning(spaces.c.id))
    return added.scalar_one()


def add_tenant(connection: Connection, tenant: str, *, now: datetime) -> bool:
    """Make a tenant's row, unless it is there; say whether it was made."""
    if connection.execute(select(tenants.c.id).where(tenants.c.id == tenant)).first() is not None:
        return False
    key = secrets.token_bytes(_AUDIT_KEY_BYTES)
    row = {"id": tenant, "created_at": now, "audit_key": key}
    connection.execute(insert(tenants).values(row))
    return True
