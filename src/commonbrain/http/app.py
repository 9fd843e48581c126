"""The HTTP application: REST, MCP and health in one process."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final, cast
from urllib.parse import urlsplit

import anyio
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from commonbrain.api.dispatch import CallContext
from commonbrain.api.operations import Profile
from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.http.authentication import (
    WELL_KNOWN,
    ProtectedResource,
    RequestAuthenticator,
    authenticated,
)
from commonbrain.http.problems import (
    framework_problem,
    internal_problem,
    malformed,
    problem,
    problem_schemas,
)
from commonbrain.http.rest import (
    IMPORT_PATH,
    PROBLEMS,
    register_compat_routes,
    register_file_routes,
    register_routes,
)
from commonbrain.http.sessions import (
    MCP_PATH,
    client_in_message,
    has_handshake,
    has_session_header,
    named_session,
    naming_session,
    new_key,
    offering_cookie,
)
from commonbrain.mcp.server import Message as McpMessage
from commonbrain.mcp.server import client_of, server_of
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    RejectedError,
    UnavailableError,
)
from commonbrain.model.limits import UPLOAD_BYTES_MAX
from commonbrain.model.scope import LOCAL_TENANT, Role, Trust
from commonbrain.runtime.local_requests import start_local_server
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.security.authentication import Authenticator


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatedClients:
    """Resolves authenticated clients: each request carries its caller."""

    authenticator: RequestAuthenticator

    def role(self, context: McpMessage) -> Role:
        """Return the role of the credential."""
        return authenticated(_request(context)).role

    def takes_session(self, context: McpMessage) -> bool:
        """Return whether calls can name their session: neither protocol nor header does."""
        request = _request(context)
        return not has_handshake(request) and not has_session_header(request)

    def brain_for(
        self, context: McpMessage, *, session: str | None = None, starts: bool = False
    ) -> Brain:
        """Return the brain as the credential's agent, in the client's session."""
        request = _request(context)
        client = client_of(context)
        caller = authenticated(request)
        # A model fills in the arguments: it cannot claim more trust than a user.
        ceiling = min(caller.trust_ceiling, Trust.USER_CLAIM, key=lambda trust: trust.weight)
        named = f"{client.name}/{client.version}" if client else None
        return self.authenticator.brain_for(
            replace(caller, trust_ceiling=ceiling),
            request,
            client=named,
            session=session,
            starts=starts,
        )

    def record_missed_call(
        self, context: McpMessage, *, call: CallContext, error: CommonbrainError
    ) -> None:
        """Do nothing: remote callers must not be able to fill the disk."""

    def redact_error(self, error: CommonbrainError) -> CommonbrainError:
        """Remove file and host names from an error."""
        return self.authenticator.outages.redact(error)


class McpEndpoint:
    """Authenticates messages and passes them to the MCP library.

    It serves the operations, unless another server is given.
    """

    def __init__(
        self, authenticator: RequestAuthenticator, server: Server[Any] | None = None
    ) -> None:
        profile = Profile(load_settings().mcp_profile)
        server = server or server_of(
            AuthenticatedClients(authenticator=authenticator),
            threads=authenticator.threads,
            profile=profile,
        )
        self._authenticator = authenticator
        self._manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Accept messages until the block ends."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; the response names the session of a connection that opens."""
        request = Request(scope)
        is_closing = request.method == "DELETE" and has_session_header(request)
        if request.method != "POST" and not is_closing:
            await _only_post()(scope, receive, send)
        elif refusal := await self._authenticator.reject(request):
            await refusal(scope, receive, send)
        elif is_closing:
            await (await self._close(request))(scope, receive, send)
        else:
            body = await Request(scope, receive).body()
            sending = self._sending(request, body, send=send)
            await self._manager.handle_request(scope, _replay_body(body, receive), sending)

    async def _close(self, request: Request) -> Response:
        """End the session of a connection."""
        leave = self._authenticator.leave
        try:
            session = named_session(request) or ""
            await self._authenticator.threads.run(partial(leave, authenticated(request), session))
        except CommonbrainError as error:
            return self._authenticator.error_response(error, request)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    def _sending(self, request: Request, body: bytes, *, send: Send) -> Send:
        """Return what sends the response, with a session for a client that names none."""
        if named_session(request):
            return send
        client = client_in_message(body)
        if has_handshake(request):
            return naming_session(send, new_key(client)) if client is not None else send
        is_secure = self._authenticator.resource.url.startswith("https:")
        return offering_cookie(send, request, client=client or "", is_secure=is_secure)


def _only_post() -> Response:
    # The server pushes nothing, so GET has no use; DELETE only closes a session.
    error_text = InvalidInputError(
        "Messages come by POST.", code="method_not_allowed", hint="Use POST."
    )
    response = problem(error_text, status=405)
    response.headers["Allow"] = "POST"
    return response


def _request(context: McpMessage) -> Request:
    return cast("Request", context.request)


_SAFE: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Default headers for browsers; no response is a page."""
_ALLOWED_METHODS: Final = ("/v1/", "/v0/", MCP_PATH)
"""Paths that accept a body, from authenticated callers only."""


@dataclass(frozen=True, slots=True)
class RequestLimitsMiddleware:
    """Rejects requests to other hosts, from foreign pages, without a credential, too large or slow.

    A page in a browser can send requests to loopback, and point its own name to an address there;
    `Origin` and `Host` reveal it.
    """

    app: ASGIApp
    _: KW_ONLY
    hosts: frozenset[str]
    """Names and addresses, without ports, allowed in `Host` and `Origin`; `*` allows any."""
    body_bytes_max: int
    larger: Mapping[str, int]
    """Limits for paths that accept files."""
    body_s: float
    """Timeout for a request's body."""
    reject: Callable[[HTTPConnection], Awaitable[Response | None]]
    """Authenticates a request; returns the error response for one without a valid credential."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on an allowed request."""
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
        """Read the body of an authenticated request, so that strangers cannot fill the memory."""
        if scope["method"] != "POST" or not scope["path"].startswith(_ALLOWED_METHODS):
            # No other request has a body that is used.
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


_HOSTS: Final = "The server's operator can allow hosts: brain serve --allow-host NAME."


def _replay_body(body: bytes, receive: Receive) -> Receive:
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
        if scope["type"] != "http":
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


_LOG: Final = logging.getLogger(__name__)
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_ABOUT: Final = (
    "One long-term memory that all your agents share. Every operation is a POST whose body is its "
    "request; errors are Problem Details (RFC 9457) with a stable `code` and the next step in "
    "`hint`. MCP is at `/mcp`."
)


class Application(FastAPI):
    """The application; every error in its OpenAPI description has a schema."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI description."""
        described = super().openapi()
        described["components"]["schemas"].update(problem_schemas())
        return described

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; log an internal error, which has been answered when it arrives here."""
        try:
            await super().__call__(scope, receive, send)
        except Exception:
            if scope["type"] != "http":
                raise
            # The server would print the error's message, which can contain a caller's text.
            _LOG.exception("a request failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """Limits of one process."""

    body_bytes_max: int = 1024 * 1024
    upload_bytes_max: int = UPLOAD_BYTES_MAX
    request_s: float = 30.0
    calls_at_once: int = 16


def make_app(
    brain: Brain,
    access: Authenticator,
    *,
    resource: ProtectedResource | None = None,
    hosts: frozenset[str] = LOOPBACK,
    limits: BodyLimits | None = None,
    served: Server[Any] | None = None,
) -> FastAPI:
    """Make the application for an open brain; it closes the brain when it ends.

    Args:
        brain: the open store; each request acts as its own caller.
        access: authenticates callers by their credentials.
        resource: the server's public URL, and the issuer of its tokens.
        hosts: names and addresses that requests may be addressed to.
        limits: limits of this process.
        served: an MCP server to use instead of the operations.

    """
    limits = limits or BodyLimits()
    authenticator = RequestAuthenticator(
        brain=brain,
        access=access,
        threads=ThreadLimiter(
            limits.calls_at_once,
            seconds_max=limits.request_s,
            around=brain.services.store.consistent_reads,
        ),
        resource=resource or ProtectedResource(url="http://127.0.0.1:8377"),
    )
    transport = McpEndpoint(authenticator, served)
    app = Application(
        title="Commonbrain",
        description=_ABOUT,
        version=version("commonbrain"),
        lifespan=partial(_lifespan, authenticator=authenticator, transport=transport),
        # Both pages load scripts from other sites.
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=True,
    )
    _handle_errors(app, authenticator)
    app.include_router(register_routes(authenticator))
    app.include_router(register_file_routes(authenticator))
    app.include_router(register_compat_routes(authenticator))
    _add_health(app, authenticator)
    app.router.routes.append(Route(MCP_PATH, endpoint=transport))
    app.add_middleware(TracingMiddleware)
    app.add_middleware(
        RequestLimitsMiddleware,
        hosts=hosts,
        body_bytes_max=limits.body_bytes_max,
        larger={IMPORT_PATH: limits.upload_bytes_max},
        body_s=limits.request_s,
        reject=authenticator.reject,
    )
    return app


@asynccontextmanager
async def _lifespan(
    _app: FastAPI, *, authenticator: RequestAuthenticator, transport: McpEndpoint
) -> AsyncGenerator[None]:
    async with transport.open(), anyio.create_task_group() as tasks:
        tasks.start_soon(_warm_up, authenticator)
        local = start_local_server(authenticator.brain, has_worker=False)
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()
            if local is not None:
                local.close()
            authenticator.threads.close()
            authenticator.brain.close()


async def _warm_up(authenticator: RequestAuthenticator) -> None:
    """Load the embedder and open the store, so that the first caller need not wait."""
    try:
        await authenticator.threads.run(partial(check_readiness, authenticator.brain))
    except CommonbrainError as error:
        # /readyz reports it and tries again.
        authenticator.outages.record(error)
    except Exception:  # noqa: BLE001 the server starts without an embedder
        _LOG.exception("warming up failed")
    # Startup objects live until the end: exclude them from garbage collection.
    gc.collect()
    gc.freeze()


def _handle_errors(app: FastAPI, authenticator: RequestAuthenticator) -> None:
    """Answer every error with Problem Details."""

    async def error_handler(request: Request, error: Exception) -> Response:
        match error:
            case CommonbrainError():
                return authenticator.error_response(error, request)
            case RequestValidationError():
                return malformed(error)
            case HTTPException():
                return framework_problem(error)
            case _:
                return internal_problem()

    for kind in (CommonbrainError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, error_handler)


def _add_health(app: FastAPI, authenticator: RequestAuthenticator) -> None:
    """Add the health endpoints, for supervisors and load balancers."""

    async def live() -> dict[str, str]:
        return {"status": "live"}

    async def ready() -> dict[str, str]:
        try:
            await authenticator.threads.run(partial(check_readiness, authenticator.brain))
        except CommonbrainError as error:
            # Anyone may call it, any number of times: log the outage once.
            authenticator.outages.record(error)
            raise
        authenticator.outages.clear()
        return {"status": "ready"}

    async def metadata(_request: Request) -> JSONResponse:
        return JSONResponse(authenticator.resource.document())

    options: dict[str, Any] = {"tags": ["health"], "methods": ["GET"]}
    app.add_api_route("/healthz", live, summary="The process lives", **options)
    app.add_api_route(
        "/readyz",
        ready,
        summary="Store and embedder answer",
        responses={503: PROBLEMS[503]},
        **options,
    )
    if authenticator.resource.issuer:
        for path in (WELL_KNOWN, f"{WELL_KNOWN}{MCP_PATH}"):
            app.router.routes.append(Route(path, metadata))


def check_readiness(brain: Brain) -> None:
    """Check that the store can be read and that the embedder is loaded and has answered.

    Raises:
        UnavailableError: one of them does not answer.

    """
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        tx.sessions.get("readiness", "readiness")
    # The embedder's answer is cached: if it fails later, recall continues with full text, and the
    # server stays in service.
    brain.services.embedder.query("readiness")
