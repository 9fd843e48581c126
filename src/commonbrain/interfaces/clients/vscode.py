"""VS Code: `servers` in `mcp.json`, among the user's files or in a project's `.vscode`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from platformdirs import user_config_path

from commonbrain.interfaces.clients.entry import Reach, Remote, bridge
from commonbrain.interfaces.clients.json_file import JsonFile, command_and_args, here


def _user_file() -> Path:
    """Find the files of the default profile, which VS Code keeps where its system wants them."""
    return user_config_path("Code", appauthor=False, roaming=True) / "User" / "mcp.json"


def _shape(entry: Reach) -> Mapping[str, object]:
    if isinstance(entry, Remote):
        if entry.variable is None:
            return {"type": "http", "url": entry.url}
        # Its headers refer to what it asks for, not to variables; the bridge reads those.
        entry = bridge(entry.url)
    return {"type": "stdio", **command_and_args(entry)}


VSCODE: Final = JsonFile(
    name="vscode",
    files={"user": _user_file, "project": here(".vscode", "mcp.json")},
    servers="servers",
    shape=_shape,
)
