"""Clients that list their MCP servers in a JSON file."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from platformdirs import user_config_path

from commonbrain.integrations.entry import (
    SERVER,
    Remote,
    ServerEntry,
    ServerTarget,
    invalid_file_error,
    merge_entry,
    proxy_entry,
)
from commonbrain.integrations.json_text import JsonObject, read_object, strip_comments
from commonbrain.model.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonFile:
    """Changes the JSON file of one client in place."""

    name: str
    files: Mapping[str, Callable[[], Path]]
    """The file of each scope."""
    servers: str
    """The field that lists the servers by name."""
    shape: Callable[[ServerTarget], Mapping[str, object]]
    """Formats an entry."""
    environment: str = "env"
    """The field of an entry with its environment variables."""
    has_comments: bool = True
    """Whether the client allows comments and trailing commas."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of its configuration; each has a file."""
        return tuple(self.files)

    def path(self, scope: str) -> Path:
        """Return the path of a scope's file, which need not exist."""
        return self.files[scope]()

    def add(self, text: str | None, entry: ServerTarget, *, path: Path, force: bool) -> str:
        """Add the entry last among the servers, or replace it in place."""
        ours = self.shape(entry)
        if text is None or not text.strip():
            return json.dumps({self.servers: {SERVER: ours}}, ensure_ascii=False, indent=2) + "\n"
        whole = parse_settings(text, path, has_comments=self.has_comments)
        if whole.find(self.servers) is None:
            return whole.with_member(self.servers, {SERVER: ours})
        listed = object_member(whole, self.servers, path=path)
        existing = listed.find(SERVER)
        if existing is None:
            return listed.with_member(SERVER, ours)
        value = merge_entry(
            existing.value, ours, path=path, force=force, environment=self.environment
        )
        return text if value == existing.value else listed.with_value(existing, value)

    def remove(self, text: str, *, path: Path) -> str:
        """Remove the entry, and keep the list of servers even if it is then empty."""
        if not text.strip():
            return text
        whole = parse_settings(text, path, has_comments=self.has_comments)
        if whole.find(self.servers) is None:
            return text
        listed = object_member(whole, self.servers, path=path)
        existing = listed.find(SERVER)
        return listed.without(existing) if existing else text


def parse_settings(text: str, path: Path, *, has_comments: bool) -> JsonObject:
    """Parse the text of a client's JSON file.

    Raises:
        InvalidInputError: it is not JSON, or not an object; the file is unchanged.
    """
    try:
        json.loads(strip_comments(text) if has_comments else text)
        return read_object(text)
    except json.JSONDecodeError as error:
        raise invalid_file_error(path, "JSON", line=error.lineno) from error
    except ValueError as error:
        raise InvalidInputError(
            f"{path} does not hold a JSON object.", hint="The file is unchanged."
        ) from error


def object_member(settings: JsonObject, name: str, *, path: Path) -> JsonObject:
    """Return an object that is a field of the settings.

    Raises:
        InvalidInputError: there is no such field, or it is not an object; the file is unchanged.

    """
    member = settings.find(name)
    if member is None or not isinstance(member.value, dict):
        raise InvalidInputError(
            f"{name} in {path} is not an object.", hint="The file is unchanged."
        )
    return settings.object_at(member)


def command_and_args(entry: ServerEntry) -> Mapping[str, object]:
    """Format an entry as most clients do, with `env` only if it is not empty."""
    shown: dict[str, object] = {"command": entry.command, "args": list(entry.args)}
    return {**shown, "env": dict(entry.env)} if entry.env else shown


def in_current_folder(*parts: str) -> Callable[[], Path]:
    """Make a function that returns a path below the current folder."""
    return lambda: Path.cwd().joinpath(*parts)


def in_home_folder(*parts: str) -> Callable[[], Path]:
    """Make a function that returns a path below the user's home."""
    return lambda: Path.home().joinpath(*parts)


def in_named_folder(variable: str, usual: str, *parts: str) -> Callable[[], Path]:
    """Make a function that returns a path below a folder, which a variable may name.

    Otherwise the folder is `usual`, below the user's home.
    """
    return lambda: Path(os.environ.get(variable) or Path.home() / usual).joinpath(*parts)


def _claude_shape(entry: ServerTarget) -> Mapping[str, object]:
    if isinstance(entry, Remote):
        reference = f"${{{entry.variable}}}"
        return {"type": "http", "url": entry.url, **entry.headers(reference)}
    return {
        "type": "stdio",
        "command": entry.command,
        "args": list(entry.args),
        "env": dict(entry.env),
    }


CLAUDE_CODE: Final = JsonFile(
    name="claude-code",
    files={
        "user": in_named_folder("CLAUDE_CONFIG_DIR", "", ".claude.json"),
        "project": in_current_folder(".mcp.json"),
    },
    servers="mcpServers",
    shape=_claude_shape,
    has_comments=False,
)


def _cursor_shape(entry: ServerTarget) -> Mapping[str, object]:
    if isinstance(entry, Remote):
        reference = f"${{env:{entry.variable}}}"
        return {"url": entry.url, **entry.headers(reference)}
    return command_and_args(entry)


CURSOR: Final = JsonFile(
    name="cursor",
    files={
        "user": in_home_folder(".cursor", "mcp.json"),
        "project": in_current_folder(".cursor", "mcp.json"),
    },
    servers="mcpServers",
    shape=_cursor_shape,
)


def _gemini_shape(entry: ServerTarget) -> Mapping[str, object]:
    return _claude_shape(entry) if isinstance(entry, Remote) else command_and_args(entry)


GEMINI: Final = JsonFile(
    name="gemini",
    files={
        "user": in_home_folder(".gemini", "settings.json"),
        "project": in_current_folder(".gemini", "settings.json"),
    },
    servers="mcpServers",
    shape=_gemini_shape,
)


QWEN_FILE: Final = in_named_folder("QWEN_HOME", ".qwen", "settings.json")


def _qwen_shape(entry: ServerTarget) -> Mapping[str, object]:
    if isinstance(entry, Remote):
        # Its `url` is for servers of the older transport (`@qwen-code/qwen-code` 0.24.4).
        return {"httpUrl": entry.url, **entry.headers(f"${{{entry.variable}}}")}
    return command_and_args(entry)


QWEN: Final = JsonFile(
    name="qwen",
    files={"user": QWEN_FILE, "project": in_current_folder(".qwen", "settings.json")},
    servers="mcpServers",
    shape=_qwen_shape,
)


def _opencode_user_file() -> Path:
    """Return opencode's file, with XDG_CONFIG_HOME on every system."""
    return _in(in_named_folder("XDG_CONFIG_HOME", ".config", "opencode")())


def _project_file() -> Path:
    return _in(Path.cwd())


def _in(folder: Path) -> Path:
    """Return the existing file; if there are two, the one that opencode reads last."""
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.exists() else folder / "opencode.json"


def _opencode_shape(entry: ServerTarget) -> Mapping[str, object]:
    if isinstance(entry, Remote):
        headers = entry.headers(f"{{env:{entry.variable}}}")
        # If the server rejects the credential, opencode would otherwise start an OAuth login.
        return {"type": "remote", "url": entry.url, "enabled": True, "oauth": False, **headers}
    shown: dict[str, object] = {
        "type": "local",
        "command": [entry.command, *entry.args],
        "enabled": True,
    }
    return {**shown, "environment": dict(entry.env)} if entry.env else shown


OPENCODE: Final = JsonFile(
    name="opencode",
    files={"user": _opencode_user_file, "project": _project_file},
    servers="mcp",
    shape=_opencode_shape,
    environment="environment",
)


def _vscode_user_file() -> Path:
    """Return the file of the default profile, in VS Code's folder on this system."""
    return user_config_path("Code", appauthor=False, roaming=True) / "User" / "mcp.json"


def _vscode_shape(entry: ServerTarget) -> Mapping[str, object]:
    if isinstance(entry, Remote):
        if entry.variable is None:
            return {"type": "http", "url": entry.url}
        # VS Code's headers refer to its own inputs, not to variables; the proxy reads the variable.
        entry = proxy_entry(entry.url)
    return {"type": "stdio", **command_and_args(entry)}


VSCODE: Final = JsonFile(
    name="vscode",
    files={"user": _vscode_user_file, "project": in_current_folder(".vscode", "mcp.json")},
    servers="servers",
    shape=_vscode_shape,
)


def _as_command(entry: ServerTarget) -> ServerEntry:
    """Return the command for a client whose file refers to no variable: the proxy reads the key."""
    return proxy_entry(entry.url) if isinstance(entry, Remote) else entry


def _plain_shape(entry: ServerTarget) -> Mapping[str, object]:
    return command_and_args(_as_command(entry))


def _claude_desktop_file() -> Path:
    """Return the file of https://modelcontextprotocol.io/quickstart/user, also on Linux."""
    folder = user_config_path("Claude", appauthor=False, roaming=True)
    return folder / "claude_desktop_config.json"


CLAUDE_DESKTOP: Final = JsonFile(
    name="claude-desktop",
    files={"user": _claude_desktop_file},
    servers="mcpServers",
    shape=_plain_shape,
    has_comments=False,
)
WINDSURF: Final = JsonFile(
    name="windsurf",
    # https://docs.windsurf.com/windsurf/cascade/mcp
    files={"user": in_home_folder(".codeium", "windsurf", "mcp_config.json")},
    servers="mcpServers",
    shape=_plain_shape,
    has_comments=False,
)


def _zed_file() -> Path:
    """Return the file of https://zed.dev/docs/configuring-zed, which macOS has in `.config` too."""
    if sys.platform == "win32":
        return user_config_path("Zed", appauthor=False, roaming=True) / "settings.json"
    if sys.platform == "linux":
        return in_named_folder("XDG_CONFIG_HOME", ".config", "zed", "settings.json")()
    return Path.home() / ".config" / "zed" / "settings.json"


def _zed_shape(entry: ServerTarget) -> Mapping[str, object]:
    # Versions before 0.197 need `source` (https://zed.dev/docs/ai/mcp).
    return {"source": "custom", **_plain_shape(entry)}


ZED: Final = JsonFile(
    name="zed",
    files={"user": _zed_file, "project": in_current_folder(".zed", "settings.json")},
    servers="context_servers",
    shape=_zed_shape,
)


def _cline_file() -> Path:
    """Return the file of the extension for VS Code (https://docs.cline.bot/mcp)."""
    folder = _vscode_user_file().parent / "globalStorage" / "saoudrizwan.claude-dev"
    return folder / "settings" / "cline_mcp_settings.json"


def _cline_shape(entry: ServerTarget) -> Mapping[str, object]:
    return {**_plain_shape(entry), "disabled": False}


CLINE: Final = JsonFile(
    name="cline",
    files={"user": _cline_file},
    servers="mcpServers",
    shape=_cline_shape,
    has_comments=False,
)


def _copilot_shape(entry: ServerTarget) -> Mapping[str, object]:
    return {"type": "local", **_plain_shape(entry), "tools": ["*"]}


COPILOT: Final = JsonFile(
    name="copilot",
    # See `copilot help environment`.
    files={"user": in_named_folder("COPILOT_HOME", ".copilot", "mcp-config.json")},
    servers="mcpServers",
    shape=_copilot_shape,
    has_comments=False,
)
