"""Clients that are gone, idle, or do not read their replies are dropped; others are not."""

import asyncio
import socket
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread
from time import monotonic

import pytest
import uvicorn
from commonbrain_server.http.server import BoundedProtocol
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.processes import TIMEOUT_S, until

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
BLOCKING = b"GET /blocks HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Hasty(BoundedProtocol):
    linger_s = 0


class Impatient(Hasty):
    unread_s = 1
    head_s = 1


class Lingering(BoundedProtocol):
    linger_s = 60


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux drops them")
def test_client_that_does_not_read_its_reply_is_disconnected() -> None:
    dropped = Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 200})
        try:
            for _ in range(1000):
                part = {"type": "http.response.body", "body": b"x" * 65_536, "more_body": True}
                await send(part)
            await receive()
            assert (await receive())["type"] == "http.disconnect"
        finally:
            dropped.set()

    with serving(app) as (client, _):
        client.sendall(REQUEST)
        assert dropped.wait(TIMEOUT_S)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux notices")
@pytest.mark.parametrize("requests", [1, 2])
def test_call_of_a_disconnected_client_is_cancelled_and_its_further_requests_are_dropped(
    caplog: pytest.LogCaptureFixture, *, requests: int
) -> None:
    begun, ended = Event(), Event()
    calls = list[str]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        calls.append(scope["path"])
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with serving(app) as (client, _):
        client.sendall(REQUEST * requests)
        assert begun.wait(TIMEOUT_S)
        client.close()
        assert ended.wait(TIMEOUT_S)
    assert calls == ["/"]
    assert caplog.records == []


def test_work_after_a_complete_reply_continues_without_the_client() -> None:
    goes_on, ended = Event(), Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})
        await asyncio.to_thread(goes_on.wait, TIMEOUT_S)
        ended.set()

    with serving(app) as (client, server):
        client.sendall(REQUEST)
        assert client.recv(4096)
        client.close()
        until(lambda: not server.server_state.connections)
        goes_on.set()
        assert ended.wait(TIMEOUT_S)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux checks")
def test_request_received_before_an_idle_connection_closes_is_answered() -> None:
    blocks, goes_on = Event(), Event()

    class Blocking(Impatient):
        def data_received(self, data: bytes) -> None:
            if data == BLOCKING:
                blocks.set()
                goes_on.wait(TIMEOUT_S)
            super().data_received(data)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    # asyncio's own loop reads before it runs timers.
    pytest.importorskip("uvloop")
    with (
        serving(app, http=Blocking, loop="uvloop", idle_s=2) as (client, _),
        socket.socket() as other,
    ):
        client.settimeout(TIMEOUT_S)
        other.connect(client.getpeername())
        client.sendall(REQUEST)
        assert client.recv(4096).startswith(b"HTTP/1.1 204")
        replied_at = monotonic()
        other.sendall(BLOCKING)
        assert blocks.wait(TIMEOUT_S)
        client.sendall(REQUEST)
        until(lambda: monotonic() > replied_at + 2)
        goes_on.set()
        assert client.recv(4096).startswith(b"HTTP/1.1 204")
        assert client.recv(4096) == b""


@pytest.mark.requirement("DO-28")
@pytest.mark.parametrize("is_new", [False, True])
def test_stopping_server_answers_a_request_on_its_way_and_says_that_the_connection_ends(
    *, is_new: bool
) -> None:
    with serving(answer, http=Lingering) as (client, server):
        client.settimeout(TIMEOUT_S)
        if not is_new:
            client.sendall(REQUEST)
            assert b"connection: close" not in client.recv(4096)
        until(lambda: bool(server.server_state.connections))
        server.should_exit = True
        until(lambda: not server.servers[0].is_serving())
        client.sendall(REQUEST)
        with client.makefile("rb") as reply:
            received = reply.read()
    assert received.startswith(b"HTTP/1.1 204")
    assert b"connection: close\r\n" in received


@pytest.mark.requirement("DO-28")
def test_reply_of_a_stopping_server_to_a_call_in_progress_says_that_the_connection_ends() -> None:
    begun, goes_on = Event(), Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await asyncio.to_thread(goes_on.wait, TIMEOUT_S)
        await answer(scope, receive, send)

    with serving(app) as (client, server):
        client.settimeout(TIMEOUT_S)
        client.sendall(REQUEST)
        assert begun.wait(TIMEOUT_S)
        server.should_exit = True
        until(lambda: not server.servers[0].is_serving())
        goes_on.set()
        assert b"connection: close\r\n" in client.recv(4096)


@pytest.mark.parametrize(
    ("first", "drop"),
    [
        (b"", b""),
        (b"", b"G"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"a"),
        (REQUEST, b"G"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n", b"x"),
    ],
)
def test_connection_on_which_no_request_arrives_in_time_is_closed(
    first: bytes, drop: bytes
) -> None:
    with serving(answer, idle_s=60) as (client, server):
        client.settimeout(TIMEOUT_S)
        client.sendall(first)
        if first.endswith(b"\r\n\r\n"):
            assert client.recv(4096).startswith(b"HTTP/1.1 204")
        until(lambda: bool(server.server_state.connections))

        def is_closed() -> bool:
            with suppress(OSError):
                client.send(drop)
            return not server.server_state.connections

        until(is_closed)


def test_call_that_takes_longer_than_a_head_may_is_answered() -> None:
    goes_on = Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.to_thread(goes_on.wait, TIMEOUT_S)
        await answer(scope, receive, send)

    with serving(app) as (client, _):
        client.settimeout(TIMEOUT_S)
        # The head has come in two parts, of which the first started the deadline.
        client.sendall(REQUEST[:4])
        client.sendall(REQUEST[4:])
        begun_at = monotonic()
        until(lambda: monotonic() > begun_at + 1.5 * Impatient.head_s)
        goes_on.set()
        assert client.recv(4096).startswith(b"HTTP/1.1 204")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has many loopback addresses")
@pytest.mark.parametrize("proxies", [[], ["10.0.0.0/8"], ["::1"]])
def test_one_address_has_a_quarter_of_the_connections(proxies: list[str]) -> None:
    with (
        serving(answer, http=Hasty, connections_max=8, proxies=proxies) as (one, server),
        ExitStack() as opened,
    ):
        address = one.getpeername()
        served = [is_served(opened, address) for _ in range(3)]
        assert served == [True, False, False]
        assert is_served(opened, address, source="127.0.0.2")

        one.close()
        until(lambda: len(server.server_state.connections) == 2)
        assert is_served(opened, address)


def test_health_checks_and_a_named_proxy_are_answered_beyond_the_share_of_an_address() -> None:
    with (
        serving(answer, http=Hasty, connections_max=2, proxies=["127.0.0.0/8"]) as (
            one,
            _,
        ),
        ExitStack() as opened,
    ):
        address = one.getpeername()
        assert is_served(opened, address)
        assert not is_served(opened, address)
        assert is_served(opened, address, path="/healthz")
        assert is_served(opened, address, path="/readyz")


def is_served(
    opened: ExitStack, address: tuple[str, int], *, path: str = "/", source: str = "127.0.0.1"
) -> bool:
    """Send a request on a new connection, which stays open."""
    connection = socket.create_connection(address, TIMEOUT_S, source_address=(source, 0))
    opened.enter_context(connection)
    with suppress(ConnectionError):
        connection.sendall(REQUEST.replace(b"/", path.encode(), 1))
        return connection.recv(4096).startswith(b"HTTP/1.1 204")
    return False


async def answer(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
    await send({"type": "http.response.start", "status": 204})
    await send({"type": "http.response.body"})


@contextmanager
def serving(
    app: ASGIApp,
    *,
    http: type[BoundedProtocol] = Impatient,
    loop: str = "auto",
    idle_s: int = 5,
    connections_max: int | None = None,
    proxies: Sequence[str] = (),
) -> Generator[tuple[socket.socket, uvicorn.Server]]:
    """Serve in a thread; yield a connected client and the server."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        config = uvicorn.Config(
            app,
            log_level="warning",
            log_config=None,
            lifespan="off",
            http=http,
            timeout_keep_alive=idle_s,
            limit_concurrency=connections_max,
            forwarded_allow_ips=list(proxies),
            loop=loop,
        )
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(listener.getsockname())
            yield client, server
        finally:
            server.should_exit = True
            server.force_exit = True
            thread.join(TIMEOUT_S)
