"""Uploads made to hurt: refused before they are read, and never many at once."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import anyio
import httpx2
import pytest
from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request

from commonbrain.http.app import BodyLimits
from commonbrain.http.rest import Uploads
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.limits import UPLOADS_AT_ONCE_MAX
from commonbrain.testing.builders import a_brain
from tests.server.serving import an_app

pytestmark = pytest.mark.anyio
BYTES_MAX = 100_000


@pytest.fixture
def app(path: Path) -> FastAPI:
    return an_app(a_brain(path), limits=BodyLimits(upload_bytes_max=BYTES_MAX))


async def sent(app: FastAPI, content: AsyncIterator[bytes], *, key: str) -> httpx2.Response:
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.post(
            "/v1/import?format=markdown", content=content, headers={"X-API-Key": key}
        )


async def test_a_reader_is_refused_before_the_body_is_read(app: FastAPI) -> None:
    read = list[int]()

    async def body() -> AsyncGenerator[bytes]:
        read.append(1)
        yield b"- a note"

    reply = await sent(app, body(), key="key-of-rea")

    assert (reply.status_code, reply.json()["code"]) == (403, "insufficient_role")
    assert read == []


async def test_a_body_without_a_length_is_cut_at_the_limit(app: FastAPI) -> None:
    async def body() -> AsyncGenerator[bytes]:
        while True:
            yield b"x" * 10_000

    reply = await sent(app, body(), key="key-of-ann")

    assert (reply.status_code, reply.json()["code"]) == (422, "limit_exceeded")


async def test_a_few_uploads_arrive_at_once_and_others_are_told_to_retry(
    app: FastAPI,
) -> None:
    arrives, begun = anyio.Event(), anyio.Semaphore(0)
    statuses = list[int]()

    async def slow() -> AsyncGenerator[bytes]:
        yield b"- a note "
        begun.release()
        await arrives.wait()
        yield b"that ends"

    async def upload() -> None:
        statuses.append((await sent(app, slow(), key="key-of-ann")).status_code)

    async def at_once() -> AsyncGenerator[bytes]:
        yield b"- another note"

    async with anyio.create_task_group() as tasks:
        for _ in range(UPLOADS_AT_ONCE_MAX):
            tasks.start_soon(upload)
        for _ in range(UPLOADS_AT_ONCE_MAX):
            await begun.acquire()
        refused = await sent(app, at_once(), key="key-of-ann")
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        assert int(refused.headers["Retry-After"]) > 0
        arrives.set()
    assert statuses == [200] * UPLOADS_AT_ONCE_MAX
    assert (await sent(app, at_once(), key="key-of-ann")).status_code == 200


@pytest.mark.parametrize(
    ("seconds_max", "messages", "error"),
    [
        (30.0, [{"type": "http.disconnect"}], ClientDisconnect),
        (0.0, [], UnavailableError),
        (
            30.0,
            [{"type": "http.request", "body": b"x" * 101, "more_body": True}],
            InvalidInputError,
        ),
    ],
)
async def test_an_upload_that_does_not_arrive_leaves_no_file(
    tmp_path: Path, seconds_max: float, messages: list[dict[str, object]], error: type[Exception]
) -> None:
    async def receive() -> dict[str, object]:
        if messages:
            return messages.pop(0)
        await anyio.Event().wait()
        raise AssertionError

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)  # type: ignore[arg-type]
    uploads = Uploads(bytes_max=100, seconds_max=seconds_max, folder=tmp_path)
    with pytest.raises(error):
        async with uploads.receive(request):
            pass
    assert [one async for one in anyio.Path(tmp_path).iterdir()] == []
