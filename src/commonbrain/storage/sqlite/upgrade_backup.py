"""A backup of a store before a migration changes its schema, with which an upgrade is undone."""

import logging
import shutil
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final

from commonbrain.model.errors import CommonbrainError
from commonbrain.storage.interface import ignore_progress
from commonbrain.storage.sqlite.backup import write_backup
from commonbrain.storage.sqlite.file import StoreFile
from commonbrain.storage.sqlite.known_backups import upgrade_backups
from commonbrain.storage.sqlite.paths import sibling_path

BACKUPS_MAX: Final = 3
"""Backups kept next to a store, those of the newest schemas."""
_COPIES: Final = 2
"""Copies of the file for which there must be space: the backup, and its compaction."""
_PARTIAL_S_MAX: Final = 3600
"""After this time, an unfinished backup belongs to a process that was stopped."""
_LOG: Final = logging.getLogger(__name__)


def back_up_before_upgrade(file: StoreFile, *, version: str, to: str, wait_s: float) -> Path | None:
    """Write a backup next to the store, log where it is, and delete the oldest ones.

    Returns:
        Its path; None if it was skipped, for which the log has the reason. A store is never kept
        from opening.

    """
    target = sibling_path(file.path, f".schema-{version}.bak")
    about = f"The schema of {file.path} changes from {version} to {to}"
    try:
        needed, free = _COPIES * _size(file.path), shutil.disk_usage(file.path.parent).free
        if free < needed:
            _LOG.warning(
                "%s without a backup: it needs %s bytes and %s are free.",
                about,
                f"{needed:,}",
                f"{free:,}",
            )
            return None
        _drop_partial(target)
        write_backup(file, target, replace=True, wait_s=wait_s, on_progress=ignore_progress)
    except (CommonbrainError, OSError) as error:
        _LOG.warning("%s without a backup: %s", about, error)
        return None
    _LOG.warning("%s; the store as it was is in %s.", about, target)
    with suppress(OSError):
        for old in sorted(upgrade_backups(file.path), reverse=True)[BACKUPS_MAX:]:
            old.unlink(missing_ok=True)
    return target


def _size(path: Path) -> int:
    files = (path, sibling_path(path, "-wal"))
    return sum(one.stat().st_size for one in files if one.exists())


def _drop_partial(target: Path) -> None:
    oldest = time() - _PARTIAL_S_MAX
    prefix = f".{target.name}."
    for path in target.parent.iterdir():
        if path.name.startswith(prefix) and path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
