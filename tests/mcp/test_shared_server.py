"""The process that serves the clients of several others, as it loads and as clients leave."""

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
from commonbrain.mcp.shared_server import SharedServer
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
    """A server of a store."""
    local = LocalServer(path.with_name("socket"))
    server = SharedServer(store=str(path), local=local)
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


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Let no call write."""
    commonbrain.open(path).close()
    with closing(driver().connect(str(path), isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        yield
        writer.execute("ROLLBACK")


REMEMBER = call("remember", {"text": KETTLE, "kind": "fact"})


@pytest.mark.requirement("CL-14")
def test_calls_sent_after_an_earlier_handshake_are_answered_in_full(
    server: SharedServer, client: Client
) -> None:
    client.send(call("recall", {"query": "kettle"}, id_=2))
    client.send(message("tools/list", id_=3))
    client.send(call("recall", {"que": "misspelt"}, id_=1))
    server.start()

    answers = [client.answer() for _ in range(4)]

    assert sorted(one["id"] for one in answers) == [1, 1, 2, 3]
    # The first answer with the id of the handshake is the handshake's.
    assert "protocolVersion" in next(one for one in answers if one["id"] == 1)["result"]


def test_handshake_is_answered_though_the_store_cannot_be_opened(
    path: Path, server: SharedServer, client: Client
) -> None:
    path.write_bytes(b"no store" * 1000)
    client.send(call("recall", {"query": "kettle"}))
    server.start()
    assert client.answer()["id"] == 1
    assert client.answer()["result"]["isError"]


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        (REMEMBER.replace(b"kettle", b"\\ud83d"), 7),
        (b'{"id": 7}', 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": ' + b"9" * 70_000 + b"}", 7),
        (b"[" * 20_000, None),
        (b"no JSON", None),
    ],
)
def test_message_that_cannot_be_read_is_answered(
    server: SharedServer, client: Client, line: bytes, id_: int | None
) -> None:
    server.start()
    client.send(line)
    client.send(message("ping", id_=8))
    answers = [client.answer() for _ in range(3)]

    assert [one["id"] for one in answers if "error" in one] == [id_]
    assert {one["id"] for one in answers if "result" in one} == {1, 8}


def test_cancelled_call_gets_no_reply(path: Path, server: SharedServer, client: Client) -> None:
    with locked(path):
        client.send(REMEMBER)
        client.send(message("notifications/cancelled", {"requestId": 7}))
        client.send(call("recall", {"query": "kettle"}, id_=8))
        server.start()
        assert {client.answer()["id"] for _ in range(2)} == {1, 8}
    assert client.leave() == []


def test_broken_connection_ends_without_an_error(
    path: Path, server: SharedServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with locked(path):
        for id_ in range(10, 20):
            client.send(call("recall", {"query": "kettle"}, id_=id_))
        for id_ in range(20, 30):
            client.send(REMEMBER.replace(b'"id": 7', b'"id": %d' % id_))
        server.start()
        # What is not read breaks the connection.
        select.select([client.connection], [], [], TIMEOUT_S)
        client.answers.close()
        client.connection.close()
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
