"""Undoes `connect`: a file becomes what it was before, byte for byte, unless it changed since.

Nothing is recorded. A text is the earlier one if connecting it and removing our entries again gives
what removing them from the present file gives: that of the backup, or no file at all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from commonbrain.integrations import (
    CLIENTS,
    HOOKS_FILES,
    ConfigEdit,
    HookCommand,
    ServerEntry,
    apply,
    disconnect,
    read,
    without_hooks,
)
from commonbrain.model.errors import InvalidInputError, RejectedError, UnavailableError

_ENTRY: Final = ServerEntry(command="brain", args=("mcp",))
_HOOKS: Final = HookCommand(brain=("brain",))


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
    if backup is not None and _was(client, removal, text=backup):
        apply(ConfigEdit(path=removal.path, before=removal.before, after=backup))
        removal.backup.unlink(missing_ok=True)
        return Restoration.RESTORED
    if _was(client, removal, text=None):
        _delete(removal.path)
        return Restoration.DELETED
    apply(removal)
    return Restoration.REMOVED


def _was(client: str, removal: ConfigEdit, *, text: str | None) -> bool:
    """Return whether a file had a text, or did not exist, before it was connected."""
    path = removal.path
    try:
        if text is not None and _removed(client, text, path=path) != text:
            return False
        return any(
            _removed(client, one, path=path) == removal.after
            for one in _connected(client, text, path=path)
        )
    except (InvalidInputError, RejectedError):
        return False


def _connected(client: str, text: str | None, *, path: Path) -> Sequence[str]:
    """Return a file's text with our server, with our hooks and with both, as far as it has them."""
    server, hooks = CLIENTS[client], HOOKS_FILES.get(client)
    texts = list[str]()
    if server.path("user") == path:
        texts.append(server.add(text, _ENTRY, path=path, force=False))
    if hooks is not None and hooks.files["user"]() == path:
        texts += [hooks.add(one, _HOOKS, path=path) for one in (text, *texts)]
    return texts


def _removed(client: str, text: str, *, path: Path) -> str:
    server, hooks = CLIENTS[client], HOOKS_FILES.get(client)
    if server.path("user") == path:
        text = server.remove(text, path=path)
    if hooks is not None and hooks.files["user"]() == path:
        text = hooks.remove(text, path=path)
    return text


def _delete(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise UnavailableError(f"{path} cannot be deleted: {error.strerror}.") from error
