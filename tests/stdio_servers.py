"""Servers on stdin and stdout, started as clients start them."""

import json
import select
import signal
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from commonbrain.storage.sqlite.driver import driver
from tests.processes import AS_AGENT, TIMEOUT_S, clean_environment, command


@dataclass(slots=True)
class Server:
    """A server process at the other end of two pipes, with every message that it sent."""

    process: subprocess.Popen[bytes]
    store: Path
    received: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _number: int = 0

    def request(self, method: str, params: dict[str, Any]) -> int:
        """Send a request; give its number."""
        self._number += 1
        self._send({"method": method, "params": params, "id": self._number})
        return self._number

    def notify(self, method: str) -> None:
        """Send a message that has no reply."""
        self._send({"method": method, "params": {}})

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def request_call(self, tool: str, **arguments: Any) -> int:  # noqa: ANN401 of any tool
        """Send a call of a tool; give its number."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def result_of(self, number: int) -> dict[str, Any]:
        """Give the result of a request; wait for it."""
        while True:
            for message in self.received:
                if message.get("id") == number:
                    return message["result"]
            self._receive()

    def answer_to(self, line: bytes) -> dict[str, Any]:
        """Send a line as it is, or none; give the next message."""
        assert self.process.stdin is not None
        if line:
            self.process.stdin.write(line + b"\n")
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], TIMEOUT_S)
        assert readable, "The server sends nothing."
        line = self.process.stdout.readline()
        assert line, "The server has closed the connection."
        self.received.append(json.loads(line))
        return self.received[-1]

    def shake_hands(self) -> dict[str, Any]:
        """Open a session in the handshake era."""
        client = {"name": "raw", "version": "1"}
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        result = self.result_of(self.request("initialize", start))
        self.notify("notifications/initialized")
        return result

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 of any tool
        """Call a tool; give its reply."""
        return self.result_of(self.request_call(tool, **arguments))["structuredContent"]

    def leave(self) -> tuple[int, bytes, bytes]:
        """Close the connection; give the exit code, the rest of stdout, and stderr."""
        rest, complaints = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, rest, complaints

    def end_by(self, *signals: signal.Signals) -> tuple[int, bytes, bytes]:
        """Send signals while the connection is open, and wait for the end; give what `leave` does.

        Without a signal the connection is closed.
        """
        for one in signals:
            self.process.send_signal(one)
        if signals:
            self.process.wait(TIMEOUT_S)
        return self.leave()

    def stop_between_writes(self) -> None:
        """Stop the process while it does not hold the lock of writers, which it would keep."""
        until = monotonic() + TIMEOUT_S
        self.process.send_signal(signal.SIGSTOP)
        while _is_locked(self.store):
            assert monotonic() < until
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGSTOP)


def _is_locked(store: Path) -> bool:
    with closing(driver().connect(str(store), isolation_level=None, timeout=1)) as writer:
        try:
            writer.execute("BEGIN IMMEDIATE")
        except driver().OperationalError:
            return True
        writer.execute("ROLLBACK")
    return False


@contextmanager
def locked(store: Path) -> Generator[None]:
    """Hold the lock of writers, as one that does not come to an end."""
    with closing(driver().connect(str(store), isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        yield
        writer.execute("ROLLBACK")


def socket_folder(store: Path) -> Path:
    """Give the folder of the store's sockets."""
    return store.with_name(f".{store.name}.local")


@contextmanager
def served(
    store: Path,
    *options: str,
    tenant: str | None = None,
    folder: Path | str | None = None,
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
        env=clean_environment(**(AS_AGENT | settings)),
        cwd=folder,
    ) as process:
        try:
            yield Server(process, store)
        finally:
            process.kill()
