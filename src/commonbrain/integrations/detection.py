"""Which clients are on this machine: `TRACES` has a row for each of `CLIENTS`."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.integrations import CLIENTS
from commonbrain.integrations.json_clients import in_home_folder, in_named_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """Signs that a client is on a machine, in addition to its file of servers."""

    folder: Callable[[], Path] | None = None
    """The folder that it creates; by default that of its file of servers."""
    commands: tuple[str, ...] = ()
    """Its programs, if no other program has such a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundClient:
    """A client on this machine."""

    name: str
    place: Path
    """Its file, its folder or its program."""


def _above(client: str, levels: int) -> Callable[[], Path]:
    return lambda: CLIENTS[client].path("user").parents[levels]


TRACES: Final[Mapping[str, Traces]] = {
    "claude-code": Traces(
        folder=in_named_folder("CLAUDE_CONFIG_DIR", ".claude"), commands=("claude",)
    ),
    "codex": Traces(commands=("codex",)),
    "cursor": Traces(commands=("cursor", "cursor-agent")),
    "gemini": Traces(commands=("gemini",)),
    "opencode": Traces(commands=("opencode",)),
    "vscode": Traces(commands=("code",)),
    "claude-desktop": Traces(),
    "windsurf": Traces(folder=in_home_folder(".codeium", "windsurf"), commands=("windsurf",)),
    "zed": Traces(commands=("zeditor",)),
    "cline": Traces(folder=_above("cline", 1)),
    # A program of AWS and one for migrations have the names `copilot` and `goose`.
    "copilot": Traces(),
    "goose": Traces(),
    "qwen": Traces(commands=("qwen",)),
}


def find_clients() -> Iterator[FoundClient]:
    """Return the clients on this machine, in the order of `CLIENTS`; no file is opened."""
    for name, traces in TRACES.items():
        file = CLIENTS[name].path("user")
        folder = traces.folder() if traces.folder else file.parent
        programs = (shutil.which(one) for one in traces.commands)
        paths = [path for path in (file, folder) if path.exists()]
        place = next(iter(paths), None) or next((Path(one) for one in programs if one), None)
        if place is not None:
            yield FoundClient(name=name, place=place)
