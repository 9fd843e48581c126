"""Uploads made to hurt: refused before they are read, and never many at once."""

import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

import anyio
import httpx2
import pytest
from commonbrain_server.http.app import BodyLimits, add_page, make_app
from commonbrain_server.http.problems import BodyTooLargeError
from commonbrain_server.http.rest import FileUploads
from commonbrain_server.page_login import OpenLogin, OpenSessions
from commonbrain_server.security.logins import make_local_access
from commonbrain_server.tenants import tenants_of
from commonbrain_server.upload_places import UploadPlaces
from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request

from commonbrain.client import Brain
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import UPLOADS_AT_ONCE_MAX
from commonbrain.model.scope import Caller
from commonbrain.storage.blobs import Blobs, make_blobs
from commonbrain.storage.uploads import UploadStore
from tests.guarded import a_guarded_brain
from tests.serving import AS_FILE, an_app
from tests.web.visitors import csrf_in

pytestmark = pytest.mark.anyio
BYTES_MAX = 100_000


@pytest.fixture
def brain(path: Path) -> Brain:
    return a_guarded_brain(path)


@pytest.fixture
def app(brain: Brain) -> FastAPI:
    return an_app(brain, limits=BodyLimits(upload_bytes_max=BYTES_MAX))


async def sent(app: FastAPI, content: AsyncIterator[bytes], *, key: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.post(
            "/v1/import?format=markdown", content=content, headers={**AS_FILE, "X-API-Key": key}
        )


async def test_upload_by_a_reader_is_refused_before_its_body_is_read(app: FastAPI) -> None:
    read = list[int]()

    async def body() -> AsyncGenerator[bytes]:
        read.append(1)
        yield b"- a note"

    reply = await sent(app, body(), key="key-of-rea")

    assert (reply.status_code, reply.json()["code"]) == (403, "insufficient_role")
    assert read == []


async def test_upload_without_a_content_length_is_refused_at_the_size_limit(app: FastAPI) -> None:
    async def body() -> AsyncGenerator[bytes]:
        while True:
            yield b"x" * 10_000

    reply = await sent(app, body(), key="key-of-ann")

    assert (reply.status_code, reply.json()["code"]) == (413, "limit_exceeded")


async def test_concurrent_uploads_are_limited_per_tenant_and_per_agent(
    brain: Brain, app: FastAPI
) -> None:
    tenants_of(brain).make("other")
    arrives, begun = anyio.Event(), anyio.Semaphore(0)
    statuses = list[int]()

    async def slow() -> AsyncGenerator[bytes]:
        yield b"- a note "
        begun.release()
        await arrives.wait()
        yield b"that ends"

    async def upload(agent: str) -> None:
        statuses.append((await sent(app, slow(), key=f"key-of-{agent}")).status_code)

    async def at_once() -> AsyncGenerator[bytes]:
        yield b"- another note"

    async with anyio.create_task_group() as tasks:
        for agent in ("ann", "ben"):
            tasks.start_soon(upload, agent)
            await begun.acquire()
        for agent, reason in (("ann", "Another file of ann"), ("ada", "2 files of your tenant")):
            refused = await sent(app, at_once(), key=f"key-of-{agent}")
            assert (refused.status_code, refused.json()["code"]) == (503, "busy")
            assert refused.json()["detail"].startswith(reason)
            assert int(refused.headers["Retry-After"]) > 0
        assert (await sent(app, at_once(), key="key-of-zoe")).status_code == 200
        arrives.set()
    assert statuses == [200, 200]
    assert (await sent(app, at_once(), key="key-of-ada")).status_code == 200


def test_concurrent_uploads_of_all_tenants_together_are_limited() -> None:
    places = UploadPlaces()
    with ExitStack() as taken:
        for number in range(UPLOADS_AT_ONCE_MAX):
            taken.enter_context(places.take(Caller(tenant=f"t{number}", agent="ann")))
        with pytest.raises(UnavailableError, match="of others"):
            taken.enter_context(places.take(Caller(tenant="late", agent="ann")))
    with places.take(Caller(tenant="late", agent="ann")):
        pass


async def test_uploads_over_rest_and_on_the_page_share_one_limit(brain: Brain) -> None:
    access = make_local_access(brain.caller)
    app = make_app(brain, access)
    add_page(app, OpenSessions(access=access, clock=brain.services.clock), login=OpenLogin())
    statuses = list[int]()
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app),
        base_url="http://127.0.0.1",
        headers={"Accept": "text/html"},
        follow_redirects=True,
    ) as client:
        csrf = csrf_in((await client.get("/transfer")).text)

        async def send_on_page() -> int:
            reply = await client.post(
                f"/transfer/import?csrf={csrf}",
                data={"format": "markdown"},
                files={"file": ("notes.md", b"- a note")},
            )
            return reply.status_code

        async def slow() -> AsyncGenerator[bytes]:
            yield b"- a note "
            statuses.append(await send_on_page())
            yield b"that ends"

        reply = await client.post("/v1/import?format=markdown", content=slow(), headers=AS_FILE)
        statuses.append(reply.status_code)
        statuses.append(await send_on_page())
    assert statuses == [503, 200, 200]


@dataclass(frozen=True, slots=True)
class WaitingBlobs:
    """Waits in the midst of storing a file."""

    blobs: Blobs
    begun: Event = field(default_factory=Event)
    goes_on: Event = field(default_factory=Event)

    @property
    def location(self) -> str:
        return self.blobs.location

    def put(self, content: bytes) -> str:
        self.begun.set()
        self.goes_on.wait()
        return self.blobs.put(content)

    def get(self, digest: str) -> bytes:
        return self.blobs.get(digest)

    def drop(self, digest: str) -> None:
        self.blobs.drop(digest)


async def test_upload_of_a_disconnected_client_is_stored_before_its_file_is_deleted(
    brain: Brain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    blobs = WaitingBlobs(make_blobs(tmp_path / "blobs"))
    brain = Brain(replace(brain.services, uploads=UploadStore(lambda: blobs)), brain.caller)
    # The next call waits for the end of the first.
    app = an_app(brain, limits=BodyLimits(calls_at_once=1))

    async def body() -> AsyncGenerator[bytes]:
        yield b"- a note"

    async with anyio.create_task_group() as tasks:

        async def leave() -> None:
            await anyio.to_thread.run_sync(blobs.begun.wait)
            tasks.cancel_scope.cancel()

        tasks.start_soon(leave)
        await sent(app, body(), key="key-of-ann")
    assert len(list(temporary.iterdir())) == 1
    blobs.goes_on.set()

    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        reply = await client.post("/v1/job", json={}, headers={"X-API-Key": "key-of-ann"})
    assert "import" in {one["kind"] for one in reply.json()["jobs"]}
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("seconds_max", "messages", "error"),
    [
        (30.0, [{"type": "http.disconnect"}], ClientDisconnect),
        (0.0, [], UnavailableError),
        (
            30.0,
            [{"type": "http.request", "body": b"x" * 101, "more_body": True}],
            BodyTooLargeError,
        ),
    ],
)
async def test_incomplete_or_oversized_upload_leaves_no_file(
    tmp_path: Path, seconds_max: float, messages: list[dict[str, object]], error: type[Exception]
) -> None:
    async def receive() -> dict[str, object]:
        if messages:
            return messages.pop(0)
        await anyio.Event().wait()
        raise AssertionError

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)  # type: ignore[arg-type]
    uploads = FileUploads(bytes_max=100, seconds_max=seconds_max, folder=tmp_path)
    with pytest.raises(error):
        async with uploads.receive(request, Caller(agent="ann")):
            pass
    assert [one async for one in anyio.Path(tmp_path).iterdir()] == []
