"""The application: REST, MCP and health for one house, in one process."""

import gc
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Final

import anyio
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from mcp.server.lowlevel import Server
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from commonbrain.api.threads import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.http.authentication import RequestAuthenticator
from commonbrain.http.compat import register_compat_routes
from commonbrain.http.files import IMPORT_PATH, register_file_routes
from commonbrain.http.limits import RequestLimitsMiddleware
from commonbrain.http.mcp_http import McpEndpoint
from commonbrain.http.oauth import MCP_PATH, WELL_KNOWN, ProtectedResource
from commonbrain.http.problems import (
    framework_problem,
    internal_problem,
    malformed,
    problem_schemas,
)
from commonbrain.http.rest import PROBLEMS, register_routes
from commonbrain.http.tracing import TracingMiddleware
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import UPLOAD_BYTES_MAX
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.security.authentication import Authenticator

_LOG: Final = logging.getLogger(__name__)
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_ABOUT: Final = (
    "One long-term memory that all your agents share. Every operation is a POST whose body is its "
    "request; errors are Problem Details (RFC 9457) with a stable `code` and the next step in "
    "`hint`. MCP is at `/mcp`."
)


class Application(FastAPI):
    """What is served, with a description in which every error has its schema."""

    def openapi(self) -> dict[str, Any]:
        """Describe it."""
        described = super().openapi()
        described["components"]["schemas"].update(problem_schemas())
        return described

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve; a fault of ours goes to our log, for it is answered when it arrives here."""
        try:
            await super().__call__(scope, receive, send)
        except Exception:
            if scope["type"] != "http":
                raise
            # Whoever runs this would print its message, which may be a caller's own words.
            _LOG.exception("a request failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """How much one process takes on."""

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
    """Make the application for an open brain, and close the brain when it ends.

    Args:
        brain: the open store; each request acts as its own caller.
        access: who tells callers by their credentials.
        resource: under which URL callers know this server, and who issues tokens for it.
        hosts: names and addresses that requests may be meant for.
        limits: how much is taken on at once.
        served: what MCP carries, where it is not the operations.

    """
    limits = limits or BodyLimits()
    authenticator = RequestAuthenticator(
        brain=brain,
        access=access,
        threads=ThreadLimiter(
            limits.calls_at_once,
            seconds_max=limits.request_s,
            around=brain.services.store.one_moment,
        ),
        resource=resource or ProtectedResource(url="http://127.0.0.1:8377"),
    )
    transport = McpEndpoint(authenticator, served)
    app = Application(
        title="Commonbrain",
        description=_ABOUT,
        version=version("commonbrain"),
        lifespan=partial(_lifespan, authenticator=authenticator, transport=transport),
        # Both pages load scripts from elsewhere.
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
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()
            authenticator.threads.close()
            authenticator.brain.close()


async def _warm_up(authenticator: RequestAuthenticator) -> None:
    """Load the embedder and touch the store, so that the first caller need not wait for it."""
    try:
        await authenticator.threads.run(partial(check_readiness, authenticator.brain))
    except CommonbrainError as error:
        # It is told by /readyz, and asked again by it.
        authenticator.outages.record(error)
    except Exception:  # noqa: BLE001 a server starts whatever an embedder does
        _LOG.exception("warming up failed")
    # What is there now stays to the end: no collection needs to look through it again.
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
    """Add what a supervisor asks: whether this lives, whether it can be sent requests."""

    async def live() -> dict[str, str]:
        return {"status": "live"}

    async def ready() -> dict[str, str]:
        try:
            await authenticator.threads.run(partial(check_readiness, authenticator.brain))
        except CommonbrainError as error:
            # Anybody may ask, and as often as they like: the log tells once.
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
    """See to it that the store can be read and that the embedder is loaded and has answered.

    Raises:
        UnavailableError: one of them does not answer.

    """
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        tx.sessions.get("readiness", "readiness")
    # An answer to the same question is kept: an embedder that goes away later degrades recall,
    # which goes on by words, and takes no server out of service.
    brain.services.embedder.query("readiness")
