"""Authenticates requests: the credential identifies the caller, headers the session."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from secrets import token_hex
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

from commonbrain.api.dispatch import authorize, record_denial
from commonbrain.api.operations import Transport
from commonbrain.api.thread_limiter import ThreadLimiter, enter_counting_lane, enter_lane
from commonbrain.client import Brain
from commonbrain.ingestion.validation import check_address
from commonbrain.model.errors import (
    AuthenticationError,
    CommonbrainError,
    LimitExceededError,
    RejectedError,
)
from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.scope import Caller
from commonbrain.model.sessions import ClientInfo, printable_name
from commonbrain.storage.interface import ADMITTING
from commonbrain_server.guard import guard_of
from commonbrain_server.http.problems import OutageHandler, problem
from commonbrain_server.http.sessions import (
    MCP_PATH,
    client_in_key,
    named_session,
    new_key,
    set_started,
    shared_key,
)
from commonbrain_server.security.authentication import Authenticator, check_claims
from commonbrain_server.upload_places import UploadPlaces

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedResource:
    """The server's public URL, and the issuer of its tokens."""

    url: str
    """Without a trailing slash."""
    issuer: str | None = None
    """None if only API keys are accepted."""

    def challenge(self, *, has_credential: bool) -> str:
        """Return the `WWW-Authenticate` header for a request without a valid credential."""
        parts = ['error="invalid_token"'] if has_credential else []
        if self.issuer:
            parts.append(f'resource_metadata="{self.url}{WELL_KNOWN}{MCP_PATH}"')
        return " ".join(("Bearer", ", ".join(parts))).strip()

    def document(self) -> dict[str, object]:
        """Return the OAuth metadata of the resource."""
        return {
            "resource": f"{self.url}{MCP_PATH}",
            "resource_name": "Commonbrain",
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        }


KEY_HEADER: Final = "x-api-key"
CLAIM_HEADERS: Final = ("commonbrain-tenant", "commonbrain-agent")
"""A caller's claimed tenant and agent; a claim that differs from the credential is refused."""
REQUEST_HEADER: Final = "x-request-id"
"""The request id in the access audit; generated if missing."""
_REQUEST_BYTES: Final = 8
_CHECKED_NAMES_MAX: Final = 10_000
"""A megabyte at most; a fleet of agents has some hundred."""
_CALLER_KEY: Final = "commonbrain.caller"
"""The key in the request's scope under which the caller is stored."""
_UNCOUNTED_KEY: Final = "commonbrain.uncounted"
"""The key of the caller whose rate limit has not counted the request yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAuthenticator:
    """Authenticates every request."""

    brain: Brain
    """A brain with the services that all callers share."""
    access: Authenticator
    threads: ThreadLimiter
    resource: ProtectedResource
    outages: OutageHandler = field(default_factory=OutageHandler)
    upload_places: UploadPlaces = field(default_factory=UploadPlaces)
    checked_names: set[str] = field(default_factory=set[str])
    """Names of sessions and clients in which no secret was found."""

    async def admit(self, request: HTTPConnection) -> Caller:
        """Authenticate a request; repeated calls return the same caller.

        Raises:
            AuthenticationError: the credential is missing or not valid.
            RejectedError: the key is not allowed from that address, or for that agent.
            LimitExceededError: `rate_limited`, the caller was rejected for it a moment ago.
            UnavailableError: the credential cannot be checked now.

        """
        known: Caller | None = request.scope.get(_CALLER_KEY)
        if known is not None:
            return known
        caller = await self._authenticate(request)
        self._check_blocked(caller)
        request.scope[_UNCOUNTED_KEY] = caller
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

    async def is_admitted(self, request: HTTPConnection) -> bool:
        """Return whether the credential of a long request still gives what it gave at its start.

        Raises:
            LimitExceededError: too many credentials from that address were wrong.
            UnavailableError: the credential cannot be checked now.

        """
        try:
            caller = await self._authenticate(request)
        except (AuthenticationError, RejectedError):
            return False
        return caller == replace(authenticated(request), request_id=caller.request_id)

    async def _authenticate(self, request: HTTPConnection) -> Caller:
        """Return the caller of a request's credential, whose turn its calls take."""
        enter_lane(None)
        address = request.client.host if request.client else None
        credential = credential_of(request)
        caller = self.access.known(credential, address=address)
        if caller is None:
            check = partial(self.access.admit, credential, address=address)
            caller = await self.threads.run(check)
        enter_lane(caller)
        return caller

    def _check_blocked(self, caller: Caller) -> None:
        services = self.brain.services
        try:
            guard_of(services).quotas.check_blocked(caller)
        except LimitExceededError as error:
            record_denial(ADMITTING, services, caller=caller, error=error)
            raise

    async def count(self, request: HTTPConnection) -> None:
        """Count a request that no operation has counted, such as a refused one."""
        caller: Caller | None = request.scope.pop(_UNCOUNTED_KEY, None)
        if caller is not None:
            enter_counting_lane(caller)
            # A caller above its limit is rejected when it calls next.
            with suppress(CommonbrainError):
                await self.threads.run(partial(authorize, self.brain.services, caller))

    async def reject(self, request: HTTPConnection) -> Response | None:
        """Authenticate a request before its body is read; return the error response if it fails."""
        try:
            await self.admit(request)
        except LimitExceededError as error:
            # The further requests of a connection would be refused too, at a cost.
            response = self.error_response(error, request)
            response.headers["Connection"] = "close"
            return response
        except CommonbrainError as error:
            return self.error_response(error, request)
        return None

    def brain_for(
        self,
        caller: Caller,
        request: HTTPConnection,
        *,
        client: str | None = None,
        session: str | None = None,
        starts: bool = False,
    ) -> Brain:
        """Return the brain for a caller, in the session of the request; counts as a heartbeat.

        A request that names no session starts one if it `starts`, and else continues the one that
        its credential started last with this client. A caller above its rate limit starts none.

        Raises:
            InvalidInputError: a session's name is not valid.
            RejectedError: `secret_detected`, in the name of the session, client or request.
            LimitExceededError: `rate_limited`.

        """
        services = self.brain.services
        request.scope.pop(_UNCOUNTED_KEY, None)
        authorize(services, caller)
        key = session or named_session(request)
        # A client of the handshake protocol tells its name once: then the key contains it.
        client_name = client or client_in_key(key) or request.headers.get("user-agent", "")
        request_name = caller.request_id if REQUEST_HEADER in request.headers else None
        self._check_names(key or "", client_name, request_name or "")
        credential = caller.admission.credential if caller.admission else None
        if key is None and starts:
            key = new_key(client_name, credential=credential)
            set_started(request.scope, key)
        shared = shared_key(client_name, credential=credential) if key is None else None
        contact = ClientInfo(client=printable_name(client_name))
        session_caller = replace(caller, session=key, contact=contact)
        met = Brain(services, session_caller).session.meet(shared=shared)
        return Brain(
            services,
            replace(
                session_caller,
                session=met.key,
                project=caller.project or met.project,
                is_session_shared=shared is not None,
            ),
        )

    def _check_names(self, *names: str) -> None:
        """Refuse secrets in the names of a call; those of a client hardly change between calls.

        Raises:
            RejectedError: `secret_detected`.

        """
        unchecked = [name for name in names if name and name not in self.checked_names]
        check_address(unchecked, self.brain.services.secret_scanner)
        if len(self.checked_names) >= _CHECKED_NAMES_MAX:
            self.checked_names.clear()
        self.checked_names.update(name for name in unchecked if len(name) <= NAME_CHARS_MAX)

    def leave(self, caller: Caller, session: str) -> None:
        """Queue the end of a session whose connection closes; a later call revokes it.

        Raises:
            InvalidInputError: the session's name is not valid.

        """
        Brain(self.brain.services, replace(caller, session=session)).session.leave()

    def error_response(self, error: CommonbrainError, request: HTTPConnection) -> Response:
        """Convert an error to a response; 401 says how to authenticate."""
        response = problem(self.outages.redact(error))
        if isinstance(error, AuthenticationError):
            self.brain.services.telemetry.turned_away(error.code, transport=_transport_of(request))
            was_given = credential_of(request) is not None
            response.headers["WWW-Authenticate"] = self.resource.challenge(has_credential=was_given)
        return response


def authenticated(request: HTTPConnection) -> Caller:
    """Return the caller of an authenticated request."""
    return request.scope[_CALLER_KEY]


def credential_of(request: HTTPConnection) -> str | None:
    """Return a request's credential: a bearer token, or the key header."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return request.headers.get(KEY_HEADER) or None


def _transport_of(request: HTTPConnection) -> Transport:
    return Transport.MCP if request.url.path == MCP_PATH else Transport.REST
