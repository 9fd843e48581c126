"""Calls that a process answers before it has imported the MCP SDK, as after a takeover."""

import json
import logging
import select
import socket
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO

import pytest

import commonbrain
from commonbrain.api.operations import OperationRow, Profile
from commonbrain.mcp.connections import ClientName, Connection, StdioCaller
from commonbrain.mcp.early_calls import parse_call, parse_cancellation, parse_handshake
from commonbrain.mcp.shared_server import SharedServer
from commonbrain.mcp.tool_calls import load_and_run_tool
from commonbrain.runtime.local_socket import LocalServer
from commonbrain.storage.sqlite.driver import driver
from tests.processes import TIMEOUT_S

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

    def shake_hands(self, *, number: int | None = None) -> None:
        self.send(message("initialize", HANDSHAKE, id_=1), number=number)
        self.send(message("notifications/initialized"), number=number)

    def leave(self) -> list[dict[str, Any]]:
        """Close one side, and return the messages that still come."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
        return [one for one in map(json.loads, self.answers) if "jsonrpc" in one]


@pytest.fixture
def server(path: Path) -> Generator[SharedServer]:
    """A server of a store, which waits for its clients rather than for a deadline."""
    local = LocalServer(path.with_name("socket"))
    server = SharedServer(store=str(path), local=local, first_calls_s=2 * TIMEOUT_S)
    yield server
    server.close()


@pytest.fixture
def client(server: SharedServer) -> Generator[Client]:
    """A client that has shaken hands with an earlier server."""
    with connected(server) as client:
        client.shake_hands(number=0)
        yield client


@contextmanager
def connected(server: SharedServer) -> Generator[Client]:
    ours, theirs = socket.socketpair()
    ours.settimeout(TIMEOUT_S)
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
        yield client
        if ours.fileno() != -1:
            client.leave()
    serving.join(TIMEOUT_S)
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


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Let no call write."""
    commonbrain.open(path).close()
    with closing(driver().connect(str(path), isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        yield
        writer.execute("ROLLBACK")


REMEMBER = call("remember", {"text": KETTLE, "kind": "fact"})


def test_messages_other_than_tool_calls_wait_for_the_sdk(
    server: SharedServer, client: Client
) -> None:
    client.send(call("recall", {"query": "kettle"}, id_=2))
    assert client.answer()["id"] == 2
    client.send(message("tools/list", id_=3))
    client.send(call("recall", {"query": "kettle"}, id_=4))
    server.start(takes_over=True)
    assert {client.answer()["id"] for _ in range(3)} == {1, 3, 4}


def test_client_that_needs_the_sdk_does_not_wait_for_calls_of_others(
    path: Path, server: SharedServer, client: Client
) -> None:
    with locked(path), connected(server) as new:
        client.send(REMEMBER)
        server.start(takes_over=True)
        new.shake_hands()
        assert new.answer()["id"] == 1
        assert client.answer()["id"] == 1
    assert client.answer()["id"] == 7


def test_sdk_is_imported_while_a_call_takes_long(path: Path) -> None:
    local = LocalServer(path.with_name("socket"))
    server = SharedServer(store=str(path), local=local, first_calls_s=0.01)
    with closing(server), connected(server) as client:
        client.shake_hands(number=0)
        with locked(path):
            client.send(REMEMBER)
            server.start(takes_over=True)
            assert client.answer()["id"] == 1
        assert client.answer()["id"] == 7


def test_sdk_is_imported_though_the_store_cannot_be_opened(
    path: Path, server: SharedServer, client: Client
) -> None:
    path.write_bytes(b"no store" * 1000)
    client.send(call("recall", {"query": "kettle"}))
    assert client.answer()["result"]["isError"]
    server.start(takes_over=True)
    assert client.answer()["id"] == 1


def test_call_with_the_id_of_the_handshake_is_answered_after_it(
    server: SharedServer, client: Client
) -> None:
    client.send(call("recall", {"query": "kettle"}, id_=1))
    server.start(takes_over=True)
    assert "protocolVersion" in client.answer()["result"]
    assert "structuredContent" in client.answer()["result"]


def test_cancelled_call_gets_no_reply(path: Path, server: SharedServer, client: Client) -> None:
    with locked(path):
        client.send(REMEMBER)
        client.send(message("notifications/cancelled", {"requestId": 7}))
        client.send(call("recall", {"query": "kettle"}, id_=8))
        assert client.answer()["id"] == 8
    server.start(takes_over=True)
    assert [one["id"] for one in client.leave()] == [1]


def test_broken_connection_ends_without_an_error(
    path: Path, server: SharedServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with locked(path):
        for id_ in range(10, 20):
            client.send(call("recall", {"query": "kettle"}, id_=id_))
        for id_ in range(20, 30):
            client.send(REMEMBER.replace(b'"id": 7', b'"id": %d' % id_))
        # What is not read breaks the connection.
        select.select([client.connection], [], [], TIMEOUT_S)
        client.answers.close()
        client.connection.close()
    server.start(takes_over=True)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_tool_that_cannot_be_imported_fails_with_an_internal_error(path: Path) -> None:
    row = OperationRow(name="missing", summary="", commands=())
    with commonbrain.open(path) as brain:
        caller = StdioCaller(open=lambda: brain, agent=None, connection=Connection())
        reply = load_and_run_tool(row, {}, caller=caller)
    assert reply.is_error
    assert reply.text.startswith("internal: ")


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
        message("tools/call", {"name": "recall", "_meta": None}, id_=1),
        message("tools/call", {"name": "recall", "_meta": {}}, id_=1),
        message("tools/call", {"name": "recall", "_meta": {"progressToken": 1.5}}, id_=1),
        message("tools/call", {"name": "recall", "_meta": {"progressToken": 1, "a": 2}}, id_=1),
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\\ud800"}}',
    ],
)
def test_other_lines_are_not_calls(line: bytes) -> None:
    assert parse_call(b"3 " + line, Profile.CORE) is None


def test_only_an_answered_handshake_of_a_known_form_is_read() -> None:
    line = message("initialize", HANDSHAKE, id_=1)
    handshake = parse_handshake(b"0 " + line)
    assert handshake is not None
    assert (handshake.id, handshake.client) == (1, ClientName(name="raw", label="raw 1"))
    older = message("initialize", HANDSHAKE | {"protocolVersion": "2024-11-05"}, id_=1)
    for other in (b"1 " + line, b"1! " + line, b"0 " + older, b"0 " + call("recall", {})):
        assert parse_handshake(other) is None


def test_only_a_cancellation_names_the_request_that_it_cancels() -> None:
    line = message("notifications/cancelled", {"requestId": "a"})
    assert parse_cancellation(b"3 " + line) == "a"
    others = [
        call("recall", {}),
        message("notifications/cancelled"),
        message("notifications/cancelled", {"requestId": True}),
    ]
    assert [parse_cancellation(b"3 " + one) for one in others] == [None] * len(others)
