"""The async client, against a server over HTTP."""

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from commonbrain_client import (
    AuthenticationError,
    CommonbrainClient,
    ConnectionFailedError,
    File,
    InvalidRequestError,
    NotFoundError,
    RateLimitedError,
    UnavailableError,
    UnexpectedResponseError,
    models,
)
from failing import failing
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.serving import free_port, listening

KETTLE = "The kettle is in the blue cupboard."


@pytest.mark.requirement("CL-21")
async def test_memory_is_stored_recalled_and_superseded(url: str) -> None:
    async with CommonbrainClient(url, key="key-of-ann") as brain:
        stored = await brain.remember(models.RememberRequest(text=KETTLE, kind="fact"))
        results = await brain.recall(models.RecallRequest(query="Where is the kettle?"))
        id_ = results.items[0].id
        text = "The kettle is in the red cupboard."
        changed = await brain.revise(
            models.ReviseSupersedeRequest(id=id_, text=text, reason="It was moved.")
        )
        shown = await brain.memory(id_)

    assert [one.id for one in stored.items] == [id_]
    assert shown.current_id == changed.id != id_


@pytest.mark.requirement("CL-21")
async def test_session_started_by_boot_is_used_by_later_calls(url: str) -> None:
    async with CommonbrainClient(url, key="key-of-ann") as brain:
        await brain.boot(models.BootRequest(project="shop"))
        reply = await brain.session(models.SessionTaskRequest(text="Count the stock"))

    assert brain.session_name is not None
    assert reply.session == brain.session_name


@pytest.mark.requirement("CL-21")
async def test_import_of_a_file_returns_an_import_job(url: str) -> None:
    async with CommonbrainClient(url, key="key-of-ann") as brain:
        file = File(BytesIO(b"# Kitchen\n\n- The kettle is in the blue cupboard.\n"))
        reply = await brain.import_(file, format_="markdown", name="MEMORY.md")

    assert [job.kind for job in reply.jobs] == ["import"]


@pytest.mark.requirement("CL-21")
async def test_error_has_the_code_hint_and_invalid_fields_sent_by_the_server(url: str) -> None:
    async with CommonbrainClient(url, key="key-of-ann") as brain:
        with pytest.raises(NotFoundError) as missing:
            await brain.get(models.GetRequest(id=["mem_0000000000000"]))
        with pytest.raises(InvalidRequestError) as invalid:
            await brain.status(models.StatusRequest(errors=-1))

    assert missing.value.code == "not_found"
    assert missing.value.hint == "Check the id, or search with recall."
    assert [one.field for one in invalid.value.invalid_fields] == ["body.errors"]


@pytest.mark.requirement("CL-21")
async def test_unknown_key_raises_an_authentication_error(url: str) -> None:
    async with CommonbrainClient(url, key="key-of-nobody") as brain:
        with pytest.raises(AuthenticationError):
            await brain.status()


@pytest.mark.requirement("CL-21")
async def test_rate_limited_call_is_retried_until_it_succeeds(path: Path) -> None:
    with failing(path, 429, 429) as (server, url):
        async with CommonbrainClient(url, key="key-of-ann") as brain:
            await brain.recall(models.RecallRequest(query="kettle"))

    assert server.calls["/v1/recall"] == 3


@pytest.mark.requirement("CL-21")
async def test_long_retry_time_is_raised_to_the_caller_without_a_retry(path: Path) -> None:
    with failing(path, 429, retry_after_s=3600) as (server, url):
        async with CommonbrainClient(url, key="key-of-ann") as brain:
            with pytest.raises(RateLimitedError) as raised:
                await brain.recall(models.RecallRequest(query="kettle"))

    assert raised.value.retry_after_s == 3600
    assert server.calls["/v1/recall"] == 1


@pytest.mark.requirement("CL-21")
async def test_remember_is_retried_with_the_same_idempotency_key(path: Path) -> None:
    with failing(path, 503) as (server, url):
        async with CommonbrainClient(url, key="key-of-ann") as brain:
            await brain.remember(models.RememberRequest(text=KETTLE))

    assert len(server.keys) == 2
    assert len({*server.keys}) == 1
    assert None not in server.keys


@pytest.mark.requirement("CL-21")
async def test_revise_that_may_have_succeeded_is_not_retried(path: Path) -> None:
    with failing(path, 503) as (server, url):
        async with CommonbrainClient(url, key="key-of-ann") as brain:
            with pytest.raises(UnavailableError):
                await brain.revise(models.RevisePinRequest(id="mem_0000000000000"))

    assert server.calls["/v1/revise"] == 1


@pytest.mark.requirement("CL-21")
async def test_boot_that_may_have_started_a_session_is_not_retried(path: Path) -> None:
    with failing(path, 503) as (server, url):
        async with CommonbrainClient(url, key="key-of-ann") as brain:
            with pytest.raises(UnavailableError):
                await brain.boot(models.BootRequest(project="shop"))

    assert server.calls["/v1/boot"] == 1


@pytest.mark.requirement("CL-21")
async def test_response_of_another_program_raises_an_unexpected_response_error() -> None:
    app = Starlette(routes=[Route("/{path:path}", _page, methods=["POST"])])
    with listening(app) as other:
        async with CommonbrainClient(other) as brain:
            with pytest.raises(UnexpectedResponseError) as raised:
                await brain.status()

    assert raised.value.status == 502


def _page(_request: Request) -> Response:
    return Response("<h1>Bad gateway</h1>", 502)


@pytest.mark.requirement("CL-21")
async def test_unreachable_server_raises_a_connection_failed_error() -> None:
    async with CommonbrainClient(f"http://127.0.0.1:{free_port()}", retries=1) as brain:
        with pytest.raises(ConnectionFailedError) as raised:
            await brain.status()

    assert not raised.value.was_sent


def test_client_imports_no_package_of_the_server() -> None:
    program = (
        "import sys, commonbrain_client; "
        "print(sorted(sys.modules.keys() & {'commonbrain', 'numpy', 'onnxruntime', 'pydantic'}))"
    )

    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert shown.stdout.split() == [b"[]"]
