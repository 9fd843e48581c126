"""Undoes `connect`: a file becomes what it was before, byte for byte, unless it changed since.

Nothing is recorded. A text is the earlier one if connecting it and removing our entries again gives
what removing them from the present file gives: that of the backup, or no file at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from commonbrain.integrations import (
    ConfigEdit,
    apply,
    disconnect,
    read,
    was_before,
    without_hooks,
)
from commonbrain.model.errors import UnavailableError


class Restoration(StrEnum):
    """How a file was changed back."""

    RESTORED = "restored"
    """It has the bytes that it had."""
    DELETED = "deleted"
    """It did not exist."""
    REMOVED = "removed"
    """It changed since, so that only our entries were removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneFile:
    """A file of a client, changed back."""

    path: Path
    how: Restoration


def restore(client: str) -> Iterator[UndoneFile]:
    """Disconnect a client in the scope of the user, file by file; unconnected files stay.

    Raises:
        InvalidInputError: a file is not valid; it is unchanged.
        UnavailableError: a file cannot be read or written.

    """
    for removal in without_hooks(disconnect(client), client, scope="user"):
        if removal.is_needed:
            yield UndoneFile(path=removal.path, how=_undo(client, removal))


def _undo(client: str, removal: ConfigEdit) -> Restoration:
    backup = read(removal.backup)
    if backup is not None and was_before(client, backup, path=removal.path, removed=removal.after):
        apply(ConfigEdit(path=removal.path, before=removal.before, after=backup))
        removal.backup.unlink(missing_ok=True)
        return Restoration.RESTORED
    if was_before(client, None, path=removal.path, removed=removal.after):
        _delete(removal.path)
        return Restoration.DELETED
    apply(removal)
    return Restoration.REMOVED


def _delete(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise UnavailableError(f"{path} cannot be deleted: {error.strerror}.") from error
