"""The HTTP application: REST, MCP and health in one process."""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from commonbrain.api.dispatch import CallContext, record_unstarted
from commonbrain.api.operations import Profile
from commonbrain.api.thread_limiter import ThreadLimiter, enter_lane
from commonbrain.client import Brain
from commonbrain.mcp.server import Message as McpMessage
from commonbrain.mcp.server import client_of, server_of
from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.model.limits import UPLOAD_BYTES_MAX
from commonbrain.model.scope import LOCAL_TENANT, Authority, Role, Trust, lowest
from commonbrain.runtime.local_requests import start_local_server
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.web.app import LoginScreen, make_page
from commonbrain.web.logins import PageLogins
from commonbrain.web.page_settings import LOOPBACK, PageSettings
from commonbrain.web.request_guard import OriginPolicy
from commonbrain_server.background_embedding import BackgroundEmbedding, share_embedder
from commonbrain_server.guard import guard_services
from commonbrain_server.http.authentication import (
    WELL_KNOWN,
    ProtectedResource,
    RequestAuthenticator,
    authenticated,
)
from commonbrain_server.http.calls import OperationsMiddleware
from commonbrain_server.http.description import PROBLEMS, SERVERS, complete
from commonbrain_server.http.middleware import (
    PageMiddleware,
    RequestLimitsMiddleware,
    TracingMiddleware,
    replay_body,
)
from commonbrain_server.http.problems import (
    framework_problem,
    internal_problem,
    malformed,
    problem,
)
from commonbrain_server.http.rest import (
    IMPORT_PATH,
    FileUploads,
    register_compat_routes,
    register_file_routes,
    register_invitations,
    register_routes,
)
from commonbrain_server.http.sessions import (
    MCP_PATH,
    client_in_message,
    has_handshake,
    has_session_header,
    named_session,
    naming_session,
    new_key,
    offering_cookie,
)
from commonbrain_server.security.authentication import Authenticator


@dataclass(frozen=True, slots=True)
class AuthenticatedCaller:
    """The caller of a message, whose request carries a credential."""

    authenticator: RequestAuthenticator
    context: McpMessage

    def role(self) -> Role:
        """Return the role of the credential."""
        return authenticated(_request(self.context)).role

    @property
    def takes_session(self) -> bool:
        """Whether calls can name their session: neither protocol nor header does."""
        request = _request(self.context)
        return not has_handshake(request) and not has_session_header(request)

    async def is_admitted(self) -> bool:
        """Return whether the credential still gives what it gave when the message arrived."""
        return await self.authenticator.is_admitted(_request(self.context))

    def brain(self, *, session: str | None = None, starts: bool = False) -> Brain:
        """Return the brain as the credential's agent, in the client's session."""
        request = _request(self.context)
        client = client_of(self.context)
        caller = authenticated(request)
        # A model fills in the arguments, also with an admin's key: it is no person, unless an admin
        # trusts its agent fully, and cannot claim more trust than a user.
        is_trusted = caller.trust_ceiling is Trust.TRUSTED_TOOL
        authority = caller.authority if is_trusted else lowest([caller.authority, Authority.MODEL])
        ceiling = min(caller.trust_ceiling, Trust.USER_CLAIM, key=lambda trust: trust.weight)
        named = f"{client.name}/{client.version}" if client else None
        return self.authenticator.brain_for(
            replace(caller, trust_ceiling=ceiling, authority=authority),
            request,
            client=named,
            session=session,
            starts=starts,
        )

    def record_missed_call(self, call: CallContext, error: CommonbrainError) -> None:
        """Do nothing: remote callers must not be able to fill the disk."""

    def record_unstarted(
        self, call: CallContext, error: CommonbrainError, *, waited_s: float
    ) -> None:
        """Record a call that waited for a thread and got none."""
        brain = Brain(self.authenticator.brain.services, authenticated(_request(self.context)))
        record_unstarted(call, brain, error=error, waited_s=waited_s)

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
            partial(AuthenticatedCaller, authenticator),
            threads=authenticator.threads,
            profile=profile,
            is_duplex=False,
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
            await self._manager.handle_request(scope, replay_body(body, receive), sending)

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


_LOG: Final = logging.getLogger(__name__)
HEALTH_PATHS: Final = ("/healthz", "/readyz")
"""Whether the process runs, and whether store and embedder answer."""
_READY_S: Final = 1.5
"""Seconds for a check of the latter, in threads that no call takes; probes wait 2 s or longer."""
_ABOUT: Final = (
    "One long-term memory that all your agents share. Every operation is a POST whose body is its "
    "request; errors are Problem Details (RFC 9457) with a stable `code` and the next step in "
    "`hint`. MCP is at `/mcp`."
)


class Application(FastAPI):
    """The application; every error in its OpenAPI description has a schema."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI description."""
        if self.openapi_schema is None:
            self.openapi_schema = complete(super().openapi())
        return self.openapi_schema

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
    services, embedding = share_embedder(guard_services(brain.services))
    brain = Brain(services, brain.caller)
    authenticator = RequestAuthenticator(
        brain=brain,
        access=access,
        threads=ThreadLimiter(
            limits.calls_at_once,
            seconds_max=limits.request_s,
            around=brain.services.store.consistent_reads,
            is_held=brain.services.store.is_restarting,
        ),
        resource=resource or ProtectedResource(url="http://127.0.0.1:8377"),
    )
    transport = McpEndpoint(authenticator, served)
    probes = ThreadLimiter(2, seconds_max=_READY_S)
    app = Application(
        title="Commonbrain",
        description=_ABOUT,
        version=version("commonbrain"),
        servers=[*SERVERS],
        lifespan=partial(
            _lifespan,
            authenticator=authenticator,
            transport=transport,
            closing=(probes, embedding),
        ),
        # Both pages load scripts from other sites.
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=True,
    )
    _handle_errors(app, authenticator)
    app.include_router(register_routes(authenticator))
    uploads = FileUploads(
        bytes_max=limits.upload_bytes_max,
        seconds_max=limits.request_s,
        places=authenticator.upload_places,
    )
    app.include_router(register_file_routes(authenticator, uploads))
    app.include_router(register_compat_routes(authenticator))
    app.include_router(register_invitations(authenticator))
    _add_health(app, authenticator, probes=probes)
    app.router.routes.append(Route(MCP_PATH, endpoint=transport))
    app.add_middleware(OperationsMiddleware, authenticator=authenticator)
    app.add_middleware(TracingMiddleware)
    app.add_middleware(
        RequestLimitsMiddleware,
        policy=OriginPolicy(hosts=hosts, url=authenticator.resource.url),
        body_bytes_max=limits.body_bytes_max,
        uploads={IMPORT_PATH: limits.upload_bytes_max},
        body_s=limits.request_s,
        reject=authenticator.reject,
        count=authenticator.count,
    )
    app.state.authenticator = authenticator
    return app


def add_page(
    app: FastAPI,
    sessions: PageLogins,
    *,
    login: LoginScreen,
    hosts: frozenset[str] = LOOPBACK,
) -> None:
    """Serve the web page too.

    Args:
        app: an application that `make_app` returned.
        sessions: the sessions of browsers.
        login: lets people log in.
        hosts: names and addresses that browsers may use.

    """
    authenticator: RequestAuthenticator = app.state.authenticator
    settings = PageSettings(
        hosts=hosts,
        url=authenticator.resource.url,
        redact=authenticator.outages.redact,
        take_upload=authenticator.upload_places.take,
    )
    page = make_page(
        authenticator.brain,
        sessions,
        threads=authenticator.threads,
        settings=settings,
        login_screen=login,
    )
    app.add_middleware(PageMiddleware, page=page)


@asynccontextmanager
async def _lifespan(
    _app: FastAPI,
    *,
    authenticator: RequestAuthenticator,
    transport: McpEndpoint,
    closing: Sequence[ThreadLimiter | BackgroundEmbedding],
) -> AsyncGenerator[None]:
    async with transport.open():
        # Connections are accepted from the end of this on: none waits for the model.
        await _warm_up(authenticator)
        local = start_local_server(authenticator.brain, has_worker=False)
        try:
            yield
        finally:
            if local is not None:
                local.close()
            for one in (authenticator.threads, *closing):
                one.close()
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
            case ClientDisconnect():
                # Nobody reads it.
                return Response(status_code=HTTPStatus.BAD_REQUEST)
            case _:
                return internal_problem()

    expected = (CommonbrainError, RequestValidationError, HTTPException, ClientDisconnect)
    for kind in (*expected, Exception):
        app.add_exception_handler(kind, error_handler)


def _add_health(
    app: FastAPI, authenticator: RequestAuthenticator, *, probes: ThreadLimiter
) -> None:
    """Add the health endpoints, for supervisors and load balancers."""

    async def live() -> dict[str, str]:
        return {"status": "live"}

    async def ready() -> dict[str, str]:
        enter_lane(None)
        try:
            await probes.run(partial(check_readiness, authenticator.brain))
        except CommonbrainError as error:
            # Anyone may call it, any number of times: log the outage once.
            authenticator.outages.record(error)
            raise
        authenticator.outages.clear()
        return {"status": "ready"}

    async def metadata(_request: Request) -> JSONResponse:
        return JSONResponse(authenticator.resource.document())

    options: dict[str, Any] = {"tags": ["health"], "methods": ["GET"]}
    live_path, ready_path = HEALTH_PATHS
    app.add_api_route(live_path, live, summary="The process lives", operation_id="live", **options)
    app.add_api_route(
        ready_path,
        ready,
        summary="Store and embedder answer",
        operation_id="ready",
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
