"""The process of a store that several `brain mcp` share: one brain, and a session per client."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import (
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from commonbrain.api.operations import Profile
from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.mcp.conversation import ENDED, LINE_BYTES_MAX, RESENT, SESSION
from commonbrain.mcp.server import (
    CALLS_AT_ONCE_MAX,
    Connection,
    Delivery,
    LazyBrain,
    StdioClient,
    find_client,
    server_of,
)
from commonbrain.runtime.local_socket import JsonObject, LocalServer
from commonbrain.runtime.settings_loading import load_settings

_HEADER_BYTES: Final = 32
"""More than a number and its mark."""
_FINISH_S: Final = 0.8
"""How long calls in progress may take when their client or this process ends, in which it waits
for a second."""
_REQUESTS_MAX: Final = 64
"""Requests of one client that wait or run; further ones are not read."""


@dataclass(slots=True)
class SharedServer:
    """Serves a store to the clients of this process and of others."""

    store: str | None
    local: LocalServer
    _lazy: LazyBrain = field(init=False)
    _own: Connection | None = None
    """The connection of this process's own client."""
    _is_closing: bool = False

    def __post_init__(self) -> None:
        """Check the settings, so that an invalid one ends the process before it serves.

        Raises:
            InvalidInputError: a setting is invalid.

        """
        load_settings()
        self._lazy = LazyBrain(open=self._open, listen=self._listen)

    def serve(self, request: JsonObject, stream: socket.socket, *, is_own: bool = False) -> None:
        """Serve the client of a process, as its request describes it, until either side ends."""
        anyio.run(partial(self._serve, request, stream, is_own=is_own))

    def warm(self) -> None:
        """Start to open the store in the background."""
        self._lazy.warm()

    def close(self) -> None:
        """Let another process take over, then close the brain, even if it is being opened."""
        self._is_closing = True
        self.local.close()
        if self._own is not None:
            self._own.close()
        self._lazy.close()

    def _open(self) -> Brain:
        # The adapters take long to load; a client lists the tools without them.
        from commonbrain.runtime.bootstrap import open_brain  # noqa: PLC0415

        return open_brain(self.store, server_name="mcp")

    def _listen(self, brain: Brain) -> LocalServer:
        # Loaded with the brain.
        from commonbrain.runtime.local_requests import answer_requests  # noqa: PLC0415

        self.local.answer = answer_requests(brain, has_worker=True)
        if self.local.thread is None:
            self.local.start()
        return self.local

    async def _serve(self, request: JsonObject, stream: socket.socket, *, is_own: bool) -> None:
        reader, writer = await asyncio.open_unix_connection(
            sock=stream, limit=LINE_BYTES_MAX + _HEADER_BYTES
        )
        loop = asyncio.get_running_loop()

        def announce(key: str) -> None:
            # Before the answer, which this loop writes after the call.
            loop.call_soon_threadsafe(writer.write, _encode({SESSION: key}))

        connection = Connection(
            find=find_client, reported_session=partial(_last_session, request), on_session=announce
        )
        if is_own:
            self._own = connection
        threads = ThreadLimiter(CALLS_AT_ONCE_MAX)
        try:
            server = self._server_for(request, connection=connection, threads=threads)
            # If this process ends, its own client ends too, so its calls are not repeated.
            label = partial(_label, request["id"], is_repeatable=not is_own)
            async with _messages(reader, writer, label=label) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
            with suppress(OSError):
                writer.write(_encode({ENDED: True}))
                await writer.drain()
        finally:
            threads.close()
            writer.close()
            if not self._is_closing:
                # Otherwise the client goes on with the next server.
                connection.close()

    def _server_for(
        self, request: JsonObject, *, connection: Connection, threads: ThreadLimiter
    ) -> Server[Any]:
        client = StdioClient(
            brain=_once(partial(self._brain_for, request)),
            agent=request["agent"],
            connection=connection,
            warm=self._lazy.warm,
        )
        profile = Profile(request["profile"] or Settings.model_fields["mcp_profile"].default)
        return server_of(client, threads=threads, profile=profile)

    def _brain_for(self, request: JsonObject) -> Brain:
        """Return the brain as the client of a request: its names, folder and process."""
        brain = self._lazy.get()
        # Loaded with the brain.
        from commonbrain.runtime.local_requests import brain_for  # noqa: PLC0415

        return brain_for(brain.services, request)


def _last_session(request: JsonObject, brain: Brain) -> str | None:
    """Return the session that the client had with the server before, else the one it reports."""
    return request["last"] or brain.services.processes.session(brain.caller.agent)


def _once(make: Callable[[], Brain]) -> Callable[[], Brain]:
    """Make a brain at the first call; an error is raised again by the next call's attempt."""
    lock, made = Lock(), list[Brain]()

    def get() -> Brain:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    return get


def _encode(control: dict[str, object]) -> bytes:
    """Encode a line for the other process that is not a protocol message."""
    return json.dumps(control).encode() + b"\n"


@asynccontextmanager
async def _messages(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    label: Callable[[bytes], Delivery | None],
) -> AsyncGenerator[
    tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
    ]
]:
    """Convert between lines and messages; a client that does not read holds up itself alone."""
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    free = anyio.Semaphore(_REQUESTS_MAX)

    async def settle() -> None:
        free.release()

    async def read() -> None:
        # A connection that breaks ends like one that is closed.
        with suppress(OSError, anyio.BrokenResourceError):
            async with to_server:
                while line := await reader.readline():
                    one = _decode(line, label=label, settle=settle)
                    if isinstance(one, SessionMessage) and isinstance(one.message, JSONRPCRequest):
                        await free.acquire()
                    await to_server.send(one)
                # Calls in progress are cancelled without an answer when the stream closes.
                with anyio.move_on_after(_FINISH_S):
                    for _ in range(_REQUESTS_MAX):
                        await free.acquire()

    async def write() -> None:
        async with from_server:
            async for one in from_server:
                if isinstance(one.message, JSONRPCResponse | JSONRPCError):
                    free.release()
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                with suppress(OSError):
                    await writer.drain()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        yield incoming, outgoing


def _decode(
    line: bytes,
    *,
    label: Callable[[bytes], Delivery | None],
    settle: Callable[[], Awaitable[None]],
) -> SessionMessage | Exception:
    """Decode a message of a client.

    Args:
        line: the number of the message, and the message.
        label: returns how it arrived, by its number.
        settle: called when a request ends without an answer.

    """
    number, _, text = line.partition(b" ")
    try:
        message = jsonrpc_message_adapter.validate_json(
            text.decode(errors="replace"), by_name=False
        )
    except ValueError as error:
        return error
    about = ServerMessageMetadata(request_context=label(number), on_request_unanswered=settle)
    return SessionMessage(message, about)


def _label(id_: str, number: bytes, *, is_repeatable: bool) -> Delivery | None:
    """Return how a message of a process arrived; None if it is the first and only time."""
    plain = number.removesuffix(RESENT)
    is_resent = plain != number
    if not (is_resent or is_repeatable):
        return None
    return Delivery(key=f"mcp-{id_}-{plain.decode()}", is_resent=is_resent)
