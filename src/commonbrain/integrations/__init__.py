"""Connects clients to this memory by a change to their configuration files.

`CLIENTS` is the table: to add a client, add a file and a row. `connect` and `disconnect` compute a
change and write nothing; `apply` makes it; `diff` shows it.
"""

import difflib
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from commonbrain.integrations import json_clients
from commonbrain.integrations.codex import CodexConfig
from commonbrain.integrations.entry import (
    SERVER,
    Client,
    Remote,
    ServerEntry,
    ServerTarget,
    brain_command,
    install_tool,
    proxy_entry,
)
from commonbrain.integrations.goose import GooseConfig
from commonbrain.integrations.hooks_file import (
    HOOKS_FILES,
    HookCommand,
    HooksFile,
    with_status_line,
    without_status_line,
)
from commonbrain.model.errors import InvalidInputError, RejectedError, UnavailableError

__all__ = [
    "CLIENTS",
    "HOOKS_FILES",
    "Client",
    "ConfigEdit",
    "HookCommand",
    "Remote",
    "ServerEntry",
    "ServerTarget",
    "add_status_line",
    "apply",
    "brain_command",
    "connect",
    "diff",
    "disconnect",
    "install_tool",
    "proxy_entry",
    "read",
    "was_before",
    "with_hooks",
    "without_hooks",
]

_PRIVATE: Final = 0o600
"""Such files can contain tokens of other servers, so only the owner may read a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEdit:
    """A file's text before and after; None before means that there is no file."""

    path: Path
    before: str | None
    after: str | None
    steps: tuple[str, ...] = ()
    """What changes, each up to the preposition: "Added 7 hooks to"."""
    has_backup: bool = False
    """Whether the present backup is the text from before the first connection."""

    @property
    def is_new(self) -> bool:
        """Whether the change creates the file."""
        return self.before is None and self.after is not None

    @property
    def is_needed(self) -> bool:
        """Whether the texts differ; if not, the client is connected (or disconnected) already."""
        return self.before != self.after

    @property
    def backup(self) -> Path:
        """The path of the backup."""
        return self.path.with_name(f"{self.path.name}.bak")


def read(path: Path) -> str | None:
    """Read a file as it is, line ends included; None if there is none.

    Raises:
        InvalidInputError: the file is not UTF-8 text.
        UnavailableError: the file cannot be read.

    """
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path} is not UTF-8 text.", hint="Fix it first; it is unchanged."
        ) from error
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {error.strerror}.") from error


def diff(change: ConfigEdit) -> str:
    """Render a change as a unified diff; empty if there is none."""
    name = str(change.path)
    lines = difflib.unified_diff(
        (change.before or "").splitlines(),
        (change.after or "").splitlines(),
        fromfile="/dev/null" if change.is_new else name,
        tofile=name,
        lineterm="",
    )
    return "".join(f"{line}\n" for line in lines)


def apply(change: ConfigEdit) -> None:
    """Back up the file to `.bak`, then replace it with the new text in one step.

    A backup from before the first connection stays.

    Raises:
        InvalidInputError: the file is no longer UTF-8 text; it is unchanged.
        UnavailableError: the file has changed since it was read, or cannot be written; it is
            unchanged.

    """
    if change.after is None or not change.is_needed:
        return
    if read(change.path) != change.before:
        raise UnavailableError(
            f"{change.path} has changed in the meantime.", hint="Run the command again."
        )
    # Replace the target of a link, not the link: some users link to files in a repository.
    target = change.path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = _PRIVATE if change.before is None else stat.S_IMODE(target.stat().st_mode)
        if change.before is not None and not change.has_backup:
            _replace_file(change.backup, change.before, mode=mode)
        _replace_file(target, change.after, mode=mode)
    except OSError as error:
        raise UnavailableError(f"{change.path} cannot be written: {error.strerror}.") from error


def _replace_file(target: Path, text: str, *, mode: int) -> None:
    """Write a temporary file and rename it, so that a crash leaves the old or the new text."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(target)
    finally:
        # It no longer exists after the rename.
        Path(name).unlink(missing_ok=True)


CLIENTS: Final[Mapping[str, Client]] = {
    client.name: client
    for client in (
        json_clients.CLAUDE_CODE,
        CodexConfig(),
        json_clients.CURSOR,
        json_clients.GEMINI,
        json_clients.OPENCODE,
        json_clients.VSCODE,
        json_clients.CLAUDE_DESKTOP,
        json_clients.WINDSURF,
        json_clients.ZED,
        json_clients.CLINE,
        json_clients.COPILOT,
        GooseConfig(),
        json_clients.QWEN,
    )
}


def connect(
    client: str, entry: ServerTarget, *, scope: str = "user", force: bool = False
) -> ConfigEdit:
    """Compute the change that adds this memory to a client; no change if it is there already.

    Args:
        client: a name in `CLIENTS`.
        entry: how the client reaches the memory.
        scope: `user` for all projects, or another scope of the client.
        force: replace an entry of the same name for another server.

    Raises:
        InvalidInputError: there is no such client or scope, or its file is not valid; the file is
            unchanged.
        RejectedError: an entry of the same name is for another server; code `connect_conflict`.
        UnavailableError: the file cannot be read.

    """
    selected, path = _file_of(client, scope)
    before = read(path)
    after = selected.add(before, entry, path=path, force=force)
    is_update = before is not None and selected.remove(before, path=path) != before
    edit = _edit(path, before, after=after, what=_SERVER, is_update=is_update)
    return replace(edit, has_backup=_has_original(client, edit))


def _has_original(client: str, edit: ConfigEdit) -> bool:
    """Return whether the backup is the text that a connected file had before."""
    if edit.before is None:
        return False
    with suppress(InvalidInputError, UnavailableError):
        removed, backup = _without_ours(client, edit.before, path=edit.path), read(edit.backup)
        if backup is not None and removed != edit.before:
            return was_before(client, backup, path=edit.path, removed=removed)
    return False


def was_before(client: str, text: str | None, *, path: Path, removed: str | None) -> bool:
    """Return whether a file had a text, or did not exist, before it was connected.

    Connecting the text and removing our entries again then gives what removing them from the
    present file gives, `removed`.
    """
    try:
        if text is not None and _without_ours(client, text, path=path) != text:
            return False
        return any(
            _without_ours(client, one, path=path) == removed
            for one in _connected(client, text, path=path)
        )
    except (InvalidInputError, RejectedError):
        return False


_ENTRY: Final = ServerEntry(command="brain", args=("mcp",))
_COMMAND: Final = HookCommand(brain=("brain",))


def _connected(client: str, text: str | None, *, path: Path) -> Sequence[str]:
    """Return a file's text with our server, with our hooks and with both, as far as it has them."""
    server, hooks = CLIENTS[client], HOOKS_FILES.get(client)
    texts = list[str]()
    if server.path("user") == path:
        texts.append(server.add(text, _ENTRY, path=path, force=False))
    if hooks is not None and hooks.files["user"]() == path:
        texts += [hooks.add(one, _COMMAND, path=path) for one in (text, *texts)]
    return texts


def _without_ours(client: str, text: str, *, path: Path) -> str:
    """Return the text of a file of the user without our entries."""
    server, hooks = CLIENTS[client], HOOKS_FILES.get(client)
    if server.path("user") == path:
        text = server.remove(text, path=path)
    if hooks is not None and hooks.files["user"]() == path:
        text = hooks.remove(text, path=path)
    return text


def disconnect(client: str, *, scope: str = "user") -> ConfigEdit:
    """Compute the change that removes this memory from a client; no change if it has no such entry.

    Raises:
        InvalidInputError: there is no such client or scope, or its file is not valid; the file is
            unchanged.
        UnavailableError: the file cannot be read.

    """
    selected, path = _file_of(client, scope)
    before = read(path)
    after = None if before is None else selected.remove(before, path=path)
    return _edit(path, before, after=after, what=_SERVER, is_removal=True)


_SERVER: Final = f"the server {SERVER}"


def _edit(
    path: Path,
    before: str | None,
    *,
    after: str | None,
    what: str,
    is_update: bool = False,
    is_removal: bool = False,
) -> ConfigEdit:
    """Return a change of one thing in a file, with its description."""
    verb = "Removed" if is_removal else "Updated" if is_update else "Added"
    place = "from" if is_removal else "in" if is_update else "to"
    steps = (f"{verb} {what} {place}",) if before != after else ()
    return ConfigEdit(path=path, before=before, after=after, steps=steps)


def with_hooks(
    change: ConfigEdit, client: str, *, scope: str, command: HookCommand
) -> list[ConfigEdit]:
    """Add our hooks to the change that connects a client.

    Raises:
        InvalidInputError: the client has no hooks in that scope, or its file is not valid; the file
            is unchanged.
        UnavailableError: the file cannot be read.

    """
    file = HOOKS_FILES.get(client)
    if file is None or scope not in file.files:
        raise InvalidInputError(
            f"There are no hooks for {client[:40]!r} in the scope {scope[:40]!r}.",
            hint=f"Choose one of {', '.join(HOOKS_FILES)}; each has the scope user.",
        )
    path = file.files[scope]()
    before = change.after if path == change.path else read(path)
    after = file.add(before, command, path=path)
    is_update = bool(before) and file.remove(before, path=path) != before
    hooks = _edit(path, before, after=after, what=_hooks(file), is_update=is_update)
    return _joined(change, replace(hooks, has_backup=_has_original(client, hooks)))


def without_hooks(change: ConfigEdit, client: str, *, scope: str) -> list[ConfigEdit]:
    """Remove our hooks, if there are any, in the change that disconnects a client.

    Raises:
        InvalidInputError: the file is not valid; it is unchanged.
        UnavailableError: the file cannot be read.

    """
    file = HOOKS_FILES.get(client)
    if file is None or scope not in file.files:
        return [change]
    path = file.files[scope]()
    before = change.after if path == change.path else read(path)
    after = before and file.remove(before, path=path)
    without = _joined(change, _edit(path, before, after=after, what=_hooks(file), is_removal=True))
    return without if client != _HAS_STATUS_LINE else [*map(_without_status, without)]


_HAS_STATUS_LINE: Final = "claude-code"
"""The client whose status line is a command in the file of its hooks."""


def add_status_line(
    changes: Sequence[ConfigEdit], client: str, *, scope: str, brain: Sequence[str], force: bool
) -> list[ConfigEdit]:
    """Add the status line to the changes that connect a client.

    Raises:
        InvalidInputError: the client has none in that scope, or its file is not valid.
        RejectedError: there is another one, and `force` is not set; nothing is changed.
        UnavailableError: the file cannot be read.

    """
    file = HOOKS_FILES.get(client)
    if client != _HAS_STATUS_LINE or file is None or scope not in file.files:
        raise InvalidInputError(
            f"{client[:40]} has no status line.", hint=f"{_HAS_STATUS_LINE} has one."
        )
    path = file.files[scope]()
    known = next((one for one in changes if one.path == path), None)
    before = known.after if known else read(path)
    after = with_status_line(before, brain, path=path, force=force)
    added = _edit(path, before, after=after, what="a status line")
    if known is None:
        return [*changes, added]
    return [*(one for one in changes if one is not known), *_joined(known, added)]


def _without_status(change: ConfigEdit) -> ConfigEdit:
    if change.path.name != "settings.json" or change.after is None:
        return change
    after = without_status_line(change.after, path=change.path)
    removal = _edit(change.path, change.after, after=after, what="the status line", is_removal=True)
    return _joined(change, removal)[0]


def _hooks(file: HooksFile) -> str:
    return f"{len(file.hooks)} hooks"


def _joined(first: ConfigEdit, second: ConfigEdit) -> list[ConfigEdit]:
    """Return both changes, as a single one if they are of the same file."""
    if first.path != second.path:
        return [first, second]
    return [replace(first, after=second.after, steps=(*first.steps, *second.steps))]


def _file_of(client: str, scope: str) -> tuple[Client, Path]:
    selected = CLIENTS.get(client)
    if selected is None:
        raise InvalidInputError(
            f"There is no client {client[:40]!r}.", hint=f"Choose one of {', '.join(CLIENTS)}."
        )
    if scope not in selected.scopes:
        raise InvalidInputError(
            f"{client} has no scope {scope[:40]!r}.",
            hint=f"Choose one of {', '.join(selected.scopes)}.",
        )
    return selected, selected.path(scope)
