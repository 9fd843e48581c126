"""Answers tool calls while the MCP SDK is being imported, which takes a second.

A process that takes over has clients that shook hands with an earlier server. Their calls need no
more of the protocol than a request and its result; everything else waits for the SDK.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import anyio
from anyio.abc import TaskGroup
from pydantic_core import from_json, to_json

from commonbrain.api.operations import OPERATIONS, OperationRow, Profile
from commonbrain.mcp.connections import ClientName
from commonbrain.mcp.line_stream import LineStream
from commonbrain.mcp.replay import RESENT
from commonbrain.mcp.tool_calls import REQUESTS_MAX, ToolReply

_VERSIONS: Final = frozenset({"2025-06-18", "2025-11-25"})
"""Protocol versions in which a tool call and its result have this form."""
_PARAMETERS: Final = frozenset({"name", "arguments", "_meta"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyCall:
    """A call of a tool."""

    number: bytes
    """The number of the message, by which a server recognizes it."""
    id: str | int
    row: OperationRow
    arguments: Mapping[str, Any]

    def encode(self, reply: ToolReply) -> bytes:
        """Encode the response as the SDK does."""
        result: dict[str, Any] = {
            "content": [{"type": "text", "text": reply.text}],
            "isError": reply.is_error,
        }
        if reply.structured is not None:
            result["structuredContent"] = reply.structured
        return to_json({"jsonrpc": "2.0", "id": self.id, "result": result}) + b"\n"


def parse_handshake(line: bytes) -> ClientName | None:
    """Return the client of a handshake that an earlier server answered; None if it is not one."""
    number, message = _parse(line)
    if number.removesuffix(RESENT) != b"0" or message.get("method") != "initialize":
        return None
    match message.get("params"):
        case {"protocolVersion": str(wanted), "clientInfo": {"name": str(name), "version": str(v)}}:
            return ClientName.of(name, v) if wanted in _VERSIONS else None
        case _:
            return None


def parse_call(line: bytes, profile: Profile) -> EarlyCall | None:
    """Return the call of a tool of the profile; None if the line is anything else."""
    number, message = _parse(line)
    id_, params = message.get("id"), message.get("params")
    if message.get("method") != "tools/call" or type(id_) not in {str, int}:
        return None
    match params:
        case {"name": str(name)} if _PARAMETERS.issuperset(cast("dict[str, Any]", params)):
            given: object = params.get("arguments")
        case _:
            return None
    arguments: object = dict[str, Any]() if given is None else given
    row = next((one for one in OPERATIONS if one.name == name), None)
    is_tool = row is not None and row.tool is not None and profile.includes(row.tool)
    if row is None or not is_tool or not isinstance(arguments, dict):
        return None
    return EarlyCall(
        number=number,
        id=cast("str | int", id_),
        row=row,
        arguments=cast("dict[str, Any]", arguments),
    )


def _parse(line: bytes) -> tuple[bytes, Mapping[str, Any]]:
    """Split a line into its number and its message, which is empty if it is malformed."""
    number, _, text = line.partition(b" ")
    try:
        message = from_json(text)
    except ValueError:
        # The SDK reports it.
        message = None
    match message:
        case {"jsonrpc": "2.0"}:
            return number, cast("dict[str, Any]", message)
        case _:
            return number, {}


async def answer_early(
    stream: LineStream,
    answer: Callable[[EarlyCall, ClientName], Awaitable[None]],
    *,
    profile: Profile,
    over: asyncio.Future[Any],
    tasks: TaskGroup,
) -> None:
    """Answer the calls of a client until a future is done; all other lines are put back."""
    first = await stream.read_until(over)
    if first is None:
        return
    client = parse_handshake(first)
    if client is None:
        stream.put_back([first])
        return
    free = anyio.Semaphore(REQUESTS_MAX)

    async def run(call: EarlyCall) -> None:
        try:
            await answer(call, client)
        finally:
            free.release()

    others = [first]
    while (line := await stream.read_until(over)) is not None:
        call = parse_call(line, profile)
        if call is not None:
            # Further calls are not read while too many wait.
            await free.acquire()
            tasks.start_soon(run, call)
        else:
            others.append(line)
            if not line:
                break
    stream.put_back(others)
