"""What a client is told: what starts the server, or where one runs, under one name."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

from commonbrain.model.errors import InvalidInputError, RejectedError

SERVER: Final = "commonbrain"
"""The name of the entry in every client's file."""
KEY_VARIABLE: Final = "COMMONBRAIN_KEY"
"""Holds the credential for a server where no file does."""
_COMMANDS: Final = ("brain", "brain.exe")
_URL_OPTIONS: Final = ("command", "args", "url", "bearer_token_env_var")
"""The members of an entry that say what it reaches."""
_PORTS: Final = {"http": 80, "https": 443}
_Origin: TypeAlias = tuple[str, str | None, int | None]
"""Scheme, host and port: whoever may have a credential for one of them may have it for no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How a client starts the server; the environment holds settings, never secrets of others."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """Where a server runs, and how the client comes by its credential: never the credential."""

    url: str
    """Of MCP itself."""
    variable: str | None = None
    """The variable of the client's environment that holds the credential; None where none is."""

    def headers(self, reference: str) -> Mapping[str, object]:
        """Give the member `headers`, which refers to the variable as the client's files do."""
        return {"headers": {"Authorization": f"Bearer {reference}"}} if self.variable else {}


ServerTarget: TypeAlias = Entry | Remote
"""How a client gets at the memory: it starts a server, or one runs already."""


class Client(Protocol):
    """One program with one file that lists its servers; the texts go in and out whole."""

    @property
    def name(self) -> str:
        """What people call it on the command line."""
        ...

    @property
    def scopes(self) -> Sequence[str]:
        """The scopes of its configuration; each has a file."""
        ...

    def path(self, scope: str) -> Path:
        """Say where the file of a scope lies, whether it exists or not."""
        ...

    def add(self, text: str | None, entry: ServerTarget, *, path: Path, force: bool) -> str:
        """Give the file's text with the entry in it and everything else as it is.

        Raises:
            InvalidInputError: the text is not valid; the message names the file and the line.
            RejectedError: there is such an entry which reaches something else, and no force.

        """
        ...

    def remove(self, text: str, *, path: Path) -> str:
        """Give the file's text without the entry and everything else as it is.

        Raises:
            InvalidInputError: the text is not valid; the message names the file and the line.

        """
        ...


def merge_entry(
    existing: object,
    ours: Mapping[str, object],
    *,
    path: Path,
    force: bool,
    environment: str = "env",
) -> Mapping[str, object]:
    """Give the entry to write where there is one already: the known one itself if it will do.

    An entry that starts the same command or has the same URL will do, whatever the user has added
    to it. What is forced keeps the keys it does not replace, unless it replaces a server of another
    kind or at another place: what was given for one server is never sent to the next. The client's
    entries have their variables in the member `environment`.

    Raises:
        RejectedError: the known one reaches something else, and there is no force.

    """
    existing_parts = _mapping(existing)
    if _is_equivalent(existing_parts, ours, parts=(environment, "headers")):
        return existing_parts
    if not force:
        raise RejectedError(
            f"{path} has a server {SERVER} already, which is reached in another way.",
            code="connect_conflict",
            hint="Look at it, and use --force to replace it.",
        )
    preserved = _preserved_parts(existing_parts, ours, environment=environment)
    both = {**preserved, **ours}
    parts = {
        part: {**_mapping(preserved.get(part)), **_mapping(ours.get(part))}
        for part in (environment, "headers")
        if part in both
    }
    return {**both, **parts}


def _is_equivalent(
    have: Mapping[str, object], ours: Mapping[str, object], *, parts: tuple[str, ...]
) -> bool:
    """Say whether an entry reaches what ours does; it may say more."""
    whole = [key for key in _URL_OPTIONS if key in ours]
    return all(have.get(key, []) == ours[key] for key in whole) and all(
        _mapping(have.get(part)).get(name) == value
        for part in parts
        for name, value in _mapping(ours.get(part)).items()
    )


def _preserved_parts(
    have: Mapping[str, object], ours: Mapping[str, object], *, environment: str
) -> Mapping[str, object]:
    """Give what stays of an entry that is replaced: no credential of another server."""
    if ("command" in have) != ("command" in ours):
        return _mapping(None)
    place = _server_origin(ours)
    if place is None or place == _server_origin(have):
        return have
    if "command" not in ours:
        # Each client has members of its own by which a credential is sent.
        return _mapping(None)
    variables = _mapping(have.get(environment))
    foreign_variables = {
        name: value for name, value in variables.items() if name.upper() != KEY_VARIABLE
    }
    return {**have, environment: foreign_variables} if variables else have


def _server_origin(entry: Mapping[str, object]) -> _Origin | None:
    """Say at which server an entry calls, by itself or over a bridge; None where at none."""
    words = [*_words(entry.get("command")), *_words(entry.get("args"))]
    proxy_url = words[words.index("--url") + 1 :] if "--url" in words else []
    url = entry.get("url", next(iter(proxy_url), None))
    try:
        parts = urlsplit(str(url or ""))
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def _words(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list) else [value]


def invalid_file_error(path: Path, format_name: str, *, line: int | None) -> InvalidInputError:
    """Make the error for a file that cannot be understood and is therefore left alone."""
    where = f"{path}, line {line}," if line else str(path)
    return InvalidInputError(
        f"{where} is not valid {format_name}.", hint="Fix it first; it is unchanged."
    )


def brain_command(argv0: str | None = None, *, executable: str | None = None) -> tuple[str, ...]:
    """Find the absolute command line that starts this program, for others to use.

    First the running command, then the one in the interpreter's folder, then the one on the path,
    and in the end the interpreter with the module. Links are kept: they outlive what they point to.
    """
    python = executable or sys.executable
    running = Path(argv0 or sys.argv[0])
    for candidate in (running, *(Path(python).parent / name for name in _COMMANDS)):
        if candidate.name in _COMMANDS and shutil.which(candidate.absolute()):
            return (os.path.abspath(candidate),)  # noqa: PTH100 resolve would follow links
    executable_found = shutil.which("brain")
    if executable_found:
        return (os.path.abspath(executable_found),)  # noqa: PTH100 resolve would follow links
    return (python, "-m", "commonbrain")


def proxy_entry(url: str, *, key_file: Path | None = None) -> Entry:
    """Make the entry that starts a bridge to a server; it reads the credential by itself."""
    command, *arguments = brain_command()
    key_arguments = ("--key-file", str(key_file)) if key_file else ()
    return Entry(command=command, args=(*arguments, "mcp", "--url", url, *key_arguments))


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}
