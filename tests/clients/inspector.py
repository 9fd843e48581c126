"""The Inspector, the protocol's own client, as a command line that tests can drive."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.clients.processes import Ended, Place

# The last protocol with a handshake, and the first without.
ERAS: Final = {"legacy": "2025-11-25", "modern": "2026-07-28"}
COMMAND_S_MAX: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspector:
    """Inspector's command line, in one era; each command is a new client."""

    place: Place
    program: tuple[Path, ...]
    server: tuple[Path | str, ...] = ()
    """The command of a server to start."""
    reach: tuple[str, ...] = ()
    """Options that name a server which runs, where none is to be started."""
    era: str = "modern"

    def run(self, method: str, *options: str) -> Ended:
        """Run one of its methods."""
        arguments = ("--cli", "--method", method, "--protocol-era", self.era, *self.reach, *options)
        started = ("--", *self.server) if self.server else ()
        command = (*self.program, *arguments, "--format", "json", "-q", *started)
        return self.place.run(command, timeout_s=COMMAND_S_MAX)

    def run_call(self, tool: str, arguments: dict[str, Any]) -> Ended:
        """Call a tool, whatever comes of it."""
        given = json.dumps(arguments)
        return self.run("tools/call", "--tool-name", tool, "--tool-args-json", given)

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Give the whole result of a call that succeeds, as JSON."""
        return json.dumps(_result(self.run_call(tool, arguments)), ensure_ascii=False)

    def initialize(self) -> dict[str, Any]:
        """Give what the server says of itself."""
        return _result(self.run("initialize"))

    def tools(self) -> set[str]:
        """Name the tools; fails where a schema is not one that every client can read."""
        return {tool["name"] for tool in _result(self.run("tools/list", "--strict"))["tools"]}


def _result(ended: Ended) -> dict[str, Any]:
    assert ended.status == 0, ended
    return json.loads(ended.out)["result"]
