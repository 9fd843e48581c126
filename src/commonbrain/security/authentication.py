"""Who a credential speaks for: what every networked door asks before it does anything."""

from dataclasses import dataclass
from typing import Protocol

from commonbrain.model.agents import KEY_SIGN, Agent
from commonbrain.model.errors import AuthenticationError, RejectedError
from commonbrain.model.scope import Admission, Caller, Role
from commonbrain.model.trust import Trust
from commonbrain.storage.interface import Tenant
from commonbrain.text.locations import is_loopback


class Authenticator(Protocol):
    """Tells callers by their credentials."""

    def admit(self, credential: str | None, *, address: str | None) -> Caller:
        """Give who calls: tenant, agent, role and trust come from the credential alone.

        Args:
            credential: what follows `Bearer`, or an API key; None when there was none.
            address: the IP address that the call came from, where it is known.

        Raises:
            AuthenticationError: `missing_credential`, or `invalid_credential` whatever is wrong
                with it.
            RejectedError: the credential may not be used from there.
            UnavailableError: it cannot be checked now.

        """
        ...

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:
        """Give who calls where that is known at once, without a look at anything outside.

        None says nothing of the credential: whoever is to be refused is refused by `admit`.
        """
        ...


class LocalAuthenticator:
    """Takes every call from this machine for its user's, whatever credential it bears.

    Every program of the machine may call, those of other users too; a key tells them apart.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def admit(
        self,
        credential: str | None,  # noqa: ARG002 the port gives it
        *,
        address: str | None,
    ) -> Caller:
        """Give the user; a call from elsewhere is refused."""
        if address is None or not is_loopback(address):
            raise RejectedError(
                "Without access control only this machine may call.",
                code="address_denied",
                hint="Serve without --open, and give each caller a key.",
            )
        return self._caller

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:  # noqa: ARG002
        """Give the user, if the call is from here."""
        return self._caller if address is not None and is_loopback(address) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A tenant and one of its agents as they were read; None where there is none."""

    tenant: Tenant | None
    agent: Agent | None
    read_at_ms: float

    @property
    def is_good(self) -> bool:
        """Say whether there is such a tenant, and the agent, if it is known, may call."""
        return self.tenant is not None and (self.agent is None or self.agent.disabled_at is None)


def unknown() -> AuthenticationError:
    """Say that a credential will not do, in the same words whatever is wrong with it."""
    return AuthenticationError(
        "The credential is not valid.",
        code="invalid_credential",
        hint="Give a key or token that is neither wrong, over nor revoked.",
    )


def check_open(tenant: Tenant) -> None:
    """Refuse whoever comes to a suspended tenant with a good credential.

    Raises:
        RejectedError: `tenant_suspended`.

    """
    if tenant.suspended_at is not None:
        raise RejectedError(
            "This tenant is suspended.",
            code="tenant_suspended",
            hint="Ask who runs the server.",
        )


def a_caller(standing: Principal, *, agent: str, role: Role, admission: Admission) -> Caller:
    """Make the caller of a networked door; an agent without a row has the usual trust."""
    tenant, known = standing.tenant, standing.agent
    if tenant is None:
        raise unknown()
    return Caller(
        tenant=tenant.name,
        agent=agent,
        role=role,
        trust_default=known.trust_default if known else Trust.USER_CLAIM,
        trust_ceiling=known.trust_ceiling if known else Trust.USER_CLAIM,
        admission=admission,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatorChain:
    """Asks the keys about what looks like a key, and the tokens, if there are any, of the rest."""

    keys: Authenticator
    tokens: Authenticator | None = None

    def admit(self, credential: str | None, *, address: str | None) -> Caller:
        """Give who calls."""
        if not credential:
            raise AuthenticationError(
                "This takes a credential.",
                code="missing_credential",
                hint="Send an API key or a token: Authorization: Bearer ...",
            )
        if credential.startswith(KEY_SIGN):
            return self.keys.admit(credential, address=address)
        if self.tokens is None:
            raise unknown()
        return self.tokens.admit(credential, address=address)

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:
        """Give who calls with a key that is known; a token's signature is checked each time."""
        return self.keys.known(credential, address=address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """Whose tokens are taken, and how they are read."""

    name: str
    audience: str
    keys_url: str
    algorithms: tuple[str, ...]
    tenant_claim: str = "tenant"
    agent_claim: str = "sub"
    role_claim: str | None = "role"
    leeway_s: float = 30
    timeout_s: float = 5
