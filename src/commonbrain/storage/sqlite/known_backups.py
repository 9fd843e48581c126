"""The backups of a store that are known without searching the disk.

`brain backup` adds a line to a file next to the store; backups before an upgrade and replaced
stores are recognised by their names. So a damaged store can name its newest backup, and a file that
became empty is not taken for a new store.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from commonbrain.storage.sqlite.paths import has_wal, sibling_path

_RECORD: Final = ".backups"
_RECORDED_MAX: Final = 20
"""Backups that are remembered: older ones are rarely there any more."""
_REPLACED: Final = ".before-restore-"
_UPGRADED: Final = ".schema-"


def record_backup(store: Path, backup: Path) -> None:
    """Remember a backup; does nothing if the folder of the store cannot be written."""
    record = sibling_path(store, _RECORD)
    partial = sibling_path(record, f".{os.getpid()}.partial")
    known = [*(one for one in recorded_backups(store) if one != backup), backup]
    text = "".join(f"{json.dumps(str(one))}\n" for one in known[-_RECORDED_MAX:])
    with suppress(OSError):
        try:
            with open(partial, "w", encoding="ascii", opener=_for_owner) as file:
                file.write(text)
            partial.replace(record)
        finally:
            partial.unlink(missing_ok=True)


def recorded_backups(store: Path) -> list[Path]:
    """List the remembered backups, oldest first; they may have been moved or deleted."""
    backups: list[Path] = []
    with suppress(OSError, UnicodeDecodeError):
        for line in sibling_path(store, _RECORD).read_text("ascii").splitlines():
            with suppress(ValueError):
                backups.append(Path(cast("str", json.loads(line))))
    return backups


def newest_backup(store: Path) -> Path | None:
    """Return the newest known backup that is still there."""
    known = [*recorded_backups(store), *upgrade_backups(store)]
    dated: list[tuple[int, Path]] = []
    for one in known:
        with suppress(OSError):
            status = one.stat()
            if status.st_size:
                dated.append((status.st_mtime_ns, one))
    return max(dated)[1] if dated else None


def upgrade_backups(store: Path) -> Iterator[Path]:
    """List the backups that migrations of a store left; names sort by schema."""
    return (one for one in _named(store, _UPGRADED) if one.name.endswith(".bak"))


def held_memories(store: Path) -> str | None:
    """Return why an empty file must have held a store; None if nothing says so."""
    if has_wal(store) or sibling_path(store, "-shm").exists():
        return "SQLite's files of a store are next to it"
    if recorded_backups(store) or next(upgrade_backups(store), None) is not None:
        return "it was backed up"
    if next(_named(store, _REPLACED), None) is not None:
        return "the store that a restore replaced is next to it"
    return None


def _named(store: Path, suffix: str) -> Iterator[Path]:
    prefix = f"{store.name}{suffix}"
    with suppress(OSError):
        yield from (one for one in store.parent.iterdir() if one.name.startswith(prefix))


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
