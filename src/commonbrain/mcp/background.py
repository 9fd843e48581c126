"""The process that hooks start, so that later hooks and commands of a session find a loaded store.

It serves the store as the `brain mcp` of a client does, but belongs to all sessions that use it: it
ends when the last one has ended, or its client, however that ended: it watches the processes of the
clients. Imports must be fast: of several that start at once, one stays.
"""

import json
import os
import select
import socket
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, NoReturn

from commonbrain.mcp.bridge import STREAM
from commonbrain.runtime.callers import (
    CommandLine,
    parse_command_line,
    store_file,
    store_socket,
)
from commonbrain.runtime.local_socket import JsonObject, LocalServer
from commonbrain.runtime.signals import stopped_by_signals

if TYPE_CHECKING:
    from commonbrain.coordination.processes import LocalProcesses
    from commonbrain.mcp.shared_server import Answer, SharedServer
    from commonbrain.model.sessions import Process

_INPUT_BYTES_MAX: Final = 4096
_LINGER_S: Final = 3.0
"""A hook at the end of a session runs on after its client, and a client that clears its
conversation ends one session before it starts the next."""
_IDLE_S: Final = 2 * 3600.0
"""Longer than a break; a prompt after it is searched by words, and starts the process again."""
_CHECK_S: Final = 10.0
"""How often it looks whether the program or the store was replaced."""
_POLL_S: Final = 1.0
"""How often it looks after a client where the system does not report the end of processes."""
_CLOSE_S: Final = 10.0
"""A process whose store stays locked ends all the same."""


@dataclass(slots=True)
class ProcessSessions:
    """The sessions that use this process, with the processes of their clients."""

    processes: "LocalProcesses"
    _clients: dict[str, "Process"] = field(default_factory=dict[str, "Process"])
    _watched: set["Process"] = field(default_factory=set["Process"])
    _streams: int = 0
    """Connections of MCP clients."""
    _used_at: float = field(default_factory=monotonic)
    _changed: Condition = field(default_factory=Condition)

    def begin(self, session: str, client: "Process") -> None:
        """Let a session use this process until it ends, or its client."""
        with self._changed:
            self._used_at = monotonic()
            self._clients[session or f"of {client.pid}"] = client
            is_watched = client in self._watched
            self._watched.add(client)
        if not is_watched:
            Thread(target=self._watch, args=(client,), daemon=True, name="client").start()

    def knows(self, session: str) -> bool:
        """Return whether a session uses this process; a call of it counts as use."""
        with self._changed:
            self._used_at = monotonic()
            return session in self._clients

    def end(self, session: str) -> None:
        """Forget a session that has ended."""
        with self._changed:
            self._used_at = monotonic()
            self._clients.pop(session, None)
            self._changed.notify_all()

    @contextmanager
    def stream(self) -> Generator[None]:
        """Count the connection of an MCP client, which needs this process as long as it is open."""
        with self._changed:
            self._streams += 1
        try:
            yield
        finally:
            with self._changed:
                self._streams -= 1
                self._used_at = monotonic()
                self._changed.notify_all()

    def wait(self, is_current: Callable[[], bool]) -> None:
        """Wait until no session uses this process, it is idle, or no longer current."""
        with self._changed:
            while self._streams or (is_current() and self._left_s > 0):
                self._changed.wait(_CHECK_S if self._streams else min(self._left_s, _CHECK_S))

    @property
    def _left_s(self) -> float:
        since = monotonic() - self._used_at
        return (_IDLE_S if self._clients else _LINGER_S) - since

    def _watch(self, client: "Process") -> None:
        wait_for_end(client, self.processes)
        with self._changed:
            ended = [session for session, by in self._clients.items() if by == client]
            for session in ended:
                del self._clients[session]
            self._watched.discard(client)
            if ended:
                self._used_at = monotonic()
                self._changed.notify_all()


def wait_for_end(process: "Process", processes: "LocalProcesses") -> None:
    """Wait until another process ends; a zombie has ended."""
    # Not psutil's own wait, which waits until its parent has collected it.
    with suppress(OSError), _death_notice(process.pid) as wait:
        # Its number may be that of another process by now.
        if processes.is_alive(process):
            wait()
    while processes.is_alive(process):
        sleep(_POLL_S)


@contextmanager
def _death_notice(pid: int) -> Generator[Callable[[], object]]:
    """Let the system report the end of a process; what is returned waits for it.

    Raises:
        OSError: there is no such process, or the system does not report it.

    """
    # Some builds of Python for Linux lack it.
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        descriptor = os.pidfd_open(pid)
        try:
            ends = select.poll()
            ends.register(descriptor, select.POLLIN)
            yield ends.poll
        finally:
            os.close(descriptor)
    elif sys.platform == "darwin":
        ending = select.kevent(
            pid,
            filter=select.KQ_FILTER_PROC,
            flags=select.KQ_EV_ADD | select.KQ_EV_ONESHOT,
            fflags=select.KQ_NOTE_EXIT,
        )
        with closing(select.kqueue()) as queue:
            queue.control([ending], 0)
            yield lambda: queue.control(None, 1)
    else:
        raise OSError


def serve_sessions(words: Sequence[str]) -> None:
    """Serve the store of a command line; stdin names the first session and its client's process.

    Returns if another process serves the store.
    """
    options = parse_command_line(words, os.environ)
    path = options and store_socket(options.store, os.environ)
    if options is None or path is None:
        return
    first = json.loads(sys.stdin.buffer.read(_INPUT_BYTES_MAX))
    BackgroundServer(options, path).run(str(first["session"]), int(first["pid"]))


@dataclass(slots=True)
class BackgroundServer:
    """Serves a store for sessions of several clients."""

    options: CommandLine
    path: Path
    _sessions: ProcessSessions = field(init=False)
    _host: "SharedServer | None" = None
    _file: tuple[int, int] | None = None
    """The store's file, once it is open."""

    def run(self, session: str, pid: int) -> None:
        """Serve until no session needs it, and exit; return if another process serves the store."""
        local = LocalServer(self.path, streams={STREAM: self._serve_client})
        with suppress(OSError):
            if local.start_if_free():
                self._serve(local, session=session, pid=pid)

    def _serve(self, local: LocalServer, *, session: str, pid: int) -> NoReturn:
        # They take a second.
        from commonbrain.coordination.processes import LocalProcesses  # noqa: PLC0415
        from commonbrain.mcp.shared_server import SharedServer  # noqa: PLC0415

        self._sessions = ProcessSessions(LocalProcesses())
        try:
            with stopped_by_signals():
                self._sessions.begin(session, LocalProcesses(pid).own())
                self._host = host = SharedServer(
                    self.options.store, local, is_background=True, observe=self._observe
                )
                host.start()
                self._sessions.wait(self._is_current)
        finally:
            self._leave()

    def _leave(self) -> NoReturn:
        """Close the store, and exit: what was acknowledged is committed."""
        if self._host is not None:
            closing = Thread(target=self._host.close, daemon=True)
            closing.start()
            closing.join(_CLOSE_S)
        os._exit(0)

    def _is_current(self) -> bool:
        """Return whether program and store are the ones that were loaded."""
        if store_socket(self.options.store, os.environ) != self.path:
            return False
        return self._file is None or self._file == self._identify_file()

    def _identify_file(self) -> tuple[int, int]:
        """Return what tells the store's file from another of the same name."""
        store = store_file(self.options.store, os.environ)
        try:
            about = store.expanduser().stat() if store else None
        except OSError:
            about = None
        return (about.st_dev, about.st_ino) if about else (0, 0)

    def _serve_client(self, request: JsonObject, stream: socket.socket) -> None:
        """Serve the MCP client of another process."""
        host = self._host
        if host is None or not host.is_warm:
            # The client waits for the handshake: its own process loads what that needs, and no
            # store, before this one is done.
            os._exit(0)
        with self._sessions.stream():
            host.serve(request, stream)

    def _observe(self, answer: "Answer") -> "Answer":
        """Note the sessions of the hooks that are answered; called once the store is open."""
        self._file = self._identify_file()
        # Loaded with the store.
        from commonbrain.coordination.processes import LocalProcesses  # noqa: PLC0415
        from commonbrain.hooks.table import HOOKS, HookAction, read_event  # noqa: PLC0415

        def observed(request: JsonObject) -> JsonObject:
            if self._file != self._identify_file():
                # Callers open the store that is there now; it ends when no client is left.
                return {}
            reply = answer(request)
            session = ""
            if request["kind"] == "hook":
                session = read_event(str(request["input"]).encode()).session
            is_known = self._sessions.knows(session)
            if session and HOOKS[request["client"], request["event"]].action is HookAction.END:
                self._sessions.end(session)
            elif session and not is_known:
                # The process that asked still waits, so its ancestors are known.
                client = LocalProcesses(request["pid"]).client()
                if client is not None:
                    self._sessions.begin(session, client)
            return reply

        return observed
