"""Authenticates callers: every networked transport resolves a credential to a caller first."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Final, Generic, Protocol, TypeVar

from commonbrain.hosts import is_loopback
from commonbrain.model.errors import AuthenticationError, RejectedError
from commonbrain.model.scope import Admission, Authority, Caller, Role, Trust
from commonbrain.storage.interface import Tenant
from commonbrain_server.security.key_texts import KEY_SIGN
from commonbrain_server.security.keys import Agent


class Authenticator(Protocol):
    """Authenticates callers by their credentials."""

    def admit(self, credential: str | None, *, address: str | None) -> Caller:
        """Return the caller: tenant, agent, role and trust come from the credential alone.

        Args:
            credential: The token after `Bearer`, or an API key; None when there is none.
            address: The IP address of the client, if known.

        Raises:
            AuthenticationError: `missing_credential`, or `invalid_credential` for any defect.
            RejectedError: The credential may not be used from this address.
            UnavailableError: The credential cannot be checked now.

        """
        ...

    def invited(self, credential: str | None, *, address: str | None) -> Caller:
        """Return the agent that an invitation is for, which may make no calls.

        Raises:
            AuthenticationError: `invalid_credential`, it is no invitation that is still good.
            RejectedError: It may not be used from this address.

        """
        ...

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:
        """Return the caller if it is cached, without I/O.

        None does not mean that the credential is invalid: only `admit` rejects.
        """
        ...


class LocalAuthenticator:
    """Accepts every call from this machine as its user, whatever the credential.

    Programs of other users of the machine may call too; API keys tell users apart.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def admit(
        self,
        credential: str | None,  # noqa: ARG002 the port gives it
        *,
        address: str | None,
    ) -> Caller:
        """Return the user; reject calls from other machines."""
        if address is None or not is_loopback(address):
            raise RejectedError(
                "Without access control only this machine may call.",
                code="address_denied",
                hint="Serve without --open, and give each caller a key.",
            )
        return self._caller

    def invited(self, credential: str | None, *, address: str | None) -> Caller:  # noqa: ARG002
        """Reject every invitation: no key is needed."""
        raise AuthenticationError(
            "This server asks for no key, and exchanges none.",
            code="invalid_credential",
            hint="Connect without it, from this machine: brain connect CLIENT --url URL --no-key.",
        )

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:  # noqa: ARG002
        """Return the user if the call is from this machine."""
        return self._caller if address is not None and is_loopback(address) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A tenant and one of its agents as read from the store; None if missing."""

    tenant: Tenant | None
    agent: Agent | None
    read_at_ms: float

    @property
    def is_enabled(self) -> bool:
        """Whether the tenant exists and the agent, if known, is enabled."""
        return self.tenant is not None and (self.agent is None or self.agent.disabled_at is None)


def invalid_credential() -> AuthenticationError:
    """Create the error for an invalid credential; its message does not name the defect."""
    return AuthenticationError(
        "The credential is not valid.",
        code="invalid_credential",
        hint="Give a key or token that is neither wrong, over nor revoked.",
    )


def invalid_invitation() -> AuthenticationError:
    """Create the error for an invitation that is used, over, revoked or none at all."""
    return AuthenticationError(
        "The invitation is not valid.",
        code="invalid_credential",
        hint="It was used, is over or revoked: ask for another one.",
    )


def check_not_suspended(tenant: Tenant) -> None:
    """Reject calls to a suspended tenant.

    Raises:
        RejectedError: `tenant_suspended`.

    """
    if tenant.suspended_at is not None:
        raise RejectedError(
            "This tenant is suspended.",
            code="tenant_suspended",
            hint="Ask who runs the server.",
        )


def make_caller(principal: Principal, *, agent: str, role: Role, admission: Admission) -> Caller:
    """Create the caller of a networked transport; an unknown agent has the default trust.

    It writes as a model does, unless an admin gave it the role of an admin or full trust.
    """
    tenant, known = principal.tenant, principal.agent
    if tenant is None:
        raise invalid_credential()
    ceiling = known.trust_ceiling if known else Trust.USER_CLAIM
    # With either of these an admin named it to act for people.
    is_named = role is Role.ADMIN or ceiling is Trust.TRUSTED_TOOL
    return Caller(
        tenant=tenant.name,
        agent=agent,
        role=role,
        trust_default=known.trust_default if known else Trust.USER_CLAIM,
        trust_ceiling=ceiling,
        authority=Authority.PERSON if is_named else Authority.MODEL,
        admission=admission,
    )


def name_token(agent: str) -> str:
    """Return the name under which the tokens of an agent are counted and audited."""
    return f"token/{agent}"


def narrow_token_role(role: Role, agent: Agent | None) -> Role:
    """Return the lower of a token's role and its agent's, if the agent is known."""
    return agent.role if agent is not None and role.covers(agent.role) else role


def token_caller(
    principal: Principal, *, agent: str, role: Role, expires_at: datetime | None
) -> Caller:
    """Return the caller of a token.

    Raises:
        AuthenticationError: The tenant is missing or the agent disabled.
        RejectedError: `tenant_suspended`.

    """
    if principal.tenant is None or not principal.is_enabled:
        raise invalid_credential()
    check_not_suspended(principal.tenant)
    admission = Admission(
        credential=name_token(agent),
        role=role,
        policy=principal.tenant.policy,
        expires_at=expires_at,
    )
    return make_caller(principal, agent=agent, role=role, admission=admission)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatorChain:
    """Sends API keys to one authenticator and all other credentials to the other, if any."""

    keys: Authenticator
    tokens: Authenticator | None = None

    def admit(self, credential: str | None, *, address: str | None) -> Caller:
        """Return the caller."""
        if not credential:
            raise AuthenticationError(
                "This takes a credential.",
                code="missing_credential",
                hint="Send an API key or a token: Authorization: Bearer ...",
            )
        if credential.startswith(KEY_SIGN):
            return self.keys.admit(credential, address=address)
        if self.tokens is None:
            raise invalid_credential()
        return self.tokens.admit(credential, address=address)

    def invited(self, credential: str | None, *, address: str | None) -> Caller:
        """Return the agent that an invitation is for."""
        return self.keys.invited(credential, address=address)

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:
        """Return the caller of a cached key; tokens are verified on every call."""
        return self.keys.known(credential, address=address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """The accepted token issuer and how to read its claims."""

    name: str
    audience: str
    keys_url: str
    algorithms: tuple[str, ...]
    tenant_claim: str = "tenant"
    agent_claim: str = "sub"
    role_claim: str | None = "role"
    leeway_s: float = 30
    timeout_s: float = 5


CALLBACK_PATH: Final = "/login/callback"
LOGIN_OVER: Final = "login_over"
"""The code of the error for an answer of the issuer that belongs to no current login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcClient:
    """The web page as the issuer knows it: a client that logs people in."""

    id: str
    secret: str | None = field(default=None, repr=False)
    """None for a public client."""
    scopes: str = "openid"
    """Separated by spaces."""
    callback_url: str
    """The public address of `CALLBACK_PATH`, to which the issuer sends people back."""


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True, kw_only=True)
class LruCache(Generic[K, V]):
    """A thread-safe cache that evicts the least recently used value."""

    most: int
    _values: OrderedDict[K, V] = field(default_factory=OrderedDict["K", "V"])
    _lock: Lock = field(default_factory=Lock)

    def get(self, name: K) -> V | None:
        """Return a value and mark it as used."""
        with self._lock:
            if name not in self._values:
                return None
            self._values.move_to_end(name)
            return self._values[name]

    def put(self, name: K, value: V) -> None:
        """Store a value."""
        with self._lock:
            self._values[name] = value
            self._values.move_to_end(name)
            while len(self._values) > self.most:
                self._values.popitem(last=False)

    def renew(self, name: K, value: V) -> None:
        """Replace a value if it is still in the cache."""
        with self._lock:
            if name in self._values:
                self._values[name] = value

    def items(self) -> list[tuple[K, V]]:
        """List all values without marking them as used."""
        with self._lock:
            return list(self._values.items())

    def drop(self, name: K) -> None:
        """Remove a value."""
        with self._lock:
            self._values.pop(name, None)


def check_claims(caller: Caller, *, tenant: str | None, agent: str | None) -> None:
    """Reject a caller that claims to be another than its credential; None claims nothing.

    Raises:
        RejectedError: `tenant_mismatch` or `agent_mismatch`.

    """
    for what, claimed, known in (
        ("tenant", tenant, caller.tenant),
        ("agent", agent, caller.agent),
    ):
        if claimed is not None and claimed != known:
            raise RejectedError(
                f"The credential belongs to another {what} than the call claims.",
                code=f"{what}_mismatch",
                hint=f"Omit the {what}: the credential determines it.",
            )
