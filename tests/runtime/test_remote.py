"""Requests to a server at a URL: every form of response, and none that is late or too long."""

import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Thread
from time import monotonic
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.errors import UnavailableError
from commonbrain.runtime.remote import HttpReply, post

REPLY = b'{"text": "shown"}'
LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n" + REPLY


@contextmanager
def answering(*parts: bytes, requests: list[bytes] | None = None) -> Generator[str]:
    """Send the parts of a response, each in its own packet, and close, or wait if one is empty."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    got = connection.recv(65_536)
                    if requests is not None:
                        requests.append(got)
                    for part in parts:
                        connection.sendall(part) if part else connection.recv(65_536)

        thread = Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp?x"
        finally:
            thread.join()


def ask(url: str, *, timeout_s: float = 20, bytes_max: int = 10_000) -> HttpReply:
    return post(urlsplit(url), b"{}", headers={}, timeout_s=timeout_s, bytes_max=bytes_max)


def chunked(*parts: bytes) -> bytes:
    chunks = b"".join(b"%x;a=b\r\n%s\r\n" % (len(part), part) for part in parts if part)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "response",
    [
        LENGTH,
        LENGTH + b"more",
        b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH,
        b"HTTP/1.0 200 OK\n\n" + REPLY,
        chunked(REPLY),
        chunked(REPLY[:3], REPLY[3:]),
    ],
)
def test_response_in_any_form_is_read(response: bytes) -> None:
    requests: list[bytes] = []
    with answering(response, requests=requests) as url:
        assert ask(url) == HttpReply(status=200, body={"text": "shown"})
    [request] = requests
    assert request.startswith(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:")
    assert request.endswith(b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")


@given(st.sampled_from([LENGTH, chunked(REPLY[:4], REPLY[4:])]), st.sets(st.integers(1, 90)))
def test_response_may_arrive_in_any_pieces(response: bytes, cuts: set[int]) -> None:
    ends = sorted(cut for cut in cuts if cut < len(response))
    parts = [response[a:b] for a, b in zip([0, *ends], [*ends, len(response)], strict=True)]
    with answering(*parts) as url:
        assert ask(url).body == {"text": "shown"}


@pytest.mark.parametrize(
    "response",
    [
        LENGTH[:-1],
        chunked(REPLY)[:-9],
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + REPLY,
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + REPLY,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n" + REPLY,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000,
        b"HTTP/1.1 200 OK\r\n\r\n<html></html>",
        b"",
    ],
)
def test_response_that_is_broken_foreign_or_too_long_is_an_error(response: bytes) -> None:
    with answering(*([response] if response else [])) as url, pytest.raises(UnavailableError):
        ask(url)


def test_server_that_sends_byte_by_byte_has_the_time_of_the_whole_request() -> None:
    since = monotonic()
    with answering(LENGTH[:20], b"") as url, pytest.raises(UnavailableError):
        ask(url, timeout_s=0.3)
    assert monotonic() - since < 10


@pytest.mark.parametrize("value", ["a\r\nX: 1", "a\nX: 1", "\u00e9"])
def test_header_cannot_add_another(value: str) -> None:
    with answering(LENGTH) as url, pytest.raises(UnavailableError):
        post(urlsplit(url), b"{}", headers={"Session": value}, timeout_s=20, bytes_max=1000)
