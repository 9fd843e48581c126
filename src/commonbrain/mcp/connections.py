"""A client's connection to a server on stdio: its brain, its name and its session.

Nothing here imports the MCP SDK, which takes a second.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock, Thread
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, Self

import anyio.to_thread

from commonbrain.api.dispatch import CallContext, record_failed_open
from commonbrain.client import Brain
from commonbrain.mcp.replay import LINE_BYTES_MAX
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.scope import Authority, Role, Trust
from commonbrain.model.sessions import UNKNOWN, ClientInfo, printable_name
from commonbrain.runtime.local_socket import LocalServer

if TYPE_CHECKING:
    from commonbrain.jobs.worker import EmbeddedWorker


@dataclass(slots=True, kw_only=True)
class Connection:
    """Assigns each call its session; a server creates one for every client.

    A call belongs to the session that the caller names, else to the one that the client reported,
    else to one created for this connection. `find` identifies the client at the first call;
    `reported_session` returns the key that it reported at the start.
    """

    find: Callable[[Brain], ClientInfo] = lambda _: UNKNOWN
    reported_session: Callable[[Brain], str | None] = lambda _: None
    on_session: Callable[[str], None] = lambda _: None
    """Called with the key of a call's session, before the call runs."""
    _contact: ClientInfo | None = None
    _last: Brain | None = None
    _lock: Lock = field(default_factory=Lock)

    def view(self, brain: Brain, *, client: str | None = None) -> Brain:
        """Return the brain for the connection's session and project; counts as a heartbeat."""
        with self._lock:
            if self._contact is None:
                self._contact = replace(self.find(brain), client=client)
            last_session = self._last.caller.session if self._last else self.reported_session(brain)
            identified = brain.acting_as(contact=self._contact)
            session = identified.session.meet(last=last_session)
            project = session.project or brain.caller.project
            self._last = identified.acting_as(session=session.key, project=project)
            self.on_session(session.key)
            return self._last

    def close(self) -> None:
        """Record that the client disconnected; written soon, or when the brain is closed."""
        with self._lock:
            if self._last is not None:
                self._last.session.leave()
                self._last = None


@dataclass(slots=True)
class LazyBrain:
    """A brain that is opened in the background, so that a client need not wait for it.

    Claude Code does not offer the tools of a server that takes over a second to answer.
    """

    open: Callable[[], Brain]
    listen: Callable[[Brain], LocalServer | None]
    """Starts to answer other processes at the store's socket, once the brain is open."""
    lock: Lock = field(default_factory=Lock)
    brain: Brain | None = None
    worker: "EmbeddedWorker | None" = None
    local: LocalServer | None = None

    def get(self) -> Brain:
        """Return the brain; the first call opens it."""
        with self.lock:
            if self.brain is None:
                self.brain = self.open()
                # A client waits for a server that is being loaded, but not for this.
                from commonbrain.jobs.worker import EmbeddedWorker  # noqa: PLC0415

                self.worker = EmbeddedWorker(self.brain.services)
                self.worker.start()
                self.local = self.listen(self.brain)
            return self.brain

    def warm(self) -> None:
        """Start to open the brain in the background; an earlier call waits for it."""
        Thread(target=self._open_quietly, daemon=True, name="open").start()

    def _open_quietly(self) -> None:
        # The next call tries again and reports the error.
        with suppress(CommonbrainError):
            self.get()

    def close(self) -> None:
        """Close the brain, even if it is being opened."""
        with self.lock:
            if self.local is not None:
                self.local.close()
            if self.worker is not None:
                self.worker.close()
            if self.brain is not None:
                self.brain.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientName:
    """A client as it names itself in the handshake."""

    name: str | None
    label: str | None
    """Its name and version."""

    @classmethod
    def of(cls, name: str, version: str) -> Self:
        """Convert to printable names."""
        return cls(name=printable_name(name), label=printable_name(f"{name} {version}"))


ANONYMOUS = ClientName(name=None, label=None)
"""A client that did not give its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioCaller:
    """The client of a connection, which acts for the user who started it."""

    open: Callable[[], Brain]
    agent: str | None
    """The agent that the user named; None: the client's own name."""
    connection: Connection
    is_owner: bool = False
    """Whether the owner lets it act as a person does."""
    client: ClientName = ANONYMOUS
    warm: Callable[[], None] = lambda: None
    """Called at the client's first request."""

    def role(self) -> Role:
        """Return the role of a writer, unless the owner raised it, and start to open the brain."""
        self.warm()
        return Role.ADMIN if self.is_owner else Role.WRITER

    @property
    def takes_session(self) -> bool:
        """Whether a call names its session: never, for the connection has one."""
        return False

    async def is_admitted(self) -> bool:
        """Return True: the client has no credential."""
        return True

    def brain(self, *, session: str | None = None, starts: bool = False) -> Brain:
        """Return the brain as the agent: the one that the user named, or the client."""
        del session, starts
        opened = self.open()
        # A model fills in the arguments: it cannot claim more trust than its user, and an agent
        # with a lower ceiling is not raised.
        ceiling = min(opened.caller.trust_ceiling, Trust.USER_CLAIM, key=lambda one: one.weight)
        brain = opened.acting_as(trust_ceiling=ceiling)
        if not self.is_owner:
            brain = brain.acting_as(role=Role.WRITER, authority=Authority.MODEL)
        agent = self.agent or self.client.name
        agent_brain = brain.acting_as(agent=agent) if agent else brain
        return self.connection.view(agent_brain, client=self.client.label)

    def record_missed_call(self, call: CallContext, error: CommonbrainError) -> None:
        """Store the event of a call on disk until a session boots."""
        record_failed_open(call, error, agent=self.agent or self.client.name)

    def record_unstarted(
        self, call: CallContext, error: CommonbrainError, *, waited_s: float
    ) -> None:
        """Do nothing: over stdio each call waits until a thread is free."""

    def redact_error(self, error: CommonbrainError) -> CommonbrainError:
        """Return the error unchanged: the client runs on the user's own machine."""
        return error


def find_client(brain: Brain) -> ClientInfo:
    """Describe the client of a connection, and the process at this end of it."""
    # Loaded with the brain.
    from commonbrain.coordination.session_registry import detect_client  # noqa: PLC0415

    return detect_client(brain.services, serves=True)


class Lines(Protocol):
    """The lines of a client: its messages with their numbers, and the answers to them."""

    async def read(self) -> bytes:
        """Return the next line; empty at the end."""
        ...

    async def write(self, line: bytes, /) -> None:
        """Write a line with its end, unless the client left."""
        ...


@dataclass(slots=True)
class StdioLines:
    """The lines of a client on stdin and stdout, which have no numbers."""

    stdin: BinaryIO
    stdout: BinaryIO

    @classmethod
    def claim(cls) -> Self:
        """Take stdin and stdout; whatever else reads here gets nothing, or prints to stderr."""
        lines = cls(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 no path of ours
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        return lines

    async def read(self) -> bytes:
        """Return the next line that is not empty, after a number; empty at the end."""
        while line := await anyio.to_thread.run_sync(self.stdin.readline, abandon_on_cancel=True):
            if line.strip():
                return b"0 " + line
        return b""

    async def write(self, line: bytes) -> None:
        """Write a line with its end, unless the client left."""
        await anyio.to_thread.run_sync(self._write, line)

    def _write(self, line: bytes) -> None:
        with suppress(OSError):
            self.stdout.write(line)
            self.stdout.flush()


_HEADER_BYTES: Final = 32
"""More than a number and its mark."""


@dataclass(slots=True)
class LineStream:
    """Reads and writes lines."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, connection: socket.socket) -> Self:
        """Read and write a connection in the current loop."""
        limit = LINE_BYTES_MAX + _HEADER_BYTES
        return cls(*await asyncio.open_unix_connection(sock=connection, limit=limit))

    async def read(self) -> bytes:
        """Return the next line; empty at the end."""
        # A connection that breaks ends like one that is closed.
        with suppress(OSError):
            return await self.reader.readline()
        return b""

    def send(self, line: bytes) -> None:
        """Write a line with its end soon, unless the peer left."""
        if not self.writer.is_closing():
            self.writer.write(line)

    async def write(self, line: bytes) -> None:
        """Write a line with its end; waits for a peer that reads slowly, not for one that left."""
        self.send(line)
        with suppress(OSError):
            await self.writer.drain()
