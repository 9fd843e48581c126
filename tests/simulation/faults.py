"""What goes wrong between two statements of a call, and what a power failure leaves of a store."""

import os
import resource
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Final

from sqlalchemy import Connection, Engine, event

from commonbrain.storage.sqlite.driver import driver

SECTOR = 512
LOG = "-wal"
LOG_HEADER = 32
"""Synced before any frame is written."""
FILES = ("", LOG, ".acknowledged", ".lost")
"""The files of a store, but for the index of its log, which a crash makes useless."""
INDEX = "-shm"
Files = dict[str, tuple[bytes, int]]
"""Contents and times, by the end of a name."""

_LISTENERS: list[Callable[[str], None]] = []
"""The last one hears each statement of the brains before it runs."""


_HEARD: Final = "heard by a simulation"


@event.listens_for(Engine, "engine_connect")
def _listen(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        raw = connection.connection.dbapi_connection
        assert raw is not None
        if _LISTENERS:
            raw.set_trace_callback(_LISTENERS[-1])
            connection.info[_HEARD] = True
        elif connection.info.pop(_HEARD, False):
            # Only what was set here is taken away: other tests listen too.
            raw.set_trace_callback(None)


@dataclass(slots=True)
class Fault:
    """Acts once, before a statement of a call; a driver loses what is raised, so it is kept."""

    act: Callable[["Fault"], None]
    at: int
    """The statement, from 1; a call may have fewer."""
    count: int = 0
    is_writing: bool = False
    """Whether the statement belongs to a transaction that holds the write lock."""
    is_done: bool = False
    error: BaseException | None = None

    def hear(self, statement: str) -> None:
        """Count a statement."""
        if self.is_done:
            return
        self.count += 1
        if statement.startswith("BEGIN IMMEDIATE"):
            self.is_writing = True
        if self.count >= self.at:
            self.is_done = True
            try:
                self.act(self)
            except BaseException as error:  # noqa: BLE001 it is raised again when the call is over
                self.error = error
        if statement.startswith(("COMMIT", "ROLLBACK")):
            self.is_writing = False


@dataclass(slots=True)
class Failure:
    """A power failure before a statement, or while the commit of a transaction is written."""

    path: Path
    in_commit: bool
    at: int
    count: int = 0
    is_writing: bool = False
    before: Files = field(default_factory=dict[str, tuple[bytes, int]])
    after: Files = field(default_factory=dict[str, tuple[bytes, int]])
    allowed: list[str] = field(default_factory=list[str])
    """Digests of what may be in the store afterwards."""
    error: BaseException | None = None

    def hear(self, statement: str) -> None:
        """Copy the files when it is time."""
        if self.after:
            return
        try:
            self._hear(statement)
        except BaseException as error:  # noqa: BLE001 the driver would lose it
            self.error = error

    def _hear(self, statement: str) -> None:
        if statement.startswith("BEGIN IMMEDIATE"):
            self.is_writing = True
        self.count += 1
        if self.in_commit:
            if self.before:
                self.end()
            elif statement.startswith("COMMIT") and self.is_writing and self.count >= self.at:
                self.before = files_of(self.path)
                self.allowed.append(digest_of(self.path))
        elif self.count >= self.at:
            self.end()
        if statement.startswith(("COMMIT", "ROLLBACK")):
            self.is_writing = False

    def end(self) -> None:
        """Fail now, if it was not before."""
        if not self.after:
            self.after = files_of(self.path)
            self.allowed.append(digest_of(self.path))

    def left(self, draw: Random) -> Files:
        """Return what the failure leaves: of what was not synced, some sectors."""
        if not self.before:
            return self.after
        return torn(self.before, self.after, draw=draw)


@contextmanager
def listening(hear: Callable[[str], None]) -> Generator[None]:
    """Let a fault hear the statements of connections that begin inside."""
    _LISTENERS.append(hear)
    try:
        yield
    finally:
        _LISTENERS.pop()


def files_of(path: Path) -> Files:
    """Copy the files of a store."""
    files: Files = {}
    for name in FILES:
        file = path.with_name(path.name + name)
        if file.exists():
            files[name] = (file.read_bytes(), file.stat().st_mtime_ns)
    return files


def put_back(path: Path, files: Files) -> None:
    """Write the files as they were, into those that are there: a crash replaces none."""
    path.with_name(path.name + INDEX).unlink(missing_ok=True)
    for name in FILES:
        file = path.with_name(path.name + name)
        if name not in files:
            file.unlink(missing_ok=True)
            continue
        content, time_ns = files[name]
        file.write_bytes(content)
        os.utime(file, ns=(time_ns, time_ns))


def torn(before: Files, after: Files, *, draw: Random) -> Files:
    """Return the files of a failure during a commit: it tears the log, or the checkpoint after it.

    SQLite syncs the log before it writes a page of it to the file, and the file before it begins
    the log anew.
    """
    logs = [files.get(LOG, (b"", 0))[0] for files in (before, after)]
    if draw.random() < 0.5:
        content = logs[1][:LOG_HEADER] + _mixed(*logs, draw=draw)[LOG_HEADER:]
        return {**before, LOG: (content, after[LOG][1])}
    main = _mixed(before[""][0], after[""][0], draw=draw)
    return {**before, LOG: after[LOG], "": (main, after[""][1])}


def damaged(log: bytes, *, draw: Random) -> bytes:
    """Return a log that was cut, or of which a sector was lost or a byte changed."""
    at = draw.randint(0, len(log))
    match draw.choice(("cut", "lost", "changed")):
        case "lost":
            begin = at - at % SECTOR
            size = min(SECTOR, len(log) - begin)
            return log[:begin] + b"\0" * size + log[begin + size :]
        case "changed":
            return log[:at] + bytes(255 - one for one in log[at : at + 1]) + log[at + 1 :]
        case _:
            return log[:at]


def _mixed(old: bytes, new: bytes, *, draw: Random) -> bytes:
    """Return sectors of the old and of the new content, up to the end of one of them."""
    length = max(len(old), len(new))
    old, new = old.ljust(length, b"\0"), new.ljust(length, b"\0")
    share, mixed = draw.random(), bytearray(new)
    for at in range(0, length, SECTOR):
        if old[at : at + SECTOR] != new[at : at + SECTOR] and draw.random() > share:
            mixed[at : at + SECTOR] = old[at : at + SECTOR]
    return bytes(mixed)


def digest_of(path: Path) -> str:
    """Return a digest of every row that is committed."""
    digest = blake2b()
    with closing(driver().connect(str(path))) as raw:
        raw.execute("BEGIN")
        names = raw.execute("SELECT name FROM sqlite_schema WHERE rootpage > 0 AND type = 'table'")
        for (name,) in names.fetchall():
            for row in raw.execute(f"SELECT * FROM {name}"):  # noqa: S608 a table of the schema
                digest.update(repr((name, row)).encode())
    return digest.hexdigest()


@contextmanager
def full_disk(path: Path, *, left: int) -> Generator[None]:
    """Let no file grow beyond the size of a log and a number of bytes."""
    log = path.with_name(path.name + LOG)
    size = log.stat().st_size if log.exists() else 0
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
