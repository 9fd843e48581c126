"""The file under a SQLite store: made for its owner alone, and known again before each write."""

import importlib
import os
import sqlite3
import stat
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final
from urllib.parse import quote

from sqlalchemy import URL

from commonbrain.model.errors import UnavailableError
from commonbrain.storage.maintenance import Finding

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """A file as it was opened; `path` is absolute, so that it stays where it is if we move."""

    path: Path
    opened: os.stat_result
    is_read_only: bool
    is_at_rest: bool
    """Read-only and without a -wal file: nothing but the file itself need be looked at."""

    @property
    def url(self) -> URL:
        """How SQLite is asked for it."""
        if not self.is_read_only:
            # A plain string would end at a question mark, and stay relative to wherever we go.
            return URL.create("sqlite", database=str(self.path))
        # To read in WAL mode SQLite makes files beside it, unless it is told that nobody writes.
        query: Mapping[str, str] = {"mode": "ro", "uri": "true"}
        if self.is_at_rest:
            query = {**query, "immutable": "1"}
        return URL.create("sqlite", database=f"file:{quote(str(self.path))}", query=query)

    def check_writable(self) -> None:
        """Refuse to write into a file that is read-only, or that nobody will find again.

        Raises:
            UnavailableError: `store_read_only`, or another file, or none, lies where it was opened.

        """
        if self.is_read_only:
            raise UnavailableError(
                f"The store {self.path} is read-only.",
                code="store_read_only",
                hint="Nothing was written. It can be recalled from; to write, make the file and "
                "its folder writable, then open it again.",
            )
        if not self._is_in_place():
            raise self._gone("Nothing was written.")

    def check_kept(self) -> None:
        """Acknowledge nothing that went into a file which was moved while it was being written.

        Raises:
            UnavailableError: another file, or none, lies where the store was opened.

        """
        if not self._is_in_place():
            raise self._gone("What was being written went with it and is not acknowledged.")

    def check_readable(self) -> None:
        """Refuse to read on when a file that was taken to be at rest was written to.

        Raises:
            UnavailableError: somebody who may write to it does.

        """
        if not self.is_at_rest:
            return
        now = self.path.stat()
        is_same = (now.st_mtime_ns, now.st_size) == (self.opened.st_mtime_ns, self.opened.st_size)
        if not is_same or has_wal(self.path):
            raise UnavailableError(
                f"The store {self.path}, read-only here, was written by somebody else.",
                hint="Open it again.",
            )

    def examine(self) -> Finding:
        """Say whether others than its owner may read it."""
        mode = stat.S_IMODE(self.path.stat().st_mode)
        is_private = not mode & _OTHERS
        access = "read-only, " if self.is_read_only else ""
        return Finding(
            check="access",
            is_sound=True,
            detail=f"{access}mode {mode:04o}"
            + ("" if is_private else ": other users of this machine may open it"),
            hint="" if is_private else f"If that is not meant: chmod 600 '{self.path}'*",
        )

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(self.path.stat(), self.opened)
        except OSError:
            return False

    def _gone(self, what: str) -> UnavailableError:
        return UnavailableError(
            f"The store {self.path} was moved, replaced or deleted while it was open.",
            hint=f"{what} Put it back with its -wal file, or open it again.",
        )


def make_file(path: Path) -> StoreFile:
    """Find a file or make it, readable by its owner alone.

    Raises:
        OSError: it cannot be made.

    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return found_file(path)


def found_file(path: Path) -> StoreFile:
    """Look at a file that is there.

    Raises:
        OSError: it is not.

    """
    opened = path.stat()
    # Beside the file SQLite keeps two more while it is in use: without them it can only be read.
    makes_files = os.access(path.parent, os.W_OK) or has_wal(path)
    is_read_only = not (os.access(path, os.W_OK) and makes_files)
    return StoreFile(
        path=path.absolute(),
        opened=opened,
        is_read_only=is_read_only,
        is_at_rest=is_read_only and not has_wal(path),
    )


def has_wal(path: Path) -> bool:
    """Say whether a file's latest changes may lie beside it."""
    try:
        return sibling_path(path, "-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def sibling_path(path: Path, suffix: str) -> Path:
    """Name one of the files that SQLite keeps beside its own."""
    return path.with_name(path.name + suffix)


_MENDED: Final = (3, 51, 3)
"""The first SQLite without the WAL corruption bug."""


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
