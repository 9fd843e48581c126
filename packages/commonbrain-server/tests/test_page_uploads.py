"""A server's page takes a few uploads at once."""

from contextlib import AsyncExitStack

import pytest
from anyio.from_thread import start_blocking_portal
from commonbrain_server.upload_places import UploadPlaces
from starlette.requests import Request
from starlette.types import Message, Receive

from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import UPLOADS_AT_ONCE_MAX
from commonbrain.model.scope import Caller
from commonbrain.web.transfers import FormUploads


def a_request(receive: Receive) -> Request:
    headers = [(b"content-type", b"multipart/form-data; boundary=x")]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)


def test_number_of_concurrent_uploads_is_limited() -> None:
    async def empty() -> Message:
        return {"type": "http.request", "body": b"--x--\r\n", "more_body": False}

    async def receive() -> None:
        uploads = FormUploads(UploadPlaces().take)
        async with AsyncExitStack() as stack:
            for number in range(UPLOADS_AT_ONCE_MAX + 1):
                caller = Caller(tenant=f"t{number}", agent="ann")
                await stack.enter_async_context(uploads.receive(a_request(empty), caller))

    with (
        pytest.raises(UnavailableError, match="are being uploaded"),
        start_blocking_portal() as portal,
    ):
        portal.call(receive)
