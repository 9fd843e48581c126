"""Lets callers in: who calls is told by the credential alone, of which session by headers."""

from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_hex
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

from commonbrain.api.dispatch import authorize, record_denial
from commonbrain.api.operations import Transport
from commonbrain.api.threads import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.http.problems import OutageHandler, problem
from commonbrain.model.errors import AuthenticationError, CommonbrainError, RejectedError
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.scope import Caller, check_claims
from commonbrain.model.sessions import ClientInfo, printable_name
from commonbrain.security.authentication import Authenticator
from commonbrain.storage.interface import ADMITTING

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
MCP_PATH: Final = "/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedResource:
    """Under which URL callers know the server, and who issues tokens for it."""

    url: str
    """Without a slash at the end."""
    issuer: str | None = None
    """None where API keys are all that there is."""

    def challenge(self, *, has_credential: bool) -> str:
        """Give `WWW-Authenticate` for a caller that is not known."""
        parts = ['error="invalid_token"'] if has_credential else []
        if self.issuer:
            parts.append(f'resource_metadata="{self.url}{WELL_KNOWN}{MCP_PATH}"')
        return " ".join(("Bearer", ", ".join(parts))).strip()

    def document(self) -> dict[str, object]:
        """Give the metadata of the resource."""
        return {
            "resource": f"{self.url}{MCP_PATH}",
            "resource_name": "Commonbrain",
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        }


SESSION_HEADERS: Final = ("commonbrain-session", "mcp-session-id")
"""Where a client may name its session, the first that is there."""
KEY_HEADER: Final = "x-api-key"
CLAIM_HEADERS: Final = ("commonbrain-tenant", "commonbrain-agent")
"""Who a call says that it is of; another than the credential's is refused, not believed."""
REQUEST_HEADER: Final = "x-request-id"
"""The name of a request, as the audit of access has it; one is drawn where there is none."""
_REQUEST_BYTES: Final = 8
_UNKNOWN_CLIENT: Final = "client"
_CALLER_KEY: Final = "commonbrain.caller"
"""Where a request carries who makes it, once that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAuthenticator:
    """Authenticates every request."""

    brain: Brain
    """What shows the house that all callers share."""
    access: Authenticator
    threads: ThreadLimiter
    resource: ProtectedResource
    outages: OutageHandler = field(default_factory=OutageHandler)

    async def admit(self, request: HTTPConnection) -> Caller:
        """Say who calls; a request is let in once, however often it is asked.

        Raises:
            AuthenticationError: the credential is missing or not valid.
            RejectedError: the key may not be used from that address, or by that agent.
            UnavailableError: it cannot be checked now.

        """
        known: Caller | None = request.scope.get(_CALLER_KEY)
        if known is not None:
            return known
        address = request.client.host if request.client else None
        credential = credential_of(request)
        caller = self.access.known(credential, address=address)
        if caller is None:
            check = partial(self.access.admit, credential, address=address)
            caller = await self.threads.run(check)
        tenant, agent = map(request.headers.get, CLAIM_HEADERS)
        try:
            check_claims(caller, tenant=tenant, agent=agent)
        except RejectedError as error:
            record_denial(ADMITTING, self.brain.services, caller=caller, error=error)
            self.brain.services.telemetry.turned_away(error.code, transport=_transport_of(request))
            raise
        request_name = printable_name(request.headers.get(REQUEST_HEADER, ""))
        identified = replace(caller, request_id=request_name or token_hex(_REQUEST_BYTES))
        request.scope[_CALLER_KEY] = identified
        return identified

    async def reject(self, request: HTTPConnection) -> Response | None:
        """Let a caller in before anything else of a request is read; else say why not."""
        try:
            await self.admit(request)
        except CommonbrainError as error:
            return self.error_response(error, request)
        return None

    def brain_for(
        self, caller: Caller, request: HTTPConnection, *, client: str | None = None
    ) -> Brain:
        """Open the brain for a caller, in the session of the request; counts as its heartbeat.

        A client that names no session has one for each agent, under its own name: a program that
        keeps nothing between two calls does not begin a session with each.

        Who calls too often is turned away before that: it begins no session.

        Raises:
            InvalidInputError: what a header says is no name.
            LimitExceededError: `rate_limited`.

        """
        authorize(self.brain.services, caller)
        client_name = client or request.headers.get("user-agent", "")
        session_name = next(filter(None, map(request.headers.get, SESSION_HEADERS)), None)
        contact = ClientInfo(client=printable_name(client_name))
        session_caller = replace(
            caller, session=session_name or f"http {_client_family(client_name)}", contact=contact
        )
        session = Brain(self.brain.services, session_caller).session.meet()
        return Brain(
            self.brain.services, replace(session_caller, project=caller.project or session.project)
        )

    def error_response(self, error: CommonbrainError, request: HTTPConnection) -> Response:
        """Write an error as a response; 401 says how to authenticate."""
        response = problem(self.outages.redact(error))
        if isinstance(error, AuthenticationError):
            self.brain.services.telemetry.turned_away(error.code, transport=_transport_of(request))
            was_given = credential_of(request) is not None
            response.headers["WWW-Authenticate"] = self.resource.challenge(has_credential=was_given)
        return response


def authenticated(request: HTTPConnection) -> Caller:
    """Give who makes a request that was let in."""
    return request.scope[_CALLER_KEY]


def credential_of(request: HTTPConnection) -> str | None:
    """Give the credential that a request bears: a bearer token, or a key in its own header."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return request.headers.get(KEY_HEADER) or None


def _transport_of(request: HTTPConnection) -> Transport:
    return Transport.MCP if request.url.path == MCP_PATH else Transport.REST


def _client_family(client: str) -> str:
    """Give a client's name without its version, which changes while it is the same client."""
    words = (printable_name(client) or "").partition("/")[0].split()
    return " ".join(words)[: NAME_CHARS_MAX // 2] or _UNKNOWN_CLIENT
