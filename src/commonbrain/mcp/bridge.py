"""`brain mcp` on a store: the agents of one user on one machine share a server.

The first process serves the store; later ones forward their client's messages to it. When it ends,
however it ends, one of them takes its place and the others go on with that one: requests without an
answer are sent again. Imports must be fast and few, because each agent pays for them.
"""

import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, NoReturn

from commonbrain.mcp.replay import LINE_BYTES_MAX, LineSplitter, ReplayBuffer, describe_too_long
from commonbrain.model.errors import CommonbrainError
from commonbrain.runtime.callers import (
    CommandLine,
    describe_process,
    may_share,
    parse_command_line,
    store_socket,
)
from commonbrain.runtime.local_socket import (
    JsonObject,
    LocalServer,
    StreamRefusedError,
    is_responsive,
    open_stream,
)

if TYPE_CHECKING:
    from commonbrain.mcp.shared_server import SharedServer

STREAM: Final = "mcp"
"""The name of the connections that serve one client each."""
_FAILURES_MAX: Final = 3
"""After this many servers in a row that ended without an answer, a process serves itself."""
_BUFFER_BYTES_MAX: Final = 1024 * 1024
"""While this much waits for one side, nothing is read from the other."""
_READ_BYTES: Final = 65_536
_GREETING_S: Final = 2.0
"""A server that is being loaded answers this soon even on a busy machine."""
_JOIN_S: Final = 5.0
"""If no server answers in this time though one holds the lock, the process serves itself."""
_REJOIN_S: Final = 0.5
"""The same after a server that was probed without an answer; one that took its place greets."""
_RETRY_S: Final = 0.02
_PROBE_S: Final = 1.0
"""A server that has not answered for this long is probed; the time doubles with each probe."""
_PROBE_S_MAX: Final = 60.0
_ALIVE_S: Final = 3.0
"""A server that does not greet in this time has been stopped."""
PROFILES: Final = frozenset({"", "lite", "core", "operator"})
"""Valid profiles; an invalid one is reported by the settings."""


def serve_command(words: Sequence[str]) -> None:
    """Run a command line that starts an embedded server; return if the command line has to."""
    options = parse_command_line(words, os.environ)
    if options is not None and options.words == ("mcp",):
        with suppress(CommonbrainError):
            # The command line meets the error again, and reports it.
            serve_shared(options)


def serve_shared(options: CommandLine) -> None:
    """Serve a client on stdin and stdout until it ends, and exit; return if it cannot be shared.

    Raises:
        CommonbrainError: a setting is invalid; nothing was read.

    """
    is_valid = os.environ.get("COMMONBRAIN_MCP_PROFILE", "") in PROFILES
    path = store_socket(options.store, os.environ)
    if path is None or not is_valid or not may_share(os.environ):
        return
    Bridge(path=path, options=options).run()


@dataclass(slots=True, kw_only=True)
class Bridge:
    """Connects a client on stdin and stdout with the server of its store."""

    path: Path
    options: CommandLine
    replay: ReplayBuffer = field(default_factory=ReplayBuffer)
    _id: str = field(default_factory=lambda: os.urandom(8).hex())
    _local: LocalServer = field(init=False)
    """The socket, if this process serves the store."""
    _host: "SharedServer | None" = None
    _is_loaded: Event = field(default_factory=Event)
    _stdin: int = 0
    _stdout: int = 1
    _from_client: LineSplitter = field(default_factory=lambda: LineSplitter(LINE_BYTES_MAX))
    _to_client: bytearray = field(default_factory=bytearray)
    _to_server: bytearray = field(default_factory=bytearray)
    _has_left: bool = False
    """Whether the client has closed stdin."""
    _failures: int = 0
    _is_unresponsive: bool = False
    """Whether the last probe of the server got no answer."""
    _signals: socket.socket = field(init=False)
    """Readable after a signal."""

    def __post_init__(self) -> None:
        """Prepare the socket, without opening it."""
        self._local = LocalServer(self.path, streams={STREAM: self._serve_other})

    def run(self) -> NoReturn:
        """Forward messages until the client ends, and exit.

        Raises:
            CommonbrainError: a setting is invalid; nothing was read.

        """
        server = self._join()
        self._catch_signals()
        while not self._forward(server):
            if self._host is not None:
                # The server thread ended; its traceback is on stderr.
                os._exit(1)
            server = self._join_again()
        self._flush()
        self._leave()

    def _join_again(self) -> socket.socket:
        """Connect to the next server of the store, or become it."""
        if store_socket(self.options.store, os.environ) != self.path:
            # What is loaded and what would be loaded are not of one version.
            print("Commonbrain was upgraded; restart this client.", file=sys.stderr)  # noqa: T201
            os._exit(1)
        try:
            server = self._join()
        except CommonbrainError as error:
            print(f"{error.code}: {error}", file=sys.stderr)  # noqa: T201 nobody else reports it
            os._exit(1)
        if self._host is not None:
            # Hooks and other agents already rely on the store.
            self._host.warm()
        return server

    def _catch_signals(self) -> None:
        """End on a signal: at once if another process serves, else after closing the store.

        The handler may run anywhere, so the loop closes the store. The system may deliver a signal
        to any thread, so a socket wakes the loop.
        """
        self._signals, waker = socket.socketpair()
        waker.setblocking(False)  # noqa: FBT003 the library's way
        signal.set_wakeup_fd(waker.detach(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, _signal: int, _frame: object) -> None:
        if self._host is None:
            os._exit(0)

    def _leave(self) -> NoReturn:
        """Close and exit: acknowledged calls are committed."""
        if self._host is not None:
            self._host.close()
        os._exit(0)

    def _join(self) -> socket.socket:
        """Connect to the server of the store, or become it."""
        wait_s = _REJOIN_S if self._is_unresponsive else _JOIN_S
        until = monotonic() + wait_s
        while self._failures < _FAILURES_MAX and monotonic() < until:
            try:
                timeout_s = min(_GREETING_S, wait_s)
                server = open_stream(self.path, self._request(), timeout_s=timeout_s)
                if server is not None:
                    return server
                if self._local.start_if_free():
                    break
            except (StreamRefusedError, OSError):
                break
            sleep(_RETRY_S)
        return self._serve_own()

    def _request(self) -> JsonObject:
        return {
            "stream": STREAM,
            "id": self._id,
            **self.options.identity,
            **describe_process(),
            "profile": os.environ.get("COMMONBRAIN_MCP_PROFILE"),
            "last": self.replay.session,
        }

    def _serve_own(self) -> socket.socket:
        """Load a server into this process, and connect to it.

        Raises:
            CommonbrainError: a setting is invalid.

        """
        # It takes a second and a hundred megabytes.
        from commonbrain.mcp.shared_server import SharedServer  # noqa: PLC0415

        try:
            self._host = host = SharedServer(self.options.store, self._local)
        except CommonbrainError:
            self._local.close()
            raise
        self._divert_stdio()
        host.start()
        self._is_loaded.set()
        ours, theirs = socket.socketpair()
        arguments = (self._request(), theirs)
        Thread(target=host.serve, args=arguments, kwargs={"is_own": True}, daemon=True).start()
        return ours

    def _serve_other(self, request: JsonObject, stream: socket.socket) -> None:
        """Serve the client of another process, once the server is loaded."""
        self._is_loaded.wait()
        if self._host is not None:
            self._host.serve(request, stream)

    def _divert_stdio(self) -> None:
        """Keep stdin and stdout for the protocol, whatever libraries and children do."""
        self._stdin, self._stdout = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def _forward(self, server: socket.socket) -> bool:
        """Forward messages; return True when the client is done, False when the server is gone."""
        with server:
            server.setblocking(False)  # noqa: FBT003 the library's way
            frames, errors = self.replay.resume()
            self._to_server[:] = frames
            self._to_client += errors
            link = _Link(server)
            while not (self._is_done() or link.is_over):
                if self._has_left and not self._to_server:
                    link.end_sending()
                if not self._step(link):
                    return False
        self._failures = 0 if link.has_received else self._failures + 1
        is_answered = self.replay.is_over and link.has_ended and not link.has_broken
        return self._has_left and (is_answered or self._is_done())

    def _is_done(self) -> bool:
        """Return whether the client has left and has every answer."""
        is_waiting = self._to_server or self._to_client or self.replay.unanswered
        return self._has_left and not is_waiting

    def _step(self, link: "_Link") -> bool:
        """Wait for either side and move what is ready; return False if the server hangs."""
        reads = [link.server] if len(self._to_client) < _BUFFER_BYTES_MAX else []
        reads_client = not self._has_left and len(self._to_server) < _BUFFER_BYTES_MAX
        writes_server = bool(self._to_server) and not link.has_broken
        unanswered = bool(self.replay.unanswered)
        readable, writable, _ = select.select(
            [self._signals, *reads, *([self._stdin] if reads_client else [])],
            [
                *([link.server] if writes_server else []),
                *([self._stdout] if self._to_client else []),
            ],
            [],
            link.probe_s if unanswered and self._host is None else None,
        )
        if not (readable or writable):
            link.probe_s = min(2 * link.probe_s, _PROBE_S_MAX)
            self._is_unresponsive = not is_responsive(self.path, timeout_s=_ALIVE_S)
            return not self._is_unresponsive
        if self._signals in readable:
            self._leave()
        if self._stdin in readable:
            self._read_client()
        if link.server in readable:
            for line in link.receive():
                self._to_client += self.replay.deliver(line)
        if link.server in writable:
            link.send(self._to_server)
        if self._stdout in writable:
            self._write_client()
        return True

    def _read_client(self) -> None:
        try:
            data = os.read(self._stdin, _READ_BYTES)
        except OSError:
            data = b""
        # The last line may lack its end.
        for line in self._from_client.feed(data or b"\n"):
            self._to_server += self.replay.take(line)
        self._has_left = not data
        if self._from_client.dropped:
            self._from_client.dropped = 0
            self._to_client += describe_too_long()

    def _write_client(self) -> None:
        try:
            # A pipe that is ready takes this much without waiting.
            del self._to_client[: os.write(self._stdout, self._to_client[: select.PIPE_BUF])]
        except OSError:
            # The client reads no answer any more.
            self._has_left = True
            self._to_client.clear()
            self._to_server.clear()
            self.replay.unanswered.clear()

    def _flush(self) -> None:
        """Write the last answers, unless a signal comes first."""
        while self._to_client:
            if select.select([self._signals], [self._stdout], [])[0]:
                return
            self._write_client()


@dataclass(slots=True)
class _Link:
    """The connection to one server."""

    server: socket.socket
    lines: LineSplitter = field(default_factory=LineSplitter)
    has_received: bool = False
    has_broken: bool = False
    """Whether nothing more can be sent; answers may still arrive."""
    is_over: bool = False
    has_ended: bool = False
    probe_s: float = _PROBE_S

    def receive(self) -> list[bytes]:
        """Return the lines that have arrived."""
        try:
            data = self.server.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        self.is_over = not data
        self.has_received = self.has_received or bool(data)
        self.probe_s = _PROBE_S
        return self.lines.feed(data)

    def send(self, data: bytearray) -> None:
        """Send what the server takes."""
        try:
            del data[: self.server.send(data)]
        except BlockingIOError:
            return
        except OSError:
            self.has_broken = True

    def end_sending(self) -> None:
        """Let the server finish."""
        if not self.has_ended:
            self.has_ended = True
            with suppress(OSError):
                self.server.shutdown(socket.SHUT_WR)
