"""Claude Code: `mcpServers` in `~/.claude.json` for all projects, in `.mcp.json` for one."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from commonbrain.interfaces.clients.entry import Reach, Remote
from commonbrain.interfaces.clients.json_file import JsonFile, here


def _user_file() -> Path:
    """Follow CLAUDE_CONFIG_DIR as Claude Code does."""
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(folder) if folder else Path.home()) / ".claude.json"


def _shape(entry: Reach) -> Mapping[str, object]:
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
    files={"user": _user_file, "project": here(".mcp.json")},
    servers="mcpServers",
    shape=_shape,
    has_comments=False,
)
