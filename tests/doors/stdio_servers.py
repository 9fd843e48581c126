"""Servers on stdin and stdout, started as clients start them."""

import json
import select
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import PATIENCE_S, clean_environment, command


@dataclass(slots=True)
class Server:
    """A server process at the other end of two pipes, with every line it has said."""

    process: subprocess.Popen[bytes]
    said: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def tell(self, method: str, params: dict[str, Any], *, number: int | None = None) -> None:
        """Send one message; without a number it is a notification."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        message |= {} if number is None else {"id": number}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def answer_to(self, number: int) -> dict[str, Any]:
        """Wait for the answer with a number."""
        assert self.process.stdout is not None
        while True:
            readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
            assert readable, "The server says nothing."
            line = self.process.stdout.readline()
            assert line, "The server has hung up."
            self.said.append(json.loads(line))
            if self.said[-1].get("id") == number:
                return self.said[-1]["result"]

    def shake_hands(self) -> dict[str, Any]:
        """Open a session in the handshake era."""
        client = {"name": "raw", "version": "1"}
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self.tell("initialize", start, number=1)
        answer = self.answer_to(1)
        self.tell("notifications/initialized", {})
        return answer

    def call(self, tool: str, arguments: dict[str, Any], *, number: int) -> dict[str, Any]:
        """Call a tool and wait for what it gives."""
        self.tell("tools/call", {"name": tool, "arguments": arguments}, number=number)
        return self.answer_to(number)["structuredContent"]

    def leave(self) -> tuple[int, bytes, bytes]:
        """Hang up; give its exit code and the rest of what it said."""
        rest, complaints = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, rest, complaints


@contextmanager
def served(
    store: Path,
    *options: str,
    tenant: str | None = None,
    folder: Path | None = None,
    **settings: str,
) -> Generator[Server]:
    """Start a server, with options of Python and in a folder, and see to it that it ends."""
    line = command(store, *(["--tenant", tenant] if tenant else []), "mcp")
    with subprocess.Popen(
        [line[0], *options, *line[1:]],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(**settings),
        cwd=folder,
    ) as process:
        try:
            yield Server(process)
        finally:
            process.kill()
