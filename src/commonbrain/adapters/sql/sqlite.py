"""How SQLite is connected to: driver, pragmas, transactions, and the switch to WAL mode.

The bundled SQLite of many Pythons (3.7.0 to 3.51.2) can corrupt a WAL file that several connections
write and checkpoint, so a wheel with a mended one is used where there is one.
"""

from __future__ import annotations

import importlib
import json
import sqlite3
import threading
import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Insert,
    Table,
    create_engine,
    event,
    exc,
)
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from tenacity import Retrying, retry_if_exception_message, stop_after_delay, wait_random

from commonbrain.adapters.sql.codes import Codes
from commonbrain.adapters.sql.sqlite_checks import examine_sqlite
from commonbrain.adapters.sql.sqlite_file import StoreFile, make_file
from commonbrain.adapters.sql.sqlite_index import SqliteIndex
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.errors import Unavailable
from commonbrain.domain.space import Space
from commonbrain.ports.store import Finding

_MENDED: Final = (3, 51, 3)
"""The first SQLite without the WAL corruption bug."""
_TO_WAL: Final = "PRAGMA journal_mode = WAL"
_TRIES_APART_S: Final = 0.01
"""Who is in the way is done in a few milliseconds."""


def driver() -> ModuleType:
    """Give the module with a SQLite that is safe for several processes, or warn that none is."""
    try:
        return importlib.import_module("pysqlite3.dbapi2")
    except ImportError:
        if sqlite3.sqlite_version_info < _MENDED:
            warnings.warn(
                f"SQLite {sqlite3.sqlite_version} has a bug that can corrupt a store which several "
                f"processes write. Install pysqlite3, or use a Python with SQLite 3.51.3 or newer.",
                RuntimeWarning,
                stacklevel=2,
            )
        return sqlite3


@cache
def _insert_or_skip(into: Table) -> Insert:
    return sqlite_insert(into).on_conflict_do_nothing()


@dataclass(slots=True, kw_only=True)
class Sqlite:
    """One file in WAL mode: many readers, one writer at a time, in any number of processes."""

    path: Path
    space: Space
    space_id: int = 0
    """The row of the space in this file; set when the store is opened."""
    is_durable: bool
    lock_wait_s: float
    engine: Engine = field(init=False)
    _file: StoreFile = field(init=False)
    _codes: dict[str, Codes] = field(default_factory=dict[str, Codes])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Make the file, readable by its owner alone, and the pool; connect to nothing yet."""
        self._file = make_file(self.path)
        self.engine = create_engine(
            # A plain string would end at a question mark, and stay relative to wherever we go.
            URL.create("sqlite", database=str(self._file.path)),
            module=driver(),
            connect_args={"timeout": self.lock_wait_s, "check_same_thread": False},
            pool_size=8,
            max_overflow=24,
            json_serializer=_compact_json,
            # An error tells what is wrong, never what was being stored.
            hide_parameters=True,
        )
        event.listen(self.engine, "connect", self._on_connect)
        event.listen(self.engine, "begin", _on_begin)

    @property
    def location(self) -> str:
        """Where the store is."""
        return str(self.path)

    def is_prepared(self, connection: Connection) -> bool:
        """Say whether the file is in WAL mode; a copy made by VACUUM is not."""
        return connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"

    def prepare(self) -> None:
        """Put a file into WAL mode, which it keeps; only outside a transaction can it be."""
        # SQLite refuses this at once while another process looks at the file, however long the
        # timeout: when several make a store together, the waiting has to be done here.
        locked = retry_if_exception_message(match=".*locked")
        waiting = Retrying(
            retry=locked,
            wait=wait_random(max=_TRIES_APART_S),
            stop=stop_after_delay(self.lock_wait_s),
            reraise=True,
        )
        try:
            waiting(self._turn_to_wal)
        except driver().OperationalError as error:
            raise exc.OperationalError(_TO_WAL, None, error) from error

    def _turn_to_wal(self) -> None:
        connection = self.engine.raw_connection()
        try:
            connection.cursor().execute(_TO_WAL)
        finally:
            connection.close()

    def compact(self) -> None:
        """Merge the full text, rewrite the file, and empty the write-ahead log into it."""
        # Deleted words stay in old segments of the full text, deleted rows in free pages, and both
        # in the log, until each of these is written anew.
        connection = self.engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute("INSERT INTO memory_text (memory_text) VALUES ('optimize')")
            cursor.execute("VACUUM")
            is_busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except driver().OperationalError as error:
            raise exc.OperationalError("VACUUM", None, error) from error
        finally:
            connection.close()
        if is_busy:
            raise Unavailable(
                f"The store {self.path} is being read: what was deleted is still in its log.",
                hint="Nothing is lost. Close the other programs that have it open and try again.",
            )

    def insert_or_skip(self, into: Table) -> Insert:
        """Build an insert that does nothing when the primary key is taken."""
        return _insert_or_skip(into)

    def writer(self) -> Connection:
        """Open a connection whose transaction takes the write lock as it begins.

        A deferred one would have to be thrown away whenever somebody else wrote in between.
        """
        self._file.check_in_place()
        return self.engine.connect().execution_options(begins="BEGIN IMMEDIATE")

    def index(self, work: Work) -> SqliteIndex:
        """Give the shelf of full text and vectors."""
        return SqliteIndex(work=work, space_id=self.space_id, codes=self.codes(work.tenant))

    def codes(self, tenant: str) -> Codes:
        """Give the codes of one tenant, shared by all threads."""
        with self._lock:
            return self._codes.setdefault(tenant, Codes(dimensions=self.space.dimensions))

    def examine(self, connection: Connection) -> list[Finding]:
        """Check the file, its mode, and that full text and vectors agree with the rows."""
        return examine_sqlite(connection, self.space_id)

    def _on_connect(self, connection: Any, _record: object) -> None:  # noqa: ANN401 a driver's own
        # The driver must not open transactions by itself: `begin` decides how they open.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA synchronous = {'FULL' if self.is_durable else 'NORMAL'}")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begins", "BEGIN"))


def _compact_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
