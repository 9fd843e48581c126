"""Authenticates callers by JSON web tokens of an issuer; requires the extra `server`."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

import jwt
from jwt import PyJWK, PyJWKClient

from commonbrain.clock import Clock
from commonbrain.model.errors import (
    AuthenticationError,
    CommonbrainError,
    InvalidInputError,
    RejectedError,
    UnavailableError,
)
from commonbrain.model.limits import ACCESS_CACHE_S, VERIFIED_MAX
from commonbrain.model.scope import Caller, Role
from commonbrain.storage.interface import ADMITTING, AccessEntry
from commonbrain_server.security.authentication import (
    Issuer,
    LruCache,
    Principal,
    invalid_credential,
    invalid_invitation,
    name_token,
    narrow_token_role,
    token_caller,
)
from commonbrain_server.security.denials import AccessDenials
from commonbrain_server.security.key_texts import check_tenant_name
from commonbrain_server.security.keys import KeyRepository

if TYPE_CHECKING:
    from commonbrain.storage.store import Store

_LOG: Final = logging.getLogger(__name__)
_TOKEN_CHARS_MAX: Final = 16_384
"""Above the header limit of common servers."""
_KEYS_TTL_S: Final = 3600
"""Lifetime of the cached issuer keys; a token with an unknown key id refetches them earlier."""
_REFETCH_INTERVAL_S: Final = 30.0
"""Minimum interval between refetches, so that invented key ids do not flood the issuer."""
_MS: Final = 1000
_EXPIRY_MAX_S: Final = int(datetime.max.replace(tzinfo=UTC).timestamp()) - 1
_REQUIRED: Final = ("exp", "iss", "aud")
_REQUIRED_OF_LOGIN: Final = (*_REQUIRED, "iat", "sub", "nonce")


@dataclass(slots=True, kw_only=True)
class IssuerKeys:
    """The issuer's public keys, fetched when a token needs them."""

    issuer: Issuer
    clock: Clock
    _client: PyJWKClient = field(init=False)
    _down_until_ms: float = 0.0

    def __post_init__(self) -> None:
        """Create the client; fetches nothing yet."""
        self._client = PyJWKClient(
            self.issuer.keys_url,
            lifespan=_KEYS_TTL_S,
            timeout=self.issuer.timeout_s,
            cooldown_duration=_REFETCH_INTERVAL_S,
        )

    def of(self, token: str) -> PyJWK:
        """Return the key that signed a token.

        Raises:
            AuthenticationError: There is no such key.
            UnavailableError: The issuer does not answer, or did not a moment ago.

        """
        if self.clock.elapsed_ms() < self._down_until_ms:
            raise self._unavailable()
        try:
            key = self._client.get_signing_key_from_jwt(token)
        except jwt.PyJWKClientConnectionError as error:
            self._down_until_ms = self.clock.elapsed_ms() + self.issuer.timeout_s * _MS
            _LOG.warning("the token issuer's keys cannot be fetched")
            raise self._unavailable() from error
        except jwt.PyJWTError as error:
            raise invalid_credential() from error
        if key.key_type == "oct":
            # A published shared secret would let anyone sign tokens.
            raise invalid_credential()
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
    """Authenticates callers by tokens that the issuer signed for this server."""

    store: Store
    clock: Clock
    refusals: AccessDenials
    issuer: Issuer
    keys: IssuerKeys
    cache: LruCache[tuple[str, str], Principal] = field(
        default_factory=lambda: LruCache(most=VERIFIED_MAX)
    )

    def admit(self, credential: str | None, *, address: str | None) -> Caller:  # noqa: ARG002
        """Return the caller of a token.

        `address` is not checked, the issuer restricts its tokens.
        """
        claims = self._claims(credential or "")
        # The end of a token that is after the last date is the last date; PyJWT accepts all that
        # `int` reads.
        expires_at = datetime.fromtimestamp(min(int(claims["exp"]), _EXPIRY_MAX_S), UTC)
        return self._caller(claims, expires_at=expires_at)

    def admit_login(self, id_token: str, *, nonce: str) -> Caller:
        """Return the caller of the ID token that a login resulted in.

        It must satisfy OpenID Connect Core 1.0, section 3.1.3.7; the audience of `issuer` is the
        client that requested it. The caller has no expiry: that of the token limits when the login
        may be completed, often to minutes, and the session has an end of its own.

        Args:
            id_token: As the issuer returned it.
            nonce: The nonce of the request.

        Raises:
            AuthenticationError: The token is not valid, or is the result of another login.
            RejectedError: The tenant is suspended.
            UnavailableError: The token cannot be checked now.

        """
        claims = self._claims(id_token, required=_REQUIRED_OF_LOGIN)
        sent, party, audience = claims["nonce"], claims.get("azp"), claims["aud"]
        is_ours = party == self.issuer.audience or (
            party is None and (isinstance(audience, str) or len(audience) == 1)
        )
        if not is_ours:
            raise invalid_credential() from jwt.InvalidAudienceError()
        is_text = isinstance(sent, str) and sent.isascii()
        if not (is_text and hmac.compare_digest(sent.encode(), nonce.encode())):
            raise invalid_credential() from jwt.MissingRequiredClaimError("nonce")
        return self._caller(claims, expires_at=None)

    def _caller(self, claims: Mapping[str, Any], *, expires_at: datetime | None) -> Caller:
        tenant, agent = self._names(claims)
        principal = self._principal(tenant, agent)
        try:
            role = self._role(claims, principal)
            return token_caller(principal, agent=agent, role=role, expires_at=expires_at)
        except (AuthenticationError, RejectedError) as error:
            if principal.tenant is not None:
                self._note(principal.tenant.name, agent, error=error)
            raise

    def invited(self, credential: str | None, *, address: str | None) -> Caller:  # noqa: ARG002
        """Reject every token: none is an invitation."""
        raise invalid_invitation()

    def known(self, credential: str | None, *, address: str | None) -> None:
        """Return None: verifying a signature may fetch the issuer's keys."""

    def _claims(self, token: str, *, required: Sequence[str] = _REQUIRED) -> Mapping[str, Any]:
        if not token.isascii() or len(token) > _TOKEN_CHARS_MAX:
            raise invalid_credential()
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in self.issuer.algorithms:
                raise invalid_credential()
            return jwt.decode(
                token,
                key=self.keys.of(token),
                algorithms=list(self.issuer.algorithms),
                audience=self.issuer.audience,
                issuer=self.issuer.name,
                leeway=self.issuer.leeway_s,
                options={"require": [*required, self.issuer.agent_claim]},
            )
        except jwt.PyJWTError as error:
            raise invalid_credential() from error

    def _names(self, claims: Mapping[str, Any]) -> tuple[str, str]:
        """Return tenant and agent of the claims; invalid names are rejected."""
        tenant = claims.get(self.issuer.tenant_claim)
        agent = claims.get(self.issuer.agent_claim)
        if not isinstance(tenant, str):
            raise invalid_credential() from jwt.MissingRequiredClaimError(self.issuer.tenant_claim)
        if not isinstance(agent, str):
            raise invalid_credential() from jwt.MissingRequiredClaimError(self.issuer.agent_claim)
        try:
            return check_tenant_name(tenant), Caller(agent=agent).agent
        except InvalidInputError as error:
            raise invalid_credential() from error

    def _principal(self, tenant: str, agent: str) -> Principal:
        known = self.cache.get((tenant, agent))
        now_ms = self.clock.elapsed_ms()
        if known is not None and now_ms - known.read_at_ms < ACCESS_CACHE_S * _MS:
            return known
        with self.store.snapshot(tenant) as tx:
            principal = Principal(
                tenant=tx.credentials.tenant(),
                agent=KeyRepository(tx.work).agent(agent),
                read_at_ms=now_ms,
            )
        self.cache.put((tenant, agent), principal)
        return principal

    def _role(self, claims: Mapping[str, Any], principal: Principal) -> Role:
        """Return the lower of the token's role and the agent's role; reader by default.

        Some issuers list all roles that a person has in applications: exactly one must be ours.
        """
        claim = claims.get(self.issuer.role_claim) if self.issuer.role_claim else None
        if isinstance(claim, list):
            listed = [role for role in Role if role in cast("list[object]", claim)]
            claim = listed[0] if len(listed) == 1 else ""
        if claim is None:
            return principal.agent.role if principal.agent else Role.READER
        if not (isinstance(claim, str) and claim in set(Role)):
            raise invalid_credential() from jwt.MissingRequiredClaimError(
                self.issuer.role_claim or ""
            )
        return narrow_token_role(Role(claim), principal.agent)

    def _note(self, tenant: str, agent: str, *, error: CommonbrainError) -> None:
        entry = AccessEntry(
            at=self.clock.now(),
            action=ADMITTING,
            code=error.code,
            agent=agent,
            credential=name_token(agent),
        )
        self.refusals.note(tenant, entry)
