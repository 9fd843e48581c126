"""`python -m benchmarks attacks`: what hostile and clumsy callers cost a running server."""

from __future__ import annotations

import io
import json
import math
import os
import socket
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import httpx2
import psutil
import typer
from commonbrain_server.tenants import AgentRequest, KeyRequest, admin_of, tenants_of

from benchmarks.load.stack import stack
from commonbrain.client import Brain
from commonbrain.model.scope import Role
from commonbrain.runtime.bootstrap import open_brain

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
_STORED: Final = 30
_IMPORTS: Final = 5
_SECTIONS: Final = 20_000
_BEGUN_S: Final = 10
_OTHER_S_MAX: Final = 60
"""A job yields after ten seconds; then its present batch ends, which may embed for as long."""
_LATE: Final = f"another tenant's job was not done after {_OTHER_S_MAX} s"
_HEALTH_S_MAX: Final = 1.0
_RUNS_MAX: Final = 3
_RESIDENT_BYTES_MAX: Final = 700 * _MB
_RESIDENT_BYTES_AFTER: Final = 450 * _MB
"""The server holds 290 MB after its start."""
_RETURN_S: Final = 60
_TEMPORARY_BYTES_MAX: Final = 200 * _MB
"""Four uploads of 32 MB are received at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server under attack."""

    url: str
    reader: str
    writer: str
    other: str | None = None
    """The key of a writer of another tenant, who waits for a job meanwhile."""
    client: httpx2.Client = field(default_factory=lambda: httpx2.Client(timeout=_TIMEOUT_S))

    def post(self, path: str, content: bytes, *, key: str, kind: str = "application/json") -> str:
        """Send a request; return its status, or what went wrong."""
        headers = {"X-API-Key": key, "Content-Type": kind}
        try:
            reply = self.client.post(f"{self.url}{path}", content=content, headers=headers)
        except httpx2.HTTPError as error:
            return type(error).__name__
        return f"{reply.status_code} ({len(reply.content)} bytes)"

    def job_of_other(self) -> list[str]:
        """Run a small job as another tenant; return how long it waits for a worker."""
        if self.other is None:
            return []
        began = time.monotonic()
        request: dict[str, str] = {"op": "run", "kind": "embed"}
        while time.monotonic() - began < _OTHER_S_MAX:
            try:
                reply = self.client.post(
                    f"{self.url}/v1/job", json=request, headers={"X-API-Key": self.other}
                ).raise_for_status()
            except httpx2.HTTPError:
                return [_LATE]
            (job,) = reply.json()["jobs"]
            if job["state"] == "done":
                return [f"another tenant's job was done after {time.monotonic() - began:.0f} s"]
            request = {"op": "show", "id": job["id"]}
            threading.Event().wait(1)
        return [_LATE]


@dataclass(slots=True)
class Watch:
    """The slowest health check, infinite if one failed, and the most memory during one attack."""

    slowest_s: float = 0.0
    resident_bytes: int = 0
    temporary_bytes: int = 0
    """More than before the attack."""
    stops: threading.Event = field(default_factory=threading.Event)

    def poll(self, url: str, pid: int | None) -> None:
        """Ask for the server's health until the attack is over."""
        client = httpx2.Client(timeout=_TIMEOUT_S)
        before = temporary()
        while not self.stops.is_set():
            began = time.monotonic()
            try:
                client.get(f"{url}/healthz").raise_for_status()
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            except httpx2.HTTPError:
                self.slowest_s = math.inf
            if pid is not None:
                self.resident_bytes = max(self.resident_bytes, resident(pid))
                self.temporary_bytes = max(self.temporary_bytes, temporary() - before)
            self.stops.wait(_POLL_S)


def resident(pid: int) -> int:
    """Return the bytes of memory of a process and its children."""
    first = psutil.Process(pid)
    total = 0
    for one in (first, *first.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += one.memory_info().rss
    return total


def temporary() -> int:
    """Return the bytes of the temporary files of servers and workers on this machine."""
    total = 0
    for folder in Path(tempfile.gettempdir()).glob("commonbrain-*"):
        # Files and folders vanish while they are listed.
        with suppress(FileNotFoundError):
            for one in folder.rglob("*"):
                with suppress(OSError):
                    total += one.stat().st_size
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
    """Requests on connections whose replies, 100 KB each, are never read."""
    for number in range(_STORED):
        text = f"Shelf {number}: " + " ".join(f"box {number * 1000 + one}" for one in range(300))
        target.post("/v1/remember", json.dumps({"text": text}).encode(), key=target.writer)
    parts = urlsplit(target.url)
    body = json.dumps({"query": "shelf", "max_items": 100, "max_tokens": 32_000}).encode()
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
    return ()


def uploads_of_a_reader(target: Target) -> Sequence[str]:
    """Large uploads at once by a caller who may not import."""
    body = b"x" * _UPLOAD_BYTES
    path = "/v1/import?format=markdown"
    return _at_once(
        _UPLOADS, lambda _: target.post(path, body, key=target.reader, kind="application/zip")
    )


def packed_upload(target: Target) -> Sequence[str]:
    """A small ZIP file of 2.4 GB of text, and then a job of another tenant."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(300):
            archive.writestr(f"{number}.md", b"- x\n" * 2_000_000)
    path = "/v1/import?format=markdown&name=notes.zip"
    reply = target.post(path, packed.getvalue(), key=target.writer, kind="application/zip")
    return [reply, *target.job_of_other()]


def queued_imports(target: Target) -> Sequence[str]:
    """A few imports that are large, but allowed, and then a job of another tenant."""
    replies = list[str]()
    for number in range(_IMPORTS):
        sections = (f"## Pot {n}\n\nPot {n} of {number} is red." for n in range(_SECTIONS))
        path = f"/v1/import?format=markdown&name={number}.md"
        content = "\n\n".join(sections).encode()
        replies.append(target.post(path, content, key=target.writer, kind="text/markdown"))
    # The worker begins with the first of them.
    threading.Event().wait(_BEGUN_S)
    return [*replies, *target.job_of_other()]


def long_texts(target: Target) -> Sequence[str]:
    """Texts of punctuation, the slowest to embed, stored at once."""

    def store(number: int) -> str:
        text = f"Build {number}: " + "!?;:,." * 2_700
        body = json.dumps({"text": text}).encode()
        return target.post("/v1/remember", body, key=target.writer)

    return _at_once(_LONG_TEXTS, store)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack, with what the server should reply."""

    call: Callable[[Target], Sequence[str]]
    statuses: str
    """The statuses that replies may have; the last must be among them. Empty if none is read."""
    before: str
    """What it did before the server had bounds."""

    def failures(self, replies: Iterable[str]) -> Iterator[str]:
        """Yield what is wrong with the replies."""
        got = {reply.partition(" (")[0] for reply in replies if not reply.startswith(_OTHER)}
        expected = self.statuses.split()
        # A repeated attack can use up what its caller may send in a minute.
        if unexpected := got - {*expected, _LIMITED}:
            yield f"unexpected replies: {', '.join(sorted(unexpected))}"
        elif expected and not {expected[-1], _LIMITED} & got:
            yield f"no reply was {expected[-1]}"
        if _LATE in replies:
            yield _LATE


_LIMITED: Final = "429"
_OTHER: Final = "another tenant's job"
_ATTACKS: Final = (
    Attack(call=wrong_items, statuses="422", before="8 s, others waited 7 s, 1.4 GB"),
    Attack(call=nested_lists, statuses="400", before="400"),
    Attack(call=many_tags, statuses="422", before="accepted"),
    Attack(call=uploads_of_a_reader, statuses="403", before="2.3 GB before the 403"),
    Attack(call=packed_upload, statuses="422", before="2.3 GB of files, four hours of work"),
    Attack(call=long_texts, statuses="200", before="24 x 503 after 91 s"),
    # These use up what the reader may send in a minute.
    Attack(call=unread_replies, statuses="", before="kept until the client left"),
    Attack(call=refusals, statuses="400 429", before="never 429"),
    # A worker goes on with these.
    Attack(call=queued_imports, statuses="200", before="other tenants waited for the end of all"),
)


@attacks.command("attacks")
def attack(
    url: Annotated[
        str, typer.Argument(help="The URL of a server; without it, one is started.")
    ] = "",
    *,
    pid: Annotated[
        int | None, typer.Option(help="The process of the server, to measure its memory.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Run only these attacks.")] = None,
) -> None:
    """Attack a server, and fail if other callers notice more than they should.

    Starts a server of its own, on a new Postgres. To attack one of yours, give its URL, and set
    COMMONBRAIN_READER_KEY and COMMONBRAIN_WRITER_KEY to a reader's and a writer's key, and
    COMMONBRAIN_OTHER_KEY to that of a writer of another tenant, who waits for a worker meanwhile.
    """
    chosen = [one for one in _ATTACKS if not only or one.call.__name__ in only]
    with nullcontext((_target(url), pid)) if url else _own_server() as (target, process):
        failures = [failure for one in chosen for failure in _run(one, target, pid=process)]
        if process is not None:
            failures += _memory_returns(process)
    for failure in failures:
        typer.echo(f"FAILED {failure}", err=True)
    raise typer.Exit(1 if failures else 0)


def _target(url: str) -> Target:
    reader, writer = (os.environ[f"COMMONBRAIN_{one}_KEY"] for one in ("READER", "WRITER"))
    other = os.environ.get("COMMONBRAIN_OTHER_KEY")
    return Target(url=url.rstrip("/"), reader=reader, writer=writer, other=other)


@contextmanager
def _own_server() -> Generator[tuple[Target, int]]:
    """Run a server with one process, on a new Postgres with Redis and a worker."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        # Started by root, Postgres runs as another user and must get to its own folder.
        folder.chmod(0o711)
        running = opened.enter_context(stack(folder, workers=1))
        with open_brain() as brain:
            reader, writer = (_new_key(brain, role) for role in (Role.READER, Role.WRITER))
            tenants_of(brain).make("other")
            other = _new_key(
                Brain(brain.services, replace(brain.caller, tenant="other")), Role.WRITER
            )
        target = Target(url=running.url, reader=reader, writer=writer, other=other)
        yield target, running.processes["server"].pid


def _new_key(brain: Brain, role: Role) -> str:
    admin_of(brain).set_agent(role.value, AgentRequest(role=role))
    return str(admin_of(brain).create_key(KeyRequest(agent=role.value)).text)


def _run(attack: Attack, target: Target, *, pid: int | None) -> Iterator[str]:
    """Run an attack, print its cost, and yield the bounds that it broke.

    Other programs of the machine can delay a health check too: a delay counts if it comes again.
    """
    name = attack.call.__name__
    for _ in range(_RUNS_MAX):
        began = time.monotonic()
        with watching(target.url, pid) as watch:
            replies = Counter(attack.call(target))
        typer.echo(
            f"{name}: {time.monotonic() - began:.1f} s, slowest health check "
            f"{watch.slowest_s:.2f} s, at most {watch.resident_bytes / _MB:.0f} MB and "
            f"{watch.temporary_bytes / _MB:.0f} MB of temporary files; "
            + ", ".join(f"{count} x {reply}" for reply, count in replies.most_common(4))
            + f" (once: {attack.before})"
        )
        yield from (f"{name}: {failure}" for failure in attack.failures(replies))
        if watch.resident_bytes > _RESIDENT_BYTES_MAX:
            yield f"{name}: more than {_RESIDENT_BYTES_MAX / _MB:.0f} MB"
        if watch.temporary_bytes > _TEMPORARY_BYTES_MAX:
            yield f"{name}: more than {_TEMPORARY_BYTES_MAX / _MB:.0f} MB of temporary files"
        if watch.slowest_s <= _HEALTH_S_MAX:
            return
    yield f"{name}: {_RUNS_MAX} times, a health check failed or took over {_HEALTH_S_MAX:g} s"


def _memory_returns(pid: int) -> Iterator[str]:
    """Wait for the server to return memory; yield a failure if it does not within a minute."""
    began = time.monotonic()
    while (held := resident(pid)) > _RESIDENT_BYTES_AFTER and time.monotonic() < began + _RETURN_S:
        threading.Event().wait(1)
    typer.echo(f"memory {time.monotonic() - began:.0f} s later: {held / _MB:.0f} MB (once: 790 MB)")
    if held > _RESIDENT_BYTES_AFTER:
        yield f"more than {_RESIDENT_BYTES_AFTER / _MB:.0f} MB a minute after the attacks"


def _at_once(count: int, call: Callable[[int], str]) -> list[str]:
    with ThreadPoolExecutor(min(count, _LONG_TEXTS)) as pool:
        return list(pool.map(call, range(count)))
