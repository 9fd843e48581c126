"""Claude Code: `mcpServers` in `~/.claude.json` for all projects, in `.mcp.json` for one."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from commonbrain.domain.errors import Invalid
from commonbrain.interfaces.clients.entry import SERVER, Entry, merged, not_valid
from commonbrain.interfaces.clients.json_text import JsonObject, read_object

_SERVERS = "mcpServers"


@dataclass(frozen=True, slots=True)
class ClaudeCode:
    """Changes the JSON files of Claude Code in place."""

    name: str = "claude-code"
    scopes: tuple[str, ...] = ("user", "project")

    def path(self, scope: str) -> Path:
        """Follow CLAUDE_CONFIG_DIR as Claude Code does; a project's file lies where we are."""
        if scope == "project":
            return Path.cwd() / ".mcp.json"
        folder = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(folder) if folder else Path.home()) / ".claude.json"

    def add(self, text: str | None, entry: Entry, *, path: Path, force: bool) -> str:
        """Put the entry last among the servers, or replace it where it stands."""
        ours = _shown(entry)
        if text is None or not text.strip():
            return json.dumps({_SERVERS: {SERVER: ours}}, ensure_ascii=False, indent=2) + "\n"
        whole = _read(text, path)
        servers = whole.find(_SERVERS)
        if servers is None:
            return whole.with_member(_SERVERS, {SERVER: ours})
        listed = _servers(whole, path)
        known = listed.find(SERVER)
        if known is None:
            return listed.with_member(SERVER, ours)
        value = merged(known.value, ours, path=path, force=force)
        return text if value == known.value else listed.with_value(known, value)

    def remove(self, text: str, *, path: Path) -> str:
        """Take the entry out, and leave the list of servers even if it is empty then."""
        if not text.strip():
            return text
        whole = _read(text, path)
        if whole.find(_SERVERS) is None:
            return text
        listed = _servers(whole, path)
        known = listed.find(SERVER)
        return listed.without(known) if known else text


def _shown(entry: Entry) -> Mapping[str, object]:
    return {
        "type": "stdio",
        "command": entry.command,
        "args": list(entry.args),
        "env": dict(entry.env),
    }


def _read(text: str, path: Path) -> JsonObject:
    try:
        json.loads(text)
        return read_object(text)
    except json.JSONDecodeError as error:
        raise not_valid(path, "JSON", line=error.lineno) from error
    except ValueError as error:
        raise Invalid(
            f"{path} does not hold a JSON object.", hint="It was left as it is."
        ) from error


def _servers(whole: JsonObject, path: Path) -> JsonObject:
    servers = whole.find(_SERVERS)
    if servers is None or not isinstance(servers.value, dict):
        raise Invalid(f"{_SERVERS} in {path} is not an object.", hint="It was left as it is.")
    return whole.object_at(servers)
