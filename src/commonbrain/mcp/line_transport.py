"""Runs an MCP server over a connection between two processes that exchange lines.

Importing the MCP SDK takes a second, so the shared server imports this module last.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import (
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from commonbrain.api.operation import Profile
from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.mcp.connections import StdioCaller
from commonbrain.mcp.line_stream import LineStream
from commonbrain.mcp.server import StdioClient, server_of
from commonbrain.mcp.tool_calls import REQUESTS_MAX, Delivery

_FINISH_S: Final = 0.8
"""How long calls in progress may take when their client or this process ends, in which it waits
for a second."""


async def serve_lines(
    stream: LineStream,
    *,
    caller: StdioCaller,
    warm: Callable[[], None],
    threads: ThreadLimiter,
    profile: Profile,
    label: Callable[[bytes], Delivery | None],
) -> None:
    """Serve a client until its connection ends.

    Args:
        stream: messages with their numbers, and the answers to them.
        caller: the client, as which calls act.
        warm: called at the client's first request.
        threads: run the calls.
        profile: the tools.
        label: returns how a message arrived, by its number.

    """
    client = StdioClient(
        brain=caller.open, agent=caller.agent, connection=caller.connection, warm=warm
    )
    server = server_of(client, threads=threads, profile=profile)
    async with _messages(stream, label=label) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


@asynccontextmanager
async def _messages(
    stream: LineStream,
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
    free = anyio.Semaphore(REQUESTS_MAX)

    async def settle() -> None:
        free.release()

    async def read() -> None:
        # The server may end first.
        with suppress(anyio.BrokenResourceError):
            async with to_server:
                while line := await stream.read():
                    one = _decode(line, label=label, settle=settle)
                    if isinstance(one, SessionMessage) and isinstance(one.message, JSONRPCRequest):
                        await free.acquire()
                    await to_server.send(one)
                # Calls in progress are cancelled without an answer when the stream closes.
                with anyio.move_on_after(_FINISH_S):
                    for _ in range(REQUESTS_MAX):
                        await free.acquire()

    async def write() -> None:
        async with from_server:
            async for one in from_server:
                if isinstance(one.message, JSONRPCResponse | JSONRPCError):
                    free.release()
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stream.write(text.encode() + b"\n")

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
