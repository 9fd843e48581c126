"""MCP over streamable HTTP: stateless, so that any worker can answer any message."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from commonbrain.api.dispatch import CallContext
from commonbrain.api.operations import Profile
from commonbrain.client import Brain
from commonbrain.http.authentication import RequestAuthenticator, authenticated
from commonbrain.http.problems import problem
from commonbrain.mcp.server import Message, client_of, server_of
from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.model.scope import Role, Trust
from commonbrain.runtime.settings_loading import load_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatedClients:
    """Resolves authenticated clients: each request carries its caller."""

    authenticator: RequestAuthenticator

    def role(self, context: Message) -> Role:
        """Return the role of the credential."""
        return authenticated(_request(context)).role

    def brain_for(self, context: Message) -> Brain:
        """Return the brain as the credential's agent, in the client's session."""
        request = _request(context)
        client = client_of(context)
        caller = authenticated(request)
        # A model fills in the arguments: it cannot claim more trust than a user.
        ceiling = min(caller.trust_ceiling, Trust.USER_CLAIM, key=lambda trust: trust.weight)
        named = f"{client.name}/{client.version}" if client else None
        return self.authenticator.brain_for(
            replace(caller, trust_ceiling=ceiling), request, client=named
        )

    def record_missed_call(
        self, context: Message, *, call: CallContext, error: CommonbrainError
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
        self._authenticator = authenticator
        profile = Profile(load_settings().mcp_profile)
        server = server or server_of(
            AuthenticatedClients(authenticator=authenticator),
            threads=authenticator.threads,
            profile=profile,
        )
        self._manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Accept messages until the block ends."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        error_response = await self._admit(scope)
        await (error_response or self._manager.handle_request)(scope, receive, send)

    async def _admit(self, scope: Scope) -> Response | None:
        request = Request(scope)
        if request.method != "POST":
            # The server pushes nothing and has no MCP sessions, so GET and DELETE have no use.
            error_text = InvalidInputError(
                "Messages come by POST.", code="method_not_allowed", hint="Use POST."
            )
            response = problem(error_text, status=405)
            response.headers["Allow"] = "POST"
            return response
        return await self._authenticator.reject(request)


def _request(context: Message) -> Request:
    return cast("Request", context.request)
