"""Calls that a process answers before it has imported the MCP SDK, as after a takeover."""

import json
import socket
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO

import pytest

from commonbrain.api.operations import Profile
from commonbrain.mcp.early_calls import parse_call, parse_handshake
from commonbrain.mcp.shared_server import SharedServer
from commonbrain.runtime.local_socket import LocalServer
from tests.processes import PATIENCE_S

KETTLE = "The kettle is in the blue cupboard."
CLIENT = {"name": "raw", "version": "1"}
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}


def message(method: str, params: object = None, *, id_: object = None) -> bytes:
    one = {"jsonrpc": "2.0", "method": method}
    one |= {} if params is None else {"params": params}
    return json.dumps(one | ({} if id_ is None else {"id": id_})).encode()


def call(tool: str, arguments: object, *, id_: object = 7) -> bytes:
    return message("tools/call", {"name": tool, "arguments": arguments}, id_=id_)


@dataclass
class Client:
    """The other end of a connection to a shared server."""

    connection: socket.socket
    answers: BinaryIO
    number: int = 0

    def send(self, line: bytes, *, number: int | None = None) -> None:
        self.number += 1
        place = self.number if number is None else number
        self.connection.sendall(b"%d %s\n" % (place, line))

    def answer(self) -> dict[str, Any]:
        """Return the next message of the protocol."""
        while True:
            read = json.loads(self.answers.readline())
            if "jsonrpc" in read:
                return read


@pytest.fixture
def server(path: Path) -> Generator[SharedServer]:
    server = SharedServer(store=str(path), local=LocalServer(path.with_name("socket")))
    yield server
    server.close()


@pytest.fixture
def client(server: SharedServer) -> Generator[Client]:
    """A client that has shaken hands with an earlier server."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    request: dict[str, object] = {
        "id": "a1",
        "agent": "ann",
        "session": None,
        "tenant": None,
        "profile": None,
        "last": None,
        "pid": 1,
        "cwd": None,
        "variables": {},
    }
    serving = Thread(target=server.serve, args=(request, theirs), daemon=True)
    serving.start()
    with ours, ours.makefile("rb") as answers:
        client = Client(ours, answers)
        client.send(message("initialize", HANDSHAKE, id_=1), number=0)
        client.send(message("notifications/initialized"), number=0)
        yield client
        ours.shutdown(socket.SHUT_WR)
        answers.read()
    serving.join(PATIENCE_S)
    assert not serving.is_alive()


def shape(value: object) -> object:
    """Return the names of a JSON value, without its values."""
    match value:
        case dict():
            return {name: shape(one) for name, one in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case list():
            return [*map(shape, value)]  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return type(value)


@pytest.mark.requirement("CL-14")
def test_calls_are_answered_before_the_sdk_as_after_it(
    server: SharedServer, client: Client
) -> None:
    calls = [
        call("remember", {"text": KETTLE, "kind": "fact"}, id_="first"),
        call("remember", {"text": KETTLE, "kind": "fact"}),
        call("recall", {"query": "where is the kettle?"}),
        call("session", {"op": "list"}),
        call("session", {"op": "claim"}),
        call("get", {"id": "mem_0"}),
        call("trace", {"op": "causes", "text": "\u00e9\u2028 kettle"}),
        call("recall", {"que": "misspelt"}),
        message("tools/call", {"name": "boot"}, id_=8),
        message("tools/call", {"name": "boot", "_meta": {"progressToken": 1}}, id_=9),
    ]
    early: list[dict[str, Any]] = []
    for one in calls:
        client.send(one)
        early.append(client.answer())
    client.send(message("ping", id_=10))

    server.start(takes_over=False)
    assert {client.answer()["id"], client.answer()["id"]} == {1, 10}
    late: list[dict[str, Any]] = []
    for one in calls:
        client.send(one)
        late.append(client.answer())
    assert [one["id"] for one in early] == [one["id"] for one in late]
    # The first call stored the memory; only the second one is a repetition.
    assert early[0]["result"]["structuredContent"]["items"][0]["status"] == "stored"
    # A recall and a boot have an id or a time of their own.
    assert [early[i] for i in (1, 3, 4, 5, 7)] == [late[i] for i in (1, 3, 4, 5, 7)]
    assert shape(early[1:]) == shape(late[1:])


def test_what_is_no_call_of_a_tool_waits_for_the_sdk(server: SharedServer, client: Client) -> None:
    client.send(message("tools/list", id_=2))
    client.send(call("recall", {"query": "kettle"}, id_=3))
    assert client.answer()["id"] == 3
    server.start(takes_over=True)
    assert {client.answer()["id"], client.answer()["id"]} == {1, 2}


@pytest.mark.parametrize(
    "line",
    [
        b"no JSON",
        b"[]",
        message("tools/list", id_=1),
        call("recall", {}).replace(b"2.0", b"1.0"),
        message("tools/call", {"name": "recall"}),
        call("recall", {}, id_=True),
        call("recall", {}, id_=1.5),
        call("recall", []),
        call("nothing", {}),
        call("audit", {}),
        message("tools/call", [], id_=1),
        message("tools/call", {"name": "recall", "task": {}}, id_=1),
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\\ud800"}}',
    ],
)
def test_other_lines_are_not_calls(line: bytes) -> None:
    assert parse_call(b"3 " + line, Profile.CORE) is None


def test_only_a_handshake_that_was_answered_and_whose_form_is_known_is_one() -> None:
    line = message("initialize", HANDSHAKE, id_=1)
    client = parse_handshake(b"0 " + line)
    assert client is not None
    assert (client.name, client.label) == ("raw", "raw 1")
    assert parse_handshake(b"0! " + line) == client
    older = message("initialize", HANDSHAKE | {"protocolVersion": "2024-11-05"}, id_=1)
    for other in (b"1 " + line, b"1! " + line, b"0 " + older, b"0 " + call("recall", {})):
        assert parse_handshake(other) is None
