"""Cursor: `mcpServers` in `mcp.json`, below `~/.cursor` or a project's `.cursor`."""

from typing import Final

from commonbrain.interfaces.clients.json_file import JsonFile, at_home, command_and_args, here

CURSOR: Final = JsonFile(
    name="cursor",
    files={"user": at_home(".cursor", "mcp.json"), "project": here(".cursor", "mcp.json")},
    servers="mcpServers",
    shape=command_and_args,
)
