"""Cursor: `mcpServers` in `mcp.json`, below `~/.cursor` or a project's `.cursor`."""

from collections.abc import Mapping
from typing import Final

from commonbrain.interfaces.clients.entry import Reach, Remote
from commonbrain.interfaces.clients.json_file import JsonFile, at_home, command_and_args, here


def _shape(entry: Reach) -> Mapping[str, object]:
    if isinstance(entry, Remote):
        reference = f"${{env:{entry.variable}}}"
        return {"url": entry.url, **entry.headers(reference)}
    return command_and_args(entry)


CURSOR: Final = JsonFile(
    name="cursor",
    files={"user": at_home(".cursor", "mcp.json"), "project": here(".cursor", "mcp.json")},
    servers="mcpServers",
    shape=_shape,
)
