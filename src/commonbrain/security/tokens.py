"""Tells callers by JSON web tokens that an issuer signed; comes with the extra `server`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import jwt
from jwt import PyJWK, PyJWKClient

from commonbrain.clock import Clock
from commonbrain.model.agents import check_tenant_name
from commonbrain.model.errors import (
    AuthenticationError,
    CommonbrainError,
    InvalidInputError,
    RejectedError,
    UnavailableError,
)
from commonbrain.model.limits import ACCESS_KEPT_S, VERIFIED_MAX
from commonbrain.model.scope import Admission, Caller, Role
from commonbrain.security.authentication import Issuer, Principal, a_caller, check_open, unknown
from commonbrain.security.cache import TtlCache
from commonbrain.security.denials import AccessDenials
from commonbrain.storage.interface import ADMITTING, AccessEntry

if TYPE_CHECKING:
    from commonbrain.storage.store import Store

_LOG: Final = logging.getLogger(__name__)
_TOKEN_CHARS_MAX: Final = 16_384
"""Above what servers take as one header."""
_KEYS_S: Final = 3600
"""How long the issuer's keys are gone by; a token that names another key asks for them anew."""
_ASKED_AGAIN_S: Final = 30.0
"""Between two such askings, so that made-up keys do not become a flood at the issuer."""
_MS: Final = 1000
_REQUIRED: Final = ("exp", "iss", "aud")


@dataclass(slots=True, kw_only=True)
class IssuerKeys:
    """The issuer's public keys, fetched when a token needs them."""

    issuer: Issuer
    clock: Clock
    _client: PyJWKClient = field(init=False)
    _silent_until_ms: float = 0.0

    def __post_init__(self) -> None:
        """Set up the client; nothing is fetched yet."""
        self._client = PyJWKClient(
            self.issuer.keys_url,
            lifespan=_KEYS_S,
            timeout=self.issuer.timeout_s,
            cooldown_duration=_ASKED_AGAIN_S,
        )

    def of(self, token: str) -> PyJWK:
        """Give the key that a token says it was signed with.

        Raises:
            AuthenticationError: there is no such key.
            UnavailableError: the issuer does not answer, or did not a moment ago.

        """
        if self.clock.elapsed_ms() < self._silent_until_ms:
            raise self._unavailable()
        try:
            key = self._client.get_signing_key_from_jwt(token)
        except jwt.PyJWKClientConnectionError as error:
            self._silent_until_ms = self.clock.elapsed_ms() + self.issuer.timeout_s * _MS
            _LOG.warning("the token issuer's keys cannot be fetched")
            raise self._unavailable() from error
        except jwt.PyJWTError as error:
            raise unknown() from error
        if key.key_type == "oct":
            # A shared secret in a public place would let anybody sign.
            raise unknown()
        return key

    @staticmethod
    def _unavailable() -> UnavailableError:
        return UnavailableError(
            "The issuer's keys cannot be fetched, so the token cannot be checked.",
            code="issuer_down",
            hint="Try again in some seconds, or use an API key.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtAuthenticator:
    """Admits who has a token that the issuer signed for this server."""

    store: Store
    clock: Clock
    refusals: AccessDenials
    issuer: Issuer
    keys: IssuerKeys
    kept: TtlCache[tuple[str, str], Principal] = field(
        default_factory=lambda: TtlCache(most=VERIFIED_MAX)
    )

    def admit(self, credential: str | None, *, address: str | None) -> Caller:  # noqa: ARG002
        """Give who calls with a token; the issuer says from where it may be used."""
        claims = self._claims(credential or "")
        tenant, agent = self._named(claims)
        standing = self._standing(tenant, agent)
        try:
            if standing.tenant is None or not standing.is_good:
                raise unknown()
            check_open(standing.tenant)
            role = self._role(claims, standing)
            return a_caller(
                standing,
                agent=agent,
                role=role,
                admission=Admission(
                    credential=f"token/{agent}", role=role, policy=standing.tenant.policy
                ),
            )
        except (AuthenticationError, RejectedError) as error:
            if standing.tenant is not None:
                self._note(standing.tenant.name, agent, error=error)
            raise

    def known(self, credential: str | None, *, address: str | None) -> None:
        """Know nobody: checking a signature may take a look at the issuer's keys."""

    def _claims(self, token: str) -> Mapping[str, Any]:
        if not token.isascii() or len(token) > _TOKEN_CHARS_MAX:
            raise unknown()
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in self.issuer.algorithms:
                raise unknown()
            return jwt.decode(
                token,
                key=self.keys.of(token),
                algorithms=list(self.issuer.algorithms),
                audience=self.issuer.audience,
                issuer=self.issuer.name,
                leeway=self.issuer.leeway_s,
                options={"require": [*_REQUIRED, self.issuer.agent_claim]},
            )
        except jwt.PyJWTError as error:
            raise unknown() from error

    def _named(self, claims: Mapping[str, Any]) -> tuple[str, str]:
        """Read whom a token is of; a name that none can have is of nobody."""
        tenant = claims.get(self.issuer.tenant_claim)
        agent = claims.get(self.issuer.agent_claim)
        if not (isinstance(tenant, str) and isinstance(agent, str)):
            raise unknown()
        try:
            return check_tenant_name(tenant), Caller(agent=agent).agent
        except InvalidInputError:
            raise unknown() from None

    def _standing(self, tenant: str, agent: str) -> Principal:
        known = self.kept.get((tenant, agent))
        now_ms = self.clock.elapsed_ms()
        if known is not None and now_ms - known.read_at_ms < ACCESS_KEPT_S * _MS:
            return known
        with self.store.snapshot(tenant) as tx:
            standing = Principal(
                tenant=tx.credentials.tenant(),
                agent=tx.credentials.agent(agent),
                read_at_ms=now_ms,
            )
        self.kept.put((tenant, agent), standing)
        return standing

    def _role(self, claims: Mapping[str, Any], standing: Principal) -> Role:
        """Give the lesser of what the token says and what the agent is here; else a reader's."""
        told = claims.get(self.issuer.role_claim) if self.issuer.role_claim else None
        own = standing.agent.role if standing.agent else None
        if told is None:
            return own or Role.READER
        if not (isinstance(told, str) and told in set(Role)):
            raise unknown()
        claimed = Role(told)
        return own if own is not None and claimed.covers(own) else claimed

    def _note(self, tenant: str, agent: str, *, error: CommonbrainError) -> None:
        entry = AccessEntry(
            at=self.clock.now(),
            action=ADMITTING,
            code=error.code,
            agent=agent,
            credential=f"token/{agent}",
        )
        self.refusals.note(tenant, entry)
