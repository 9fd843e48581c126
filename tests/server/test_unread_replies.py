"""Clients that do not read their replies are dropped."""

import socket
import sys
from threading import Event, Thread

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from commonbrain.http.server import UnreadReplyProtocol

PATIENCE_S = 30


class Impatient(UnreadReplyProtocol):
    unread_s = 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux drops them")
def test_a_client_that_does_not_read_its_reply_is_dropped() -> None:
    dropped = Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 200})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        await receive()
        if (await receive())["type"] == "http.disconnect":
            dropped.set()

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        config = uvicorn.Config(app, log_level="warning", lifespan="off", http=Impatient)
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(listener.getsockname())
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert dropped.wait(PATIENCE_S)
        finally:
            server.should_exit = True
            thread.join(PATIENCE_S)
