"""`python -m benchmarks attacks`: what hostile and clumsy callers cost a running server."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated, Final
from urllib.parse import urlsplit

import httpx2
import psutil
import typer

attacks = typer.Typer()
_POLL_S: Final = 0.05
_TIMEOUT_S: Final = 180
_MB: Final = 1e6
_WRONG_ITEMS: Final = 490_000
_REFUSALS: Final = 800
_UPLOADS: Final = 24
_UPLOAD_BYTES: Final = 32 * 1024 * 1024
_LONG_TEXTS: Final = 24
_UNREAD: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server under attack."""

    url: str
    reader: str
    writer: str
    client: httpx2.Client = field(default_factory=lambda: httpx2.Client(timeout=_TIMEOUT_S))

    def post(self, path: str, content: bytes, *, key: str, kind: str = "application/json") -> str:
        """Send a request; return its status, or what went wrong."""
        headers = {"X-API-Key": key, "Content-Type": kind}
        try:
            reply = self.client.post(f"{self.url}{path}", content=content, headers=headers)
        except httpx2.HTTPError as error:
            return type(error).__name__
        return f"{reply.status_code} ({len(reply.content)} bytes)"


@dataclass(slots=True)
class Watch:
    """The slowest health check and the most memory during one attack."""

    slowest_s: float = 0.0
    resident_bytes: int = 0
    stops: threading.Event = field(default_factory=threading.Event)

    def poll(self, url: str, pid: int | None) -> None:
        """Ask for the server's health until the attack is over."""
        client = httpx2.Client(timeout=_TIMEOUT_S)
        while not self.stops.is_set():
            began = time.monotonic()
            with suppress(httpx2.HTTPError):
                client.get(f"{url}/healthz")
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            if pid is not None:
                self.resident_bytes = max(self.resident_bytes, resident(pid))
            self.stops.wait(_POLL_S)


def resident(pid: int) -> int:
    """Return the bytes of memory of a process and its children."""
    first = psutil.Process(pid)
    total = 0
    for one in (first, *first.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += one.memory_info().rss
    return total


@contextmanager
def watching(url: str, pid: int | None) -> Generator[Watch]:
    """Watch the server while the block runs."""
    watch = Watch()
    thread = threading.Thread(target=watch.poll, args=(url, pid))
    thread.start()
    try:
        yield watch
    finally:
        watch.stops.set()
        thread.join()


def wrong_items(target: Target) -> Sequence[str]:
    """Half a million values of the wrong type in one list, four times at once."""
    body = json.dumps({"query": "x", "tags": [1] * _WRONG_ITEMS}, separators=(",", ":")).encode()
    return _at_once(4, lambda _: target.post("/v1/recall", body, key=target.reader))


def nested_lists(target: Target) -> Sequence[str]:
    """Lists in lists, half a megabyte deep."""
    body = b'{"query": "x", "tags": ' + b"[" * 250_000 + b"]" * 250_000 + b"}"
    return [target.post("/v1/recall", body, key=target.reader)]


def many_tags(target: Target) -> Sequence[str]:
    """A quarter of a million valid tags."""
    body = json.dumps({"query": "x", "tags": ["a"] * 250_000}, separators=(",", ":")).encode()
    return [target.post("/v1/recall", body, key=target.reader)]


def refusals(target: Target) -> Sequence[str]:
    """More wrong requests than a key may send in a minute."""
    return _at_once(_REFUSALS, lambda _: target.post("/v1/recall", b"{", key=target.reader))


def unread_replies(target: Target) -> Sequence[str]:
    """Requests on connections whose replies are never read."""
    parts = urlsplit(target.url)
    body = json.dumps({"query": "x", "limit": 100}).encode()
    head = (
        f"POST /v1/recall HTTP/1.1\r\nHost: {parts.netloc}\r\nX-API-Key: {target.reader}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    opened: list[socket.socket] = []
    for _ in range(_UNREAD):
        one = socket.create_connection((str(parts.hostname), parts.port or 80))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        # Requests are pipelined, so that replies pile up in the server.
        one.settimeout(0.1)
        with suppress(OSError):
            for _ in range(100):
                one.sendall(head + body)
        opened.append(one)
    threading.Event().wait(5)
    for one in opened:
        one.close()
    return [f"{_UNREAD} connections"]


def uploads_of_a_reader(target: Target) -> Sequence[str]:
    """Large uploads at once by a caller who may not import."""
    body = b"x" * _UPLOAD_BYTES
    path = "/v1/import?format=markdown"
    return _at_once(
        _UPLOADS, lambda _: target.post(path, body, key=target.reader, kind="application/zip")
    )


def packed_upload(target: Target) -> Sequence[str]:
    """A small ZIP file of 2.4 GB of text."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(300):
            archive.writestr(f"{number}.md", b"- x\n" * 2_000_000)
    path = "/v1/import?format=markdown"
    return [target.post(path, packed.getvalue(), key=target.writer, kind="application/zip")]


def long_texts(target: Target) -> Sequence[str]:
    """Texts of punctuation, the slowest to embed, stored at once."""

    def store(number: int) -> str:
        text = f"Build {number}: " + "!?;:,." * 2_700
        body = json.dumps({"text": text}).encode()
        return target.post("/v1/remember", body, key=target.writer)

    return _at_once(_LONG_TEXTS, store)


_ATTACKS: Final[Sequence[Callable[[Target], Sequence[str]]]] = (
    wrong_items,
    nested_lists,
    many_tags,
    uploads_of_a_reader,
    packed_upload,
    long_texts,
    # These use up what the reader may send in a minute.
    unread_replies,
    refusals,
)


@attacks.command("attacks")
def attack(
    url: str,
    *,
    pid: Annotated[int | None, typer.Option(help="Of the server, to measure memory.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Names of attacks.")] = None,
) -> None:
    """Attack a server of your own, and print what each attack costs everybody else.

    Set COMMONBRAIN_READER_KEY and COMMONBRAIN_WRITER_KEY to a reader's and a writer's key.
    """
    target = Target(
        url=url.rstrip("/"),
        reader=os.environ["COMMONBRAIN_READER_KEY"],
        writer=os.environ["COMMONBRAIN_WRITER_KEY"],
    )
    for one in _ATTACKS:
        if only and one.__name__ not in only:
            continue
        began = time.monotonic()
        with watching(target.url, pid) as watch:
            replies = Counter(one(target))
        typer.echo(
            f"{one.__name__}: {time.monotonic() - began:.1f} s, slowest health check "
            f"{watch.slowest_s:.2f} s, at most {watch.resident_bytes / _MB:.0f} MB; "
            + ", ".join(f"{count} x {reply}" for reply, count in replies.most_common(4))
        )
    if pid is not None:
        threading.Event().wait(60)
        typer.echo(f"a minute later: {resident(pid) / _MB:.0f} MB")


def _at_once(count: int, call: Callable[[int], str]) -> list[str]:
    with ThreadPoolExecutor(min(count, _LONG_TEXTS)) as pool:
        return list(pool.map(call, range(count)))
