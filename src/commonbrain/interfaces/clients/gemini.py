"""Gemini CLI: `mcpServers` in `settings.json`, below `~/.gemini` or a project's `.gemini`."""

from collections.abc import Mapping
from typing import Final

from commonbrain.interfaces.clients.entry import Reach, Remote
from commonbrain.interfaces.clients.json_file import JsonFile, at_home, command_and_args, here


def _shape(entry: Reach) -> Mapping[str, object]:
    if isinstance(entry, Remote):
        reference = f"${{{entry.variable}}}"
        return {"type": "http", "url": entry.url, **entry.headers(reference)}
    return command_and_args(entry)


GEMINI: Final = JsonFile(
    name="gemini",
    files={
        "user": at_home(".gemini", "settings.json"),
        "project": here(".gemini", "settings.json"),
    },
    servers="mcpServers",
    shape=_shape,
)
