"""Gemini CLI: `mcpServers` in `settings.json`, below `~/.gemini` or a project's `.gemini`."""

from typing import Final

from commonbrain.interfaces.clients.json_file import JsonFile, at_home, command_and_args, here

GEMINI: Final = JsonFile(
    name="gemini",
    files={
        "user": at_home(".gemini", "settings.json"),
        "project": here(".gemini", "settings.json"),
    },
    servers="mcpServers",
    shape=command_and_args,
)
