"""How SQLite is connected to: pragmas, transactions, and the switch to WAL mode."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import (
    Connection,
    Engine,
    Insert,
    Table,
    create_engine,
    event,
    exc,
    select,
)
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine.interfaces import DBAPICursor
from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_random

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.errors import UnavailableError
from commonbrain.model.kinds import CausalField
from commonbrain.observability.health import ReplicaReads
from commonbrain.storage.maintenance import Backup, Finding, Progress
from commonbrain.storage.schema.memories import spaces, tenants
from commonbrain.storage.sql.binary_index import (
    KEPT_BYTES_MAX,
    KEPT_BYTES_MAX_OF_FIELD,
    BinaryVectorIndex,
)
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sqlite.access_log import write_reads
from commonbrain.storage.sqlite.backup import write_backup
from commonbrain.storage.sqlite.checks import clear_text, examine_sqlite
from commonbrain.storage.sqlite.file import StoreFile, driver, make_file
from commonbrain.storage.sqlite.index import SqliteIndex

_Told = TypeVar("_Told")

_TO_WAL: Final = "PRAGMA journal_mode = WAL"
_TO_WRITE: Final = "BEGIN IMMEDIATE"
_TRIES_APART_S: Final = 0.01
"""Who is in the way is done in a few milliseconds."""


@cache
def _insert_or_skip(into: Table) -> Insert:
    return sqlite_insert(into).on_conflict_do_nothing()


@dataclass(slots=True, kw_only=True)
class Sqlite:
    """One file in WAL mode: many readers, one writer at a time, in any number of processes."""

    path: Path
    space: EmbeddingSpace
    space_id: int = 0
    """The row of the space in this file; set when the store is opened."""
    is_durable: bool
    lock_timeout_s: float
    engine: Engine = field(init=False)
    _file: StoreFile = field(init=False)
    _codes: dict[tuple[str, CausalField | None], BinaryVectorIndex] = field(
        default_factory=dict["tuple[str, CausalField | None]", BinaryVectorIndex]
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Make the file, readable by its owner alone, and the pool; connect to nothing yet."""
        self._file = make_file(self.path)
        self.engine = create_engine(
            self._file.url,
            module=driver(),
            connect_args={"timeout": self.lock_timeout_s, "check_same_thread": False},
            pool_size=8,
            max_overflow=24,
            json_serializer=_compact_json,
            # An error tells what is wrong, never what was being stored.
            hide_parameters=True,
        )
        event.listen(self.engine, "connect", self._on_connect)
        event.listen(self.engine, "begin", self._on_begin)

    @property
    def location(self) -> str:
        """Where the store is."""
        return str(self.path)

    def is_prepared(self, connection: Connection) -> bool:
        """Say whether the file is in WAL mode, which a copy is not, or must stay as it is."""
        if self._file.is_read_only:
            return True
        return connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"

    def prepare(self) -> None:
        """Put a file into WAL mode, which it keeps; only outside a transaction can it be."""
        # SQLite refuses this at once while another process looks at the file, however long the
        # timeout: when several make a store together, the waiting has to be done here.
        self._wait_for(self._turn_to_wal, _TO_WAL)

    def _wait_for(self, action: Callable[[], object], statement: str) -> None:
        """Do it as soon as nobody is in the way.

        Raises:
            exc.OperationalError: somebody stayed in the way, or something else is wrong.

        """
        waiting = Retrying(
            retry=retry_if_exception_message(match=".*locked"),
            wait=wait_random(max=_TRIES_APART_S),
            stop=stop_after_delay(self.lock_timeout_s),
            reraise=True,
        )
        try:
            waiting(action)
        except driver().OperationalError as error:
            raise exc.OperationalError(statement, None, error) from error

    def _turn_to_wal(self) -> None:
        connection = self.engine.raw_connection()
        try:
            connection.cursor().execute(_TO_WAL)
        finally:
            connection.close()

    def note_reads(self, connection: Connection, given: dict[str, Any]) -> int:
        """Write traces and accesses, given as JSON lists, in two steps; count new traces."""
        return write_reads(connection.connection.cursor(), given)

    def compact(self) -> None:
        """Merge the full text, rewrite the file, and empty the write-ahead log into it."""
        # Deleted words stay in old segments of the full text, deleted rows in free pages, and both
        # in the log, until each of these is written anew.
        connection = self.engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute("INSERT INTO memory_text (memory_text) VALUES ('optimize')")
            cursor.execute("INSERT INTO atom_text (atom_text) VALUES ('optimize')")
            cursor.execute("VACUUM")
            is_busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except driver().OperationalError as error:
            raise exc.OperationalError("VACUUM", None, error) from error
        finally:
            connection.close()
        if is_busy:
            raise UnavailableError(
                f"The store {self.path} is being read: what was deleted is still in its log.",
                hint="Nothing is lost. Close the other programs that have it open and try again.",
            )

    def insert_or_skip(self, into: Table) -> Insert:
        """Build an insert that does nothing when the primary key is taken."""
        return _insert_or_skip(into)

    def writer(self, tenant: str) -> Connection:  # noqa: ARG002 one lock is for all
        """Open a connection whose transaction takes the write lock as it begins.

        A deferred one would have to be thrown away whenever somebody else wrote in between.
        """
        self._file.check_writable()
        return self.engine.connect().execution_options(begins=_TO_WRITE)

    def check_kept(self) -> None:
        """Acknowledge nothing that went into a file which was moved meanwhile."""
        self._file.check_kept()

    def reader(self, tenant: str | None) -> Connection:  # noqa: ARG002 a file has no roles
        """Open a connection whose transaction sees one moment and waits for nobody."""
        self._file.check_readable()
        return self.engine.connect()

    def ask_copy(self, tenant: str, ask: Callable[[Connection], _Told]) -> tuple[_Told] | None:  # noqa: ARG002
        """Have no copies: whoever reads a file waits for nobody."""
        return None

    def replica_reads(self) -> list[ReplicaReads]:
        """Have none to tell of."""
        return []

    def dispose(self) -> None:
        """Let go of every connection."""
        self.engine.dispose()

    def each_tenant(self, connection: Connection) -> Iterator[str]:
        """Give the tenants; what confines a statement to one is in the statement itself."""
        return iter(connection.execute(select(tenants.c.id).order_by(tenants.c.id)).scalars().all())

    def schema_mark(self, connection: Connection) -> int:
        """Give a number that every change of the schema changes; asking takes microseconds."""
        # SQLAlchemy would take ten times as long as SQLite, and this is asked at every beginning.
        asked = connection.connection.cursor()
        asked.execute("PRAGMA schema_version")
        (mark,) = asked.fetchone() or (0,)
        asked.close()
        return mark

    def mark_switch(self, connection: Connection) -> None:
        """Write an index of spaces anew: that is a change of the schema, which all look out for."""
        for index in spaces.indexes:
            index.drop(connection)
            index.create(connection)

    def take_turn(self, connection: Connection, tenant: str) -> None:
        """Have it already: one lock is for all tenants."""

    def is_indexed(self, connection: Connection, space_id: int) -> bool:  # noqa: ARG002 no index
        """Say that it is: vectors are searched by what the process keeps of them."""
        return True

    def beside(self, space: EmbeddingSpace, space_id: int) -> Sqlite:
        """Give the same file as it is in another space; what is kept of vectors is its own."""
        other = copy(self)
        other.be_in(space, space_id)
        return other

    def be_in(self, space: EmbeddingSpace, space_id: int) -> None:
        """Take on a space, of whose vectors nothing is kept yet."""
        self.space, self.space_id = space, space_id
        self._codes, self._lock = {}, threading.Lock()

    def readable_from(self, connection: Connection) -> str | None:  # noqa: ARG002 see Dialect
        """Let no older program go on: whoever upgraded a file is on the same machine."""
        return None

    def as_kept(self, table: Table) -> Table:
        """Give the table itself: a file has all as the schema says."""
        return table

    def index(self, work: SqlContext) -> SqliteIndex:
        """Give the shelf of full text and vectors."""
        codes = partial(self._codes_of, work.tenant)
        return SqliteIndex.of(work, space_id=self.space_id, codes=codes)

    def _codes_of(self, tenant: str, field: CausalField | None) -> BinaryVectorIndex:
        """Give the codes of one tenant, or of one field of its atoms, shared by all threads."""
        kept = KEPT_BYTES_MAX if field is None else KEPT_BYTES_MAX_OF_FIELD
        with self._lock:
            known = self._codes.get((tenant, field))
            if known is None:
                known = BinaryVectorIndex(dimensions=self.space.dimensions, kept_bytes_max=kept)
                self._codes[tenant, field] = known
            return known

    def examine(self, connection: Connection) -> list[Finding]:
        """Check the file, its mode, and that full text and vectors agree with the rows."""
        is_read_only = self._file.is_read_only
        found = examine_sqlite(connection, self.space_id, is_read_only=is_read_only)
        return [*found, self._file.examine()]

    def clear_text(self, connection: Connection) -> None:
        """Take entries without a memory out of the full text; empty it if it is malformed."""
        clear_text(connection)

    def backup(self, destination: Path, *, replace: bool, on_progress: Progress) -> Backup:
        """Write everything, as of one moment, into another file."""
        return write_backup(
            self._file,
            destination,
            replace=replace,
            wait_s=self.lock_timeout_s,
            on_progress=on_progress,
        )

    def _on_connect(self, connection: Any, _record: object) -> None:  # noqa: ANN401 a driver's own
        # The driver must not open transactions by itself: `begin` decides how they open.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA synchronous = {'FULL' if self.is_durable else 'NORMAL'}")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    def _on_begin(self, connection: Connection) -> None:
        statement = connection.get_execution_options().get("begins", "BEGIN")
        cursor = connection.connection.cursor()
        if statement == _TO_WRITE:
            self._begin_to_write(cursor)
        else:
            cursor.execute(statement)
            cursor.close()

    def _begin_to_write(self, cursor: DBAPICursor) -> None:
        """Take the write lock with the same chance as everybody else who waits for it.

        SQLite's own waiting sleeps longer the longer it has waited, so that who comes late goes
        first: among eight writers on a busy machine one waited for more than 30 seconds.
        """
        cursor.execute("PRAGMA busy_timeout = 0")
        try:
            self._wait_for(lambda: cursor.execute(_TO_WRITE), _TO_WRITE)
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {round(self.lock_timeout_s * 1000)}")
            cursor.close()


_compact_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Kept: `json.dumps` makes an encoder anew for every value."""
