"""The SQLite engine: connections, pragmas, transactions and WAL mode."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from copy import copy
from functools import cache, partial
from pathlib import Path
from random import uniform
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, Insert, Table, create_engine, event, exc, select
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine.interfaces import DBAPICursor

from commonbrain.clock import UNTIL, Clock, check_awaited
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.errors import StoreCorruptError, UnavailableError
from commonbrain.model.kinds import CausalField
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.model.values import dataclass, field
from commonbrain.storage.interface import Backup, Finding, Progress
from commonbrain.storage.repositories.sessions import BEAT_COLUMNS, session_update
from commonbrain.storage.schema.memories import spaces, tenants
from commonbrain.storage.schema.types import read_json
from commonbrain.storage.sql.context import (
    SqlContext,
    StatementInProgress,
    known_space,
    map_driver_errors,
    register,
)
from commonbrain.storage.sql.schema_version import MIGRATIONS, EngineSchema, Migrations, version_of
from commonbrain.storage.sqlite.acknowledged import (
    Acknowledged,
    count_changes,
    examine_log,
    file_state,
    forget_acknowledged,
    read_acknowledged,
    report_lost,
    write_acknowledged,
)
from commonbrain.storage.sqlite.file import StoreFile, make_file
from commonbrain.storage.store import Schema, Store

SQLITE: Final = EngineSchema(
    statements=(
        "CREATE VIRTUAL TABLE memory_text USING fts5(text, keywords, content='', "
        "contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2')",
        "CREATE VIRTUAL TABLE atom_text USING fts5(subject, action, outcome, consequences, "
        "content='', contentless_delete=1, "
        "tokenize='porter unicode61 remove_diacritics 2')",
        # Full text knows a memory by its id alone, whatever its tenant.
        "CREATE UNIQUE INDEX ix_memories_id ON memories (id)",
        "CREATE TRIGGER access_audit_is_never_updated BEFORE UPDATE ON access_audit "
        "BEGIN SELECT RAISE(ABORT, 'access_audit is append-only'); END",
        "CREATE TRIGGER access_audit_is_never_deleted BEFORE DELETE ON access_audit "
        "BEGIN SELECT RAISE(ABORT, 'access_audit is append-only'); END",
        "CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit "
        "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
        "CREATE TRIGGER audit_is_never_updated BEFORE UPDATE OF tenant_id, id, at, action, "
        "memory_id, agent, session, content_hmac, request_id ON audit "
        "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
        # Only to erase a reason.
        "CREATE TRIGGER audit_reason_is_only_erased BEFORE UPDATE OF reason ON audit "
        "WHEN new.reason IS NOT NULL "
        "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
    )
)


if TYPE_CHECKING:
    from commonbrain.storage.sqlite.index import SqliteIndex
    from commonbrain.storage.sqlite.vectors import BinaryVectorIndex

_STORED: Final = (
    "INSERT INTO recall_traces (tenant_id, id, asked_at, agent, session, query, verdict, "
    "considered, packed, degraded, stages_ms, ranker) "
    "SELECT :tenant, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, "
    "value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10 FROM json_each(:traces) "
    "WHERE true ON CONFLICT DO NOTHING"
)
_TOUCHED: Final = (
    "UPDATE memories SET access_count = access_count + touched.times, "
    "last_access_at = max(coalesce(last_access_at, touched.at), touched.at) "
    "FROM (SELECT value ->> 0 AS id, count(*) AS times, max(value ->> 1) AS at "
    "FROM json_each(:accesses) GROUP BY 1) AS touched "
    "WHERE memories.tenant_id = :tenant AND memories.id = touched.id"
)
_HEARD: Final = (
    f"INSERT INTO sessions (tenant_id, {', '.join(BEAT_COLUMNS)}) "  # noqa: S608 all are our own
    f"SELECT :tenant, {', '.join(f'value ->> {at}' for at in range(len(BEAT_COLUMNS)))} "
    "FROM json_each(:beats) WHERE true "
    f"ON CONFLICT (tenant_id, agent, key) DO UPDATE SET {session_update(greatest='max')} "
    "WHERE sessions.ending IS NULL OR sessions.ending NOT IN ('ended', 'rebooted') "
    "ON CONFLICT DO NOTHING"
)


def write_reads(cursor: Any, given: dict[str, Any]) -> int:  # noqa: ANN401 a driver's own
    """Write traces, given as rows, and accesses and heartbeats, given as JSON lists.

    Count new traces.
    """
    cursor.execute(_STORED, {**given, "traces": json.dumps(given["traces"])})
    stored = cursor.rowcount
    cursor.execute(_TOUCHED, given)
    cursor.execute(_HEARD, given)
    return stored


_TO_WAL: Final = "PRAGMA journal_mode = WAL"
_TO_WRITE: Final = "BEGIN IMMEDIATE"
_TRIES_APART_S: Final = 0.01
"""Seconds between attempts; other processes finish within milliseconds."""


@cache
def _insert_or_skip(into: Table) -> Insert:
    return sqlite_insert(into).on_conflict_do_nothing()


@dataclass(slots=True, kw_only=True)
class Sqlite:
    """One file in WAL mode: many readers and one writer at a time, in any number of processes."""

    path: Path
    space: EmbeddingSpace
    space_id: int = 0
    """The row of the embedding space in this file; set on opening."""
    is_durable: bool
    lock_timeout_s: float
    key_file: Path | None = None
    engine: Engine = field(init=False)
    _file: StoreFile = field(init=False)
    _codes: dict[tuple[str, CausalField | None], BinaryVectorIndex] = field(
        default_factory=dict["tuple[str, CausalField | None]", "BinaryVectorIndex"]
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _acknowledged: Acknowledged | None = None

    def __post_init__(self) -> None:
        """Create the file, readable by its owner only, and the connection pool.

        Does not connect.
        """
        self._file = make_file(self.path, key_file=self.key_file)
        self._file.use()
        self.engine = create_engine(
            self._file.url,
            module=self._file.driver,
            connect_args={"timeout": self.lock_timeout_s, "check_same_thread": False},
            pool_size=8,
            max_overflow=24,
            json_serializer=_compact_json,
            json_deserializer=read_json,
            # Errors never contain what was being stored.
            hide_parameters=True,
        )
        # Before SQLAlchemy asks the connection anything.
        event.listen(self.engine, "connect", self._on_connect, insert=True)
        event.listen(self.engine, "begin", self._on_begin)

    @property
    def location(self) -> str:
        """Where the store is."""
        return str(self.path)

    def is_prepared(self, connection: Connection) -> bool:
        """Return whether the file is in WAL mode, which a copy is not, or read-only."""
        if self._file.is_read_only:
            return True
        return connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"

    def prepare(self) -> None:
        """Switch a file to WAL mode permanently; only possible outside a transaction."""
        # SQLite rejects this at once while another process uses the file, whatever the timeout, so
        # processes that create a store together have to wait here.
        self._wait_for(self._turn_to_wal, _TO_WAL)

    def _wait_for(self, action: Callable[[], object], statement: str) -> None:
        """Retry an action until no other process is in the way.

        Raises:
            exc.OperationalError: another process stayed in the way, or the error is another.

        """
        ends_at = monotonic() + self._remaining_wait_s()
        while True:
            try:
                action()
            except self._file.driver.OperationalError as error:
                if "locked" not in str(error) or monotonic() >= ends_at:
                    raise exc.OperationalError(statement, None, error) from error
                sleep(uniform(0, _TRIES_APART_S))  # noqa: S311 it only keeps processes apart
            else:
                return

    def _remaining_wait_s(self) -> float:
        """Return how long to wait for other writers: never longer than the caller."""
        until = UNTIL.get()
        waits_s = self.lock_timeout_s
        return waits_s if until is None else min(waits_s, until - monotonic())

    def _turn_to_wal(self) -> None:
        # Who waited for a store to be replaced must not make a log next to the new one.
        self._file.check_writable()
        connection = self.engine.raw_connection()
        try:
            connection.cursor().execute(_TO_WAL)
        finally:
            connection.close()

    def note_reads(self, connection: Connection, given: dict[str, Any]) -> int:
        """Write what `write_reads` takes; count new traces."""
        return write_reads(connection.connection.cursor(), given)

    def compact(self) -> None:
        """Merge the full text, rewrite the file, and truncate the write-ahead log."""
        # Deleted words stay in old segments of the full text, deleted rows in free pages, and both
        # in the log, until each of them is rewritten.
        self._file.check_writable()
        connection = self.engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute("INSERT INTO memory_text (memory_text) VALUES ('optimize')")
            cursor.execute("INSERT INTO atom_text (atom_text) VALUES ('optimize')")
            cursor.execute("VACUUM")
            is_busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except self._file.driver.OperationalError as error:
            raise exc.OperationalError("VACUUM", None, error) from error
        finally:
            connection.close()
        if is_busy:
            raise UnavailableError(
                f"The store {self.path} is being read: what was deleted is still in its log.",
                hint="Nothing is lost. Close the other programs that have it open and try again.",
            )

    def insert_or_skip(self, into: Table) -> Insert:
        """Build an insert that does nothing if the primary key exists."""
        return _insert_or_skip(into)

    def writer(self, tenant: str) -> Connection:  # noqa: ARG002 one lock is for all
        """Open a connection whose transaction takes the write lock when it begins.

        A deferred transaction fails if another process writes in between.
        """
        self._file.check_writable()
        return self.engine.connect().execution_options(begins=_TO_WRITE)

    def report_damage(self, cause: str, *, is_derived: bool = False) -> StoreCorruptError:
        """Return the error for a damaged file, to which nothing is written from now on."""
        return self._file.report_damage(cause, is_derived=is_derived)

    def map_errors(self) -> AbstractContextManager[StatementInProgress]:
        """Translate driver errors; an index that lacks rows shows as a violated constraint."""
        return map_driver_errors(self.location, self.report_damage, find_damage=self._find_damage)

    def _find_damage(self) -> str | None:
        """Return what is damaged in the rows, such as an index that lacks some."""
        from commonbrain.storage.sqlite.checks import find_damage  # noqa: PLC0415

        with map_driver_errors(self.location, self.report_damage), self.reader(None) as connection:
            return find_damage(connection)

    def check_process(self) -> None:
        """Check that this process opened the file."""
        self._file.check_process()

    def check_location(self) -> None:
        """Check that the file was not moved during the transaction."""
        self._file.check_location()

    def count_changes(self, connection: Connection) -> int:
        """Return the number of changes once the transaction of a connection is committed."""
        return count_changes(connection.connection.cursor()) if self.is_durable else 0

    def acknowledge(self, changes: int) -> None:
        """Note that so many changes are in the log; with `normal` durability it may lose them."""
        self._file.check_location()
        if self.is_durable:
            with suppress(OSError):
                record = Acknowledged(changes, file_state(self._file.path))
                if record != self._acknowledged:
                    write_acknowledged(self._file.path, record)
                    self._acknowledged = record

    def reader(self, tenant: str | None) -> Connection:  # noqa: ARG002 a file has no roles
        """Open a connection whose transaction reads a snapshot without waiting."""
        self._file.check_readable()
        return self.engine.connect()

    def dispose(self) -> None:
        """Close every connection; in a forked child none, because they belong to its parent."""
        if self._file.leave():
            self.engine.dispose()
            forget_acknowledged(self._file.path)

    def each_tenant(self, connection: Connection, *, to_write: bool = False) -> Iterator[str]:  # noqa: ARG002
        """Yield the tenants; each statement names its tenant, and one lock is for all."""
        return iter(connection.execute(select(tenants.c.id).order_by(tenants.c.id)).scalars().all())

    def schema_mark(self, connection: Connection) -> int:
        """Return a number that changes with every change of the schema; takes microseconds."""
        # SQLAlchemy would take ten times as long, and this runs at the start of every transaction.
        cursor = connection.connection.cursor()
        cursor.execute("PRAGMA schema_version")
        (mark,) = cursor.fetchone() or (0,)
        cursor.close()
        return mark

    def mark_switch(self, connection: Connection) -> None:
        """Recreate an index, which is a schema change that every process notices."""
        for index in spaces.indexes:
            index.drop(connection)
            index.create(connection)

    def is_indexed(self, connection: Connection, space_id: int) -> bool:  # noqa: ARG002 no index
        """Return True: vectors are searched in memory."""
        return True

    def in_space(self, space: EmbeddingSpace, space_id: int) -> Sqlite:
        """Return the engine of the same file in another embedding space, with its own vectors."""
        other = copy(self)
        other.be_in(space, space_id)
        return other

    def be_in(self, space: EmbeddingSpace, space_id: int) -> None:
        """Use an embedding space, without cached vectors yet."""
        self.space, self.space_id = space, space_id
        self._codes, self._lock = {}, threading.Lock()

    def stored_table(self, table: Table) -> Table:
        """Return the table itself: a file matches the schema."""
        return table

    def index(self, work: SqlContext) -> SqliteIndex:
        """Return the index of full text and vectors."""
        # Searching needs numpy, which the counts of a store do without.
        from commonbrain.storage.sqlite.index import SqliteIndex  # noqa: PLC0415

        codes = partial(self._codes_of, work.tenant)
        return SqliteIndex.of(work, space_id=self.space_id, codes=codes)

    def _codes_of(self, tenant: str, field: CausalField | None) -> BinaryVectorIndex:
        """Return the binary vectors of a tenant, or of one field, shared by all threads."""
        from commonbrain.storage.sqlite.vectors import (  # noqa: PLC0415 see `index`
            FIELD_MEMORY_BYTES_MAX,
            MEMORY_BYTES_MAX,
            BinaryVectorIndex,
        )

        bytes_max = MEMORY_BYTES_MAX if field is None else FIELD_MEMORY_BYTES_MAX
        with self._lock:
            known = self._codes.get((tenant, field))
            if known is None:
                known = BinaryVectorIndex(
                    dimensions=self.space.dimensions, memory_bytes_max=bytes_max
                )
                self._codes[tenant, field] = known
            return known

    def examine(self, connection: Connection) -> list[Finding]:
        """Check the file, its mode, and that full text and vectors agree with the rows."""
        from commonbrain.storage.sqlite.checks import examine_sqlite  # noqa: PLC0415

        findings = examine_sqlite(connection, self.space_id, file=self._file)
        file = self._file
        return [*findings, examine_log(file.path), file.examine(), file.examine_seal()]

    def clear_text(self, connection: Connection) -> None:
        """Remove full-text entries without a memory; clear the index if it is malformed."""
        from commonbrain.storage.sqlite.checks import clear_text  # noqa: PLC0415

        clear_text(connection)

    def backup(self, destination: Path, *, replace: bool, on_progress: Progress) -> Backup:
        """Write a consistent snapshot into another file."""
        from commonbrain.storage.sqlite.backup import write_backup  # noqa: PLC0415

        self._file.check_process()

        return write_backup(
            self._file,
            destination,
            replace=replace,
            wait_s=self.lock_timeout_s,
            on_progress=on_progress,
        )

    def back_up_before_upgrade(self, version: str, *, to: str) -> None:
        """Write a backup next to the file, if there is space, before its schema changes."""
        # Only an older store pays for the import.
        from commonbrain.storage.sqlite.backup import back_up_before_upgrade  # noqa: PLC0415

        back_up_before_upgrade(self._file, version=version, to=to, wait_s=self.lock_timeout_s)

    def _on_connect(self, connection: Any, _record: object) -> None:  # noqa: ANN401 a driver's own
        # The driver must not open transactions: `begin` decides how they open.
        connection.isolation_level = None
        self._file.unlock(connection)
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
        """Take the write lock with the same chance as every other waiter.

        SQLite's busy handler sleeps longer the longer it has waited, so later waiters go first: of
        eight writers on a busy machine one waited for more than 30 seconds.
        """
        check_awaited()
        cursor.execute("PRAGMA busy_timeout = 0")
        try:
            with suppress(self._file.driver.OperationalError):
                # Nearly always the lock is free, and waiting costs more than taking it.
                cursor.execute(_TO_WRITE)
                return
            self._wait_for(lambda: cursor.execute(_TO_WRITE), _TO_WRITE)
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {round(self.lock_timeout_s * 1000)}")
            cursor.close()


_compact_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Cached: `json.dumps` creates an encoder for every value."""


def open_sqlite(
    path: Path,
    *,
    space: EmbeddingSpace,
    clock: Clock,
    is_durable: bool,
    lock_timeout_s: float,
    key_file: Path | None = None,
) -> Store:
    """Open a file as a store, making or upgrading it in one transaction if need be.

    Raises:
        UnavailableError: it cannot be opened or stayed locked, or its key is missing; it was left
            as found.
        InvalidInputError: `key_invalid`, its keys cannot be used; `extra_missing`, it is sealed.
        StoreCorruptError: it is damaged, not a store (`store_foreign`), of a newer version
            (`store_newer`), or its vectors live in another space (`space_mismatch`); it was left as
            found.

    """
    try:
        dialect = Sqlite(
            path=path,
            space=space,
            is_durable=is_durable,
            lock_timeout_s=lock_timeout_s,
            key_file=key_file,
        )
    except OSError as error:
        raise UnavailableError(
            f"The store {path} cannot be made: {error.strerror}.",
            hint="Choose another place with --store or COMMONBRAIN_STORE.",
        ) from error
    return settle(dialect, clock=clock)


def settle(dialect: Sqlite, *, clock: Clock, migrations: Migrations = MIGRATIONS) -> Store:
    """Return the store of a file; on failure, close it.

    Raises:
        UnavailableError: as for `open_sqlite`.
        StoreCorruptError: as for `open_sqlite`.

    """
    space = dialect.space
    with ExitStack() as unless_opened, dialect.map_errors():
        unless_opened.callback(dialect.dispose)
        dialect.space_id = _settle(dialect, migrations, space=space, clock=clock)
        unless_opened.pop_all()
    return Store(dialect, space, Schema(migrations.newest))


def _settle(dialect: Sqlite, migrations: Migrations, *, space: EmbeddingSpace, clock: Clock) -> int:
    """Return the id of the embedding space; takes the write lock only to change it."""
    # Before the transaction begins: others go on writing.
    path = dialect.path.absolute()
    acknowledged = read_acknowledged(path)
    with dialect.engine.connect() as connection, connection.begin():
        version = version_of(connection, dialect.location)
        migrations.check_upgradable(version, dialect.location)
        if acknowledged is not None:
            report_lost(path, acknowledged, connection=connection)
        is_prepared = version is not None and dialect.is_prepared(connection)
        if version == migrations.newest and is_prepared:
            space_id = known_space(connection, space)
            if space_id is not None:
                return space_id
    if version is not None and version != migrations.newest:
        dialect.back_up_before_upgrade(version, to=migrations.newest)
    if not is_prepared:
        dialect.prepare()
    with dialect.writer(LOCAL_TENANT) as connection, connection.begin():
        # Another process may have been faster; its rows are used.
        version = version_of(connection, dialect.location)
        migrations.check_upgradable(version, dialect.location)
        if version != migrations.newest:
            migrations.upgrade(connection, SQLITE, version=version)
        return register(connection, LOCAL_TENANT, space=space, now=clock.now())
