"""Answers tool calls while the MCP SDK is being imported, which takes a second.

A process that takes over has clients that shook hands with an earlier server. Their calls need no
more of the protocol than a request and its result. At the first line that is anything else, that
line and all later ones wait for the SDK.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard, cast

import anyio
from anyio.abc import TaskGroup
from pydantic_core import from_json, to_json

from commonbrain.api.operations import OPERATIONS, OperationRow, Profile
from commonbrain.mcp.connections import ClientName, LineStream
from commonbrain.mcp.tool_calls import REQUESTS_MAX, ToolReply

_VERSIONS: Final = frozenset({"2025-06-18", "2025-11-25"})
"""Protocol versions in which a tool call and its result have this form."""
_PARAMETERS: Final = frozenset({"arguments", "_meta"})
"""Of a call, with its name."""
_HANDSHAKE: Final = b"0"
"""The number of a handshake that an earlier server answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """A handshake that an earlier server answered."""

    id: str | int
    client: ClientName


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


def parse_handshake(line: bytes) -> Handshake | None:
    """Return a handshake that an earlier server answered; None for any other line."""
    number, message = _parse(line)
    id_ = message.get("id")
    if number != _HANDSHAKE or message.get("method") != "initialize" or not _is_id(id_):
        return None
    match message.get("params"):
        case {
            "protocolVersion": str(wanted),
            "clientInfo": {"name": str(name), "version": str(version)},
        } if wanted in _VERSIONS:
            return Handshake(id=id_, client=ClientName.of(name, version))
        case _:
            return None


def parse_call(line: bytes, profile: Profile) -> EarlyCall | None:
    """Return the call of a tool of the profile; None for any other line."""
    number, message = _parse(line)
    id_, params = message.get("id"), message.get("params")
    if message.get("method") != "tools/call" or not _is_id(id_):
        return None
    match params:
        case {"name": str(name), **others} if others.keys() <= _PARAMETERS:
            given: object = others.get("arguments")
        case _:
            return None
    arguments: object = dict[str, Any]() if given is None else given
    row = next((one for one in OPERATIONS if one.name == name), None)
    is_tool = row is not None and row.tool is not None and profile.includes(row.tool)
    is_plain = "_meta" not in others or _is_progress_token(others["_meta"])
    if row is None or not (is_tool and is_plain and isinstance(arguments, dict)):
        return None
    return EarlyCall(number=number, id=id_, row=row, arguments=cast("dict[str, Any]", arguments))


def parse_cancellation(line: bytes) -> str | int | None:
    """Return the id of the request that a line cancels; None for any other line."""
    _, message = _parse(line)
    match message:
        case {"method": "notifications/cancelled", "params": {"requestId": id_}} if _is_id(id_):
            return id_
        case _:
            return None


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


def _is_id(value: object) -> TypeGuard[str | int]:
    # Python counts a boolean as an integer.
    return type(value) in {str, int}


def _is_progress_token(meta: object) -> bool:
    """Return whether metadata contain only the token of a progress that is never reported."""
    if not isinstance(meta, dict):
        return False
    fields = cast("dict[str, Any]", meta)
    return fields.keys() == {"progressToken"} and _is_id(fields["progressToken"])


async def answer_early(
    stream: LineStream,
    answer: Callable[[EarlyCall, ClientName], Awaitable[ToolReply]],
    *,
    profile: Profile,
    over: asyncio.Future[Any],
    tasks: TaskGroup,
) -> None:
    """Answer the calls of a client until a line needs the SDK, or a future is done.

    The handshake and that line are put back. Calls in progress then end in the tasks; to cancel
    one is too late.
    """
    first = await stream.read_until(over)
    if first is None:
        return
    handshake = parse_handshake(first)
    if handshake is None:
        stream.put_back([first])
        return
    free = anyio.Semaphore(REQUESTS_MAX)
    running: dict[str | int, EarlyCall] = {}

    async def run(call: EarlyCall) -> None:
        try:
            reply = await answer(call, handshake.client)
            # A call that was cancelled gets no answer.
            if running.get(call.id) is call:
                del running[call.id]
                await stream.write(call.encode(reply))
        finally:
            free.release()

    for_sdk = [first]
    while (line := await stream.read_until(over)) is not None:
        call = parse_call(line, profile)
        # The first answer with the id of the handshake counts as the answer to that.
        if call is not None and call.id not in {handshake.id, *running}:
            # Further calls are not read while too many wait.
            await free.acquire()
            running[call.id] = call
            tasks.start_soon(run, call)
        elif (id_ := parse_cancellation(line)) is None or running.pop(id_, None) is None:
            ends_handshake = _parse(line)[1].get("method") == "notifications/initialized"
            is_expected = for_sdk == [first] and ends_handshake
            for_sdk.append(line)
            if not is_expected:
                break
    stream.put_back(for_sdk)
