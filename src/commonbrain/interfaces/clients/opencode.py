"""opencode: `mcp` in `opencode.jsonc` or `opencode.json`, the user's or a project's."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from commonbrain.interfaces.clients.entry import Reach, Remote
from commonbrain.interfaces.clients.json_file import JsonFile


def _user_file() -> Path:
    """Follow XDG_CONFIG_HOME as opencode does on every system."""
    folder = os.environ.get("XDG_CONFIG_HOME")
    return _in((Path(folder) if folder else Path.home() / ".config") / "opencode")


def _project_file() -> Path:
    return _in(Path.cwd())


def _in(folder: Path) -> Path:
    """Take the file that is there; where there are both, opencode reads this one last."""
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.exists() else folder / "opencode.json"


def _shape(entry: Reach) -> Mapping[str, object]:
    if isinstance(entry, Remote):
        headers = entry.headers(f"{{env:{entry.variable}}}")
        # It would look for a login of its own where a credential is refused.
        return {"type": "remote", "url": entry.url, "enabled": True, "oauth": False, **headers}
    shown: dict[str, object] = {
        "type": "local",
        "command": [entry.command, *entry.args],
        "enabled": True,
    }
    return {**shown, "environment": dict(entry.env)} if entry.env else shown


OPENCODE: Final = JsonFile(
    name="opencode",
    files={"user": _user_file, "project": _project_file},
    servers="mcp",
    shape=_shape,
    environment="environment",
)
