"""A client's entry for this memory: a command that starts the server, or a server's URL."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path
from typing import Final, Protocol, TypeAlias, cast
from urllib.parse import urlsplit

from commonbrain.model.errors import InvalidInputError, RejectedError, UnavailableError
from commonbrain.runtime.remote import KEY_VARIABLE

SERVER: Final = "commonbrain"
"""The name of the entry in every client's file."""
_COMMANDS: Final = ("brain", "brain.exe")
_URL_OPTIONS: Final = ("command", "args", "url", "httpUrl", "bearer_token_env_var")
"""The fields of an entry that identify its server."""
_PORTS: Final = {"http": 80, "https": 443}
_Origin: TypeAlias = tuple[str, str | None, int | None]
"""Scheme, host and port; a credential for one origin must not be sent to another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """The command with which a client starts the server; `env` contains settings, no secrets."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """The URL of a server, and the name of the variable with its credential."""

    url: str
    """The URL of its MCP endpoint."""
    variable: str | None = None
    """The client's environment variable with the credential; None for no credential."""

    def headers(self, reference: str) -> Mapping[str, object]:
        """Return the field `headers`, with a reference to the variable in the client's syntax."""
        return {"headers": {"Authorization": f"Bearer {reference}"}} if self.variable else {}


ServerTarget: TypeAlias = ServerEntry | Remote
"""A command that starts a server, or a running server."""


class Client(Protocol):
    """A client with one file that lists its MCP servers; methods convert the whole text."""

    @property
    def name(self) -> str:
        """The client's name on the command line."""
        ...

    @property
    def scopes(self) -> Sequence[str]:
        """The scopes of its configuration; each has a file."""
        ...

    def path(self, scope: str) -> Path:
        """Return the path of a scope's file, which need not exist."""
        ...

    def add(self, text: str | None, entry: ServerTarget, *, path: Path, force: bool) -> str:
        """Return the text with the entry added and everything else unchanged.

        Raises:
            InvalidInputError: the text is not valid; the message names the file and the line.
            RejectedError: there is such an entry for another server, and `force` is not set.

        """
        ...

    def remove(self, text: str, *, path: Path) -> str:
        """Return the text without the entry and with everything else unchanged.

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
    """Return the entry to write if there is one already: the existing one if it is equivalent.

    An entry with the same command or URL is equivalent, whatever the user has added to it. With
    `force`, fields that are not replaced stay, unless the old entry is for another kind of server
    or another origin: credentials of one server must not be sent to another. `environment` is the
    field with the client's variables.

    Raises:
        RejectedError: the existing entry is for another server, and `force` is not set.

    """
    existing_parts = _mapping(existing)
    if _is_equivalent(existing_parts, ours, parts=(environment, "headers")):
        return existing_parts
    if not force:
        raise RejectedError(
            f"{path} already has an entry {SERVER} for another server.",
            code="connect_conflict",
            hint="Check it, and use --force to replace it.",
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
    """Return whether an entry reaches the same server as ours; it may have more fields."""
    whole = [key for key in _URL_OPTIONS if key in ours]
    return all(have.get(key, []) == ours[key] for key in whole) and all(
        _mapping(have.get(part)).get(name) == value
        for part in parts
        for name, value in _mapping(ours.get(part)).items()
    )


def _preserved_parts(
    have: Mapping[str, object], ours: Mapping[str, object], *, environment: str
) -> Mapping[str, object]:
    """Return the fields that stay when an entry is replaced: no credential of another server."""
    if ("command" in have) != ("command" in ours):
        return _mapping(None)
    place = _server_origin(ours)
    if place is None or place == _server_origin(have):
        return have
    if "command" not in ours:
        # Each client has its own fields for credentials.
        return _mapping(None)
    variables = _mapping(have.get(environment))
    foreign_variables = {
        name: value for name, value in variables.items() if name.upper() != KEY_VARIABLE
    }
    return {**have, environment: foreign_variables} if variables else have


def _server_origin(entry: Mapping[str, object]) -> _Origin | None:
    """Return the origin of an entry's server, also behind a proxy; None if it has no URL."""
    words = [*_words(entry.get("command")), *_words(entry.get("args"))]
    proxy_url = words[words.index("--url") + 1 :] if "--url" in words else []
    url = entry.get("url") or entry.get("httpUrl") or next(iter(proxy_url), None)
    try:
        parts = urlsplit(str(url or ""))
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname else None


def _words(value: object) -> list[object]:
    return list(cast("list[object]", value)) if isinstance(value, list) else [value]


def invalid_file_error(path: Path, format_name: str, *, line: int | None) -> InvalidInputError:
    """Make the error for a file that is not valid and therefore unchanged."""
    where = f"{path}, line {line}," if line else str(path)
    return InvalidInputError(
        f"{where} is not valid {format_name}.", hint="Fix it first; it is unchanged."
    )


def brain_command(argv0: str | None = None, *, executable: str | None = None) -> tuple[str, ...]:
    """Return the absolute command line that starts this program, for other programs.

    It is the running command, else the one in the interpreter's folder, else the one on the path,
    else the interpreter with the module. Links are not resolved: they survive updates of their
    target. Under uvx it is the command that `install_tool` installs, because caches are emptied.

    Raises:
        UnavailableError: uvx runs this program, and uv does not say where it installs tools.

    """
    installed = tool_command()
    if installed is not None:
        return (str(installed),)
    python = executable or sys.executable
    running = Path(argv0 or sys.argv[0])
    for candidate in (running, *(Path(python).parent / name for name in _COMMANDS)):
        if candidate.name in _COMMANDS and shutil.which(candidate.absolute()):
            return (os.path.abspath(candidate),)  # noqa: PTH100 resolve would follow links
    executable_found = shutil.which("brain")
    if executable_found:
        return (os.path.abspath(executable_found),)  # noqa: PTH100 resolve would follow links
    return (python, "-m", "commonbrain")


def proxy_entry(url: str, *, key_file: Path | None = None) -> ServerEntry:
    """Make the entry that starts a proxy to a server; the proxy reads the credential itself."""
    command, *arguments = brain_command()
    key_arguments = ("--key-file", str(key_file)) if key_file else ()
    return ServerEntry(command=command, args=(*arguments, "mcp", "--url", url, *key_arguments))


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


_PACKAGE: Final = "commonbrain"
_INSTALL_S_MAX: Final = 300
"""uvx has just put all packages into uv's cache, so that an installation takes a second."""


def uv_of_uvx(environment: Mapping[str, str], *, prefix: Path) -> str | None:
    """Return the uv that runs the Python environment `prefix` from its cache; None if none does.

    Caches are marked by a file (https://bford.info/cachedir/). uv marks an ordinary environment,
    too, but in its own folder.
    """
    is_cached = any((folder / "CACHEDIR.TAG").is_file() for folder in prefix.parents)
    return environment.get("UV") if is_cached else None


def tool_command() -> Path | None:
    """Return the path of `brain` as a tool of uv, installed or not; None unless uvx runs this.

    uvx runs the installed tool, if there is one, by another path than the link that users run.

    Raises:
        UnavailableError: uv failed.

    """
    prefix = Path(sys.prefix)
    is_tool = (prefix / "uv-receipt.toml").is_file()
    uv = os.environ.get("UV") if is_tool else uv_of_uvx(os.environ, prefix=prefix)
    if uv is None:
        return None
    folder = Path(_run(uv, "tool", "dir", "--bin").strip())
    return folder / ("brain.exe" if sys.platform == "win32" else "brain")


def install_tool() -> str | None:
    """Install the running version as a tool of uv; return its requirement, None without uvx.

    Raises:
        UnavailableError: uv failed, for example because another program has the same name.

    """
    uv = uv_of_uvx(os.environ, prefix=Path(sys.prefix))
    if uv is None:
        return None
    own = distribution(_PACKAGE)
    required = requirement(own.version, direct_url=own.read_text("direct_url.json"))
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    _run(uv, "tool", "install", "--quiet", "--python", python, required)
    return required


def requirement(version: str, *, direct_url: str | None) -> str:
    """Return the requirement of a version, or of the URL from which it was installed.

    `direct_url` is the text of the file of that name in an installed package, None if it came from
    an index (https://packaging.python.org/en/latest/specifications/direct-url/).
    """
    if direct_url is None:
        return f"{_PACKAGE}=={version}"
    origin = json.loads(direct_url)
    control = origin.get("vcs_info")
    url = f"{control['vcs']}+{origin['url']}@{control['commit_id']}" if control else origin["url"]
    folder = origin.get("subdirectory")
    return f"{_PACKAGE} @ {url}" + (f"#subdirectory={folder}" if folder else "")


def _run(uv: str, *words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 uv runs this program
            [uv, *words],
            capture_output=True,
            encoding="utf-8",
            timeout=_INSTALL_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"uv {' '.join(words)} failed: {error}") from error
    if done.returncode:
        raise UnavailableError(
            f"uv {' '.join(words)} failed: {done.stderr.strip()}",
            hint=f"Run `uv tool install {_PACKAGE}`, then `brain connect` again.",
        )
    return done.stdout
