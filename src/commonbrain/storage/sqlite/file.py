"""The file of a SQLite store: created for its owner only, and checked before each write."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy import URL

from commonbrain.model.errors import UnavailableError
from commonbrain.storage.interface import Finding

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """A file as it was opened.

    `path` is absolute, so it stays valid if the working folder changes.
    """

    path: Path
    opened: os.stat_result
    is_read_only: bool
    is_at_rest: bool
    """Read-only and without a -wal file, so only the file itself is read."""

    @property
    def url(self) -> URL:
        """The URL for SQLite."""
        if not self.is_read_only:
            # A plain string would end at a question mark and depend on the working folder.
            return URL.create("sqlite", database=str(self.path))
        # To read in WAL mode SQLite creates files next to it, unless it is told that no one writes.
        query: Mapping[str, str] = {"mode": "ro", "uri": "true"}
        if self.is_at_rest:
            query = {**query, "immutable": "1"}
        return URL.create("sqlite", database=f"file:{quote(str(self.path))}", query=query)

    def check_writable(self) -> None:
        """Check that the file is writable and still where it was opened.

        Raises:
            UnavailableError: `store_read_only`, or the path has another file or none.

        """
        if self.is_read_only:
            raise UnavailableError(
                f"The store {self.path} is read-only.",
                code="store_read_only",
                hint="Nothing was written. It can be recalled from; to write, make the file and "
                "its folder writable, then open it again.",
            )
        if not self._is_in_place():
            raise self._moved("Nothing was written.")

    def check_location(self) -> None:
        """Check that the file was not moved during a write.

        Raises:
            UnavailableError: the path has another file or none.

        """
        if not self._is_in_place():
            raise self._moved("What was being written went with it and is not acknowledged.")

    def check_readable(self) -> None:
        """Check that a file opened as static was not written to.

        Raises:
            UnavailableError: another process writes to it.

        """
        if not self.is_at_rest:
            return
        now = self.path.stat()
        is_same = (now.st_mtime_ns, now.st_size) == (self.opened.st_mtime_ns, self.opened.st_size)
        if not is_same or has_wal(self.path):
            raise UnavailableError(
                f"The store {self.path}, read-only here, was changed by another process.",
                hint="Open it again.",
            )

    def examine(self) -> Finding:
        """Check whether others than its owner may read it."""
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

    def _moved(self, what: str) -> UnavailableError:
        return UnavailableError(
            f"The store {self.path} was moved, replaced or deleted while it was open.",
            hint=f"{what} Put it back with its -wal file, or open it again.",
        )


def make_file(path: Path) -> StoreFile:
    """Open or create a file, readable by its owner only.

    Raises:
        OSError: it cannot be created.

    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return found_file(path)


def found_file(path: Path) -> StoreFile:
    """Open an existing file.

    Raises:
        OSError: it does not exist.

    """
    opened = path.stat()
    # SQLite needs two more files next to it while it is in use; without them it is read-only.
    makes_files = os.access(path.parent, os.W_OK) or has_wal(path)
    is_read_only = not (os.access(path, os.W_OK) and makes_files)
    return StoreFile(
        path=path.absolute(),
        opened=opened,
        is_read_only=is_read_only,
        is_at_rest=is_read_only and not has_wal(path),
    )


def has_wal(path: Path) -> bool:
    """Return whether recent changes may be in a -wal file."""
    try:
        return sibling_path(path, "-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def sibling_path(path: Path, suffix: str) -> Path:
    """Return the path of one of SQLite's files next to its own."""
    return path.with_name(path.name + suffix)
