"""The middleware of the HTTP application: limits, traces, and the way to the page."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from http import HTTPStatus
from typing import Final

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from commonbrain.web.request_guard import OriginPolicy, raw_headers, with_headers
from commonbrain_server.http.problems import body_too_large, body_too_slow, problem
from commonbrain_server.http.sessions import MCP_PATH

_SAFE: Final = raw_headers(
    {
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
)
"""Default headers for browsers; no response is a page."""
JOIN_PATH: Final = "/v1/join"
"""The path of an invitation, which is a credential for nothing else."""
_ALLOWED_METHODS: Final = ("/v1/", "/v0/", MCP_PATH)
"""Paths that accept a body, from authenticated callers only."""


@dataclass(frozen=True, slots=True)
class RequestLimitsMiddleware:
    """Rejects requests that the policy refuses, without a credential, too large or too slow."""

    app: ASGIApp
    _: KW_ONLY
    policy: OriginPolicy
    body_bytes_max: int
    uploads: Mapping[str, int]
    """Limits for paths that accept files; their handlers read the body while it arrives."""
    body_s: float
    """Timeout for a request's body."""
    reject: Callable[[HTTPConnection], Awaitable[Response | None]]
    """Authenticates a request; returns the error response for one without a valid credential."""
    count: Callable[[HTTPConnection], Awaitable[None]]
    """Counts a request against the rate limit of its caller, unless it is counted already."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on an allowed request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        try:
            await self._serve(scope, receive, send=send)
        finally:
            await self.count(HTTPConnection(scope))

    async def _serve(self, scope: Scope, receive: Receive, *, send: Send) -> None:
        send_safely = with_headers(send, _SAFE)
        headers = Headers(scope=scope)
        refusal = self._reject_cross_origin(scope) or self._check_declared_length(
            headers, bytes_max=self._bytes_max(scope)
        )
        if refusal is None and scope["method"] == "POST" and scope["path"] in self.uploads:
            refusal = await self.reject(HTTPConnection(scope))
            await (refusal or self.app)(scope, receive, send_safely)
            return
        body = refusal or await self._read(scope, receive)
        if isinstance(body, Response):
            await body(scope, receive, send_safely)
        elif body is not None:
            await self.app(scope, replay_body(body, receive), send_safely)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | Response | None:
        """Read the body of an authenticated request, so that strangers cannot fill the memory."""
        has_body = scope["path"].startswith(_ALLOWED_METHODS) and scope["path"] != JOIN_PATH
        if scope["method"] != "POST" or not has_body:
            # No other request has a body that is used.
            return b""
        return await self.reject(HTTPConnection(scope)) or await self._body(
            receive, bytes_max=self._bytes_max(scope)
        )

    def _reject_cross_origin(self, scope: Scope) -> Response | None:
        if refusal := self.policy.refusal(scope):
            error, status = refusal
            return problem(error, status=status)
        return None

    def _bytes_max(self, scope: Scope) -> int:
        return self.uploads.get(scope["path"], self.body_bytes_max)

    def _check_declared_length(self, headers: Headers, *, bytes_max: int) -> Response | None:
        declared = headers.get("content-length", "0")
        is_too_large = declared.isdecimal() and int(declared) > bytes_max
        return self._too_large(bytes_max) if is_too_large else None

    async def _body(self, receive: Receive, *, bytes_max: int) -> bytes | Response | None:
        """Read the body.

        None if the client disconnected, an error response if it is too large or slow.
        """
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
            return problem(body_too_slow(), status=HTTPStatus.REQUEST_TIMEOUT)

    def _too_large(self, bytes_max: int) -> Response:
        return problem(body_too_large(bytes_max))


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Replay the body, then pass on later messages."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


_BROKEN: Final = 500


class TracingMiddleware:
    """Traces every request in a span named by its method, since a path can contain an id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._tracer = trace.get_tracer("commonbrain")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request inside its span."""
        is_traced = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        if scope["type"] != "http" or not is_traced:
            await self._app(scope, receive, send)
            return
        before = propagate.extract(Headers(scope=scope))
        attributes = {"http.request.method": scope["method"]}
        with self._tracer.start_as_current_span(
            scope["method"],
            before,
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
        ) as span:

            async def send_traced(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= _BROKEN:
                        span.set_status(Status(StatusCode.ERROR))
                    propagate.inject(MutableHeaders(scope=message))
                await send(message)

            await self._app(scope, receive, send_traced)


class PageMiddleware:
    """Passes requests for the web page to it, and all others on.

    The page has rules of its own for hosts, cookies and bodies.
    """

    def __init__(self, app: ASGIApp, *, page: Starlette) -> None:
        self._app = app
        self._page = TracingMiddleware(page)
        paths = [route.path for route in page.routes if isinstance(route, Route | Mount)]
        self._segments = {_first_segment(path) for path in paths}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        is_page = scope["type"] == "http" and _first_segment(scope["path"]) in self._segments
        await (self._page if is_page else self._app)(scope, receive, send)


def _first_segment(path: str) -> str:
    return path.lstrip("/").partition("/")[0]
