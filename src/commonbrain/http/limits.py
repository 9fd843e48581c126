"""Stands before every door: which hosts are meant, how much may be sent, what browsers are told."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from commonbrain.http.oauth import MCP_PATH
from commonbrain.http.problems import problem
from commonbrain.model.errors import InvalidInputError, RejectedError, UnavailableError

_SAFE: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""What every response tells a browser, unless it says so itself: nothing here is a page."""
_ALLOWED_METHODS: Final = ("/v1/", "/v0/", MCP_PATH)
"""Where bodies are taken, of who has a credential."""


@dataclass(frozen=True, slots=True)
class RequestLimitsMiddleware:
    """Refuses what is meant for another host, comes from a foreign page, or is too much or slow.

    A page in a browser may make requests to loopback, and may give its own name an address there:
    its `Origin` and `Host` give it away.
    """

    app: ASGIApp
    _: KW_ONLY
    hosts: frozenset[str]
    """Names and addresses, without ports, that may stand in `Host` and `Origin`; `*` is any."""
    body_bytes_max: int
    larger: Mapping[str, int]
    """The same for paths that take files."""
    body_s: float
    """How long a request's body may take to arrive."""
    reject: Callable[[HTTPConnection], Awaitable[Response | None]]
    """Looks at the credential of a request; who has none that is good is not listened to."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may be."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SAFE.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._reject_cross_origin(headers) or self._check_declared_length(
            headers, bytes_max=self._bytes_max(scope)
        )
        body = refusal or await self._read(scope, receive)
        if isinstance(body, Response):
            await body(scope, receive, send_safely)
        elif body is not None:
            await self.app(scope, _replay_body(body, receive), send_safely)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | Response | None:
        """Read the body of who may send one: whoever is not let in fills no memory of ours."""
        if scope["method"] != "POST" or not scope["path"].startswith(_ALLOWED_METHODS):
            # Nothing here takes a body in another way.
            return b""
        return await self.reject(HTTPConnection(scope)) or await self._body(
            receive, bytes_max=self._bytes_max(scope)
        )

    def _reject_cross_origin(self, headers: Headers) -> Response | None:
        origin = headers.get("origin")
        if not self._is_ours(f"//{headers.get('host', '')}"):
            error_text = RejectedError(
                "This host is not served here.", code="host_denied", hint=_HOSTS
            )
            return problem(error_text, status=HTTPStatus.MISDIRECTED_REQUEST)
        if origin is not None and not self._is_ours(origin):
            error_text = RejectedError(
                "Pages of this origin may not call.", code="origin_denied", hint=_HOSTS
            )
            return problem(error_text)
        return None

    def _is_ours(self, url: str) -> bool:
        try:
            host = urlsplit(url).hostname
        except ValueError:
            return False
        return bool(host) and (host in self.hosts or "*" in self.hosts)

    def _bytes_max(self, scope: Scope) -> int:
        return self.larger.get(scope["path"], self.body_bytes_max)

    def _check_declared_length(self, headers: Headers, *, bytes_max: int) -> Response | None:
        declared = headers.get("content-length", "0")
        is_too_large = declared.isdecimal() and int(declared) > bytes_max
        return self._too_large(bytes_max) if is_too_large else None

    async def _body(self, receive: Receive, *, bytes_max: int) -> bytes | Response | None:
        """Read the body; None when the client hung up, a response when it may not go on."""
        body = bytearray()
        try:
            async with asyncio.timeout(self.body_s):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    body += message.get("body", b"")
                    if len(body) > bytes_max:
                        return self._too_large(bytes_max)
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            late = UnavailableError(
                "The body did not arrive in time.", code="deadline", hint="Resend."
            )
            return problem(late, status=HTTPStatus.REQUEST_TIMEOUT)

    def _too_large(self, bytes_max: int) -> Response:
        error_text = InvalidInputError(
            f"The body has more than {bytes_max} bytes.",
            code="limit_exceeded",
            hint="Send it in parts.",
        )
        return problem(error_text, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


_HOSTS: Final = "Who runs the server allows hosts: brain serve --allow-host NAME."


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Give the body again, then whatever comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
