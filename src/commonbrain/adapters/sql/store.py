"""The store: connections, transactions of one tenant, and the only translation of driver errors."""

import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event

from sqlalchemy import Connection, exc, insert, select

from commonbrain.adapters.sql.annotations import AnnotationShelf
from commonbrain.adapters.sql.changes import ChangeShelf
from commonbrain.adapters.sql.links import LinkShelf
from commonbrain.adapters.sql.memories import MemoryShelf
from commonbrain.adapters.sql.records import RecordShelf
from commonbrain.adapters.sql.scrubbing import scrub
from commonbrain.adapters.sql.tables import DETAILS, memories, spaces, tenants
from commonbrain.adapters.sql.threads import ThreadShelf
from commonbrain.adapters.sql.work import Dialect, Work
from commonbrain.domain.errors import CommonbrainError, Corrupt, Unavailable
from commonbrain.domain.space import Space
from commonbrain.ports.store import Finding, Index, SpaceMismatch

_AUDIT_KEY_BYTES = 32
"""As long as the digest it keys (RFC 2104)."""


@dataclass(frozen=True, slots=True)
class SqlTransaction:
    """The shelves of one tenant in one transaction."""

    work: Work
    memories: MemoryShelf
    index: Index
    threads: ThreadShelf
    links: LinkShelf
    changes: ChangeShelf
    annotations: AnnotationShelf
    records: RecordShelf

    @classmethod
    def of(cls, work: Work) -> "SqlTransaction":
        """Set up the shelves on a transaction in progress."""
        return cls(
            work=work,
            memories=MemoryShelf(work),
            index=work.dialect.index(work),
            threads=ThreadShelf(work),
            links=LinkShelf(work),
            changes=ChangeShelf(work),
            annotations=AnnotationShelf(work),
            records=RecordShelf(work),
        )

    def scrub(self, memory_id: int) -> Mapping[str, int]:
        """Take the text of a memory out of every table; give the rows of each place."""
        known = self.memories.get([memory_id])
        self.index.drop(memory_id)
        kind = known[memory_id].kind
        return {"full text": 1, **scrub(self.work, memory_id, kind=kind)}


@dataclass(frozen=True, slots=True)
class SqlStore:
    """A relational store of any dialect; made by `open_sqlite`, which brings its schema up."""

    dialect: Dialect
    space: Space
    closed: Event = field(default_factory=Event)

    @property
    def location(self) -> str:
        """Where it is, for people."""
        return self.dialect.location

    @contextmanager
    def begin(self, tenant: str) -> Generator[SqlTransaction]:
        """Open a transaction that may write: commits at the end, rolls back on any exception."""
        self._check_open()
        with (
            translated(self.location),
            self.dialect.writer() as connection,
            connection.begin(),
        ):
            yield SqlTransaction.of(
                Work(connection=connection, tenant=tenant, dialect=self.dialect)
            )

    @contextmanager
    def snapshot(self, tenant: str) -> Generator[SqlTransaction]:
        """Open a transaction that only reads and never waits for a writer."""
        with translated(self.location), self._reader() as connection:
            yield SqlTransaction.of(
                Work(connection=connection, tenant=tenant, dialect=self.dialect)
            )

    def examine(self) -> list[Finding]:
        """Check that the store is whole and that what is derived agrees with the rows."""
        with translated(self.location), self._reader() as connection:
            return [*self.dialect.examine(connection), *_examine_rows(connection)]

    def compact(self) -> None:
        """Give back the room of what was deleted, so that no byte of it stays in the file."""
        self._check_open()
        with translated(self.location):
            self.dialect.compact()

    def close(self) -> None:
        """Let go of every connection; whoever asks afterwards is told."""
        self.closed.set()
        self.dialect.engine.dispose()

    @contextmanager
    def _reader(self) -> Generator[Connection]:
        self._check_open()
        with self.dialect.engine.connect() as connection, connection.begin():
            yield connection

    def _check_open(self) -> None:
        if self.closed.is_set():
            raise Unavailable(f"The store {self.location} was closed.", hint="Open it again.")


@contextmanager
def translated(location: str) -> Generator[None]:
    """Turn a driver's error into one of the house's, here and nowhere else.

    Raises:
        Unavailable: locked for too long, full, read-only, or not to be opened; rolled back.
        Corrupt: damaged, or not a database at all; rolled back.

    """
    try:
        yield
    except CommonbrainError:
        raise
    except exc.IntegrityError:
        # A row that breaks the schema's promises is a fault of ours, not of the store's.
        raise
    except (exc.OperationalError, exc.TimeoutError) as error:
        raise Unavailable(
            f"The store {location} did not answer: {_cause(error)}.",
            hint="Nothing was changed. Check that it is writable and not full, then try again.",
        ) from error
    except exc.DatabaseError as error:
        if type(error) is not exc.DatabaseError:
            # A statement that is wrong, or of a driver that lacks something: a fault of ours.
            raise
        raise Corrupt(
            f"The store {location} cannot be read: {_cause(error)}.",
            hint="Nothing was changed. Keep the file, and restore a backup beside it.",
        ) from error


def known_space(connection: Connection, space: Space) -> int | None:
    """Give the id of the store's space, None when it has none yet.

    Raises:
        SpaceMismatch: the store's vectors live in another space.

    """
    known = connection.execute(select(spaces)).mappings().all()
    for row in known:
        if row["name"] == space.name and row["dimensions"] == space.dimensions:
            return row["id"]
    if not known:
        return None
    raise SpaceMismatch(", ".join(row["name"] for row in known), made=space.name)


def register(connection: Connection, tenant: str, *, space: Space, now: datetime) -> int:
    """Make the tenant's and the space's rows where they are missing; give the space's id."""
    if connection.execute(select(tenants.c.id).where(tenants.c.id == tenant)).first() is None:
        key = secrets.token_bytes(_AUDIT_KEY_BYTES)
        row = {"id": tenant, "created_at": now, "audit_key": key}
        connection.execute(insert(tenants).values(row))
    space_id = known_space(connection, space)
    if space_id is not None:
        return space_id
    row = {"name": space.name, "dimensions": space.dimensions}
    added = connection.execute(insert(spaces).values(row).returning(spaces.c.id))
    return added.scalar_one()


def _examine_rows(connection: Connection) -> list[Finding]:
    """Check that every memory has the detail of its kind."""
    missing = 0
    for kind, table in DETAILS.items():
        here = select(1).where(
            table.c.tenant_id == memories.c.tenant_id,
            table.c.memory_id == memories.c.id,
        )
        without = select(memories.c.id).where(memories.c.kind == kind, ~here.exists())
        missing += len(connection.execute(without).all())
    return [Finding(check="details", is_sound=missing == 0, detail=f"{missing} missing")]


def _cause(error: exc.SQLAlchemyError) -> str:
    """Give the driver's own words, without the statement and its parameters."""
    return str(error.orig if isinstance(error, exc.DBAPIError) else error).rstrip(".")
