"""The count of acknowledged changes next to a store, by which a log that lost its end is noticed.

SQLite drops a damaged log from its first bad frame without an error. Every change of a memory adds
a line to the audit, which loses none, so the number of its lines in the file is at least the count,
unless the log lost some. The count is written after the commit and never synced: as of any crash it
is too low, never too high. It holds only as long as the file itself is as it was then: a checkpoint
puts the changes into the file, and a restore or a copy makes another one.
"""

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.engine.interfaces import DBAPICursor

from commonbrain.model.values import dataclass
from commonbrain.storage.interface import Finding
from commonbrain.storage.sqlite.file import has_wal, open_for_owner, restore_hint, sibling_path

COUNT: Final = "SELECT coalesce(max(rowid), 0) FROM audit"
"""Lines are only appended, so the last one's number is how many there are."""
SUFFIX: Final = ".acknowledged"
LOST_SUFFIX: Final = ".lost"
_LOG: Final = logging.getLogger(__name__)
_WIDTH: Final = 128
"""Bytes of the record, always the same: a shorter one must not leave the end of a longer one."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Changes that were acknowledged, and the file as it was then."""

    changes: int
    file: tuple[int, int, int]
    """Inode, size and time of the last write."""


def count_changes(cursor: DBAPICursor) -> int:
    """Return the number of changes in a store, as the transaction of a cursor sees it."""
    cursor.execute(COUNT)
    (changes,) = cursor.fetchone() or (0,)
    cursor.close()
    return changes


def file_state(path: Path) -> tuple[int, int, int]:
    """Return what changes when the file is written or replaced."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def write_acknowledged(store: Path, record: Acknowledged) -> None:
    """Write the count.

    Raises:
        OSError: it cannot be written; the older and lower one stays.

    """
    text = " ".join(map(str, (record.changes, *record.file))).ljust(_WIDTH)
    handle = os.open(sibling_path(store, SUFFIX), os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(handle, text.encode("ascii"))
    finally:
        os.close(handle)


def read_acknowledged(store: Path) -> Acknowledged | None:
    """Return the last count, which a transaction that begins now reaches; None if none is kept."""
    with suppress(OSError, ValueError), sibling_path(store, SUFFIX).open("rb") as file:
        changes, *state = map(int, file.read(_WIDTH).split())
        if state == list(file_state(store)):
            return Acknowledged(changes, (state[0], state[1], state[2]))
    return None


def forget_acknowledged(store: Path) -> None:
    """Delete the count of a store whose log is in its file, as the last process leaves it."""
    if not has_wal(store):
        with suppress(OSError):
            sibling_path(store, SUFFIX).unlink(missing_ok=True)


def report_lost(store: Path, record: Acknowledged, *, connection: Connection) -> None:
    """Say in the log, and leave for `examine_log`, how many acknowledged changes are missing."""
    lost = record.changes - count_changes(connection.connection.cursor())
    if lost <= 0:
        return
    _LOG.warning("%s: %s. %s", store, _lost(lost), restore_hint(store))
    with suppress(OSError):
        path = sibling_path(store, LOST_SUFFIX)
        with open(path, "a", encoding="ascii", opener=open_for_owner) as file:
            file.write(f"{lost}\n")
        sibling_path(store, SUFFIX).unlink(missing_ok=True)


def examine_log(store: Path) -> Finding:
    """Report changes that the log lost, until a restore replaces it or the note is deleted."""
    lost, note = 0, sibling_path(store, LOST_SUFFIX)
    with suppress(OSError, ValueError):
        lost = sum(map(int, note.read_text("ascii").split()))
    if not lost:
        return Finding(check="log", is_sound=True, detail="no acknowledged change is missing")
    hint = f"{restore_hint(store)} To go on without them, delete {note}."
    return Finding(check="log", is_sound=False, detail=_lost(lost), hint=hint)


def _lost(changes: int) -> str:
    what = "acknowledged change is" if changes == 1 else f"{changes:,} acknowledged changes are"
    return f"the last {what} missing: the -wal file was damaged, cut or deleted"
