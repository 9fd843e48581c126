"""Authenticates callers by API key: argon2id once, then from a short-lived cache."""

from __future__ import annotations

import hmac
import math
import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.clock import Clock
from commonbrain.model.errors import (
    AuthenticationError,
    CommonbrainError,
    LimitExceededError,
    RejectedError,
)
from commonbrain.model.limits import (
    ACCESS_CACHE_S,
    USES_APART_S,
    VERIFIED_MAX,
    WRONG_CREDENTIALS_PER_MINUTE,
)
from commonbrain.model.scope import Admission, Caller
from commonbrain.storage.interface import ADMITTING, AccessEntry
from commonbrain_server.security.authentication import (
    LruCache,
    Principal,
    check_not_suspended,
    invalid_credential,
    invalid_invitation,
    make_caller,
)
from commonbrain_server.security.denials import AccessDenials
from commonbrain_server.security.key_texts import KeyText, read_key
from commonbrain_server.security.keys import ApiKey, KeyRepository
from commonbrain_server.security.quotas import RateLimiter

if TYPE_CHECKING:
    from commonbrain.storage.store import Store
    from commonbrain_server.security.passwords import Argon2PasswordHasher

_MS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _VerifiedKey:
    """A key whose secret was verified, as last read from the store."""

    key: ApiKey
    principal: Principal
    caller: Caller
    used_at_ms: float
    """When the use of the key was last recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyAuthenticator:
    """Authenticates callers by API key.

    The cache stores a keyed digest, never the key, and is refreshed from the store every
    `ACCESS_CACHE_S` seconds: a revoked key works for at most that long. All cached keys of a tenant
    are refreshed together, since hundreds of agents call through one process.
    """

    store: Store
    password_hasher: Argon2PasswordHasher
    clock: Clock
    rates: RateLimiter
    refusals: AccessDenials
    cache: LruCache[bytes, _VerifiedKey] = field(
        default_factory=lambda: LruCache(most=VERIFIED_MAX)
    )
    _digest_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def admit(self, credential: str | None, *, address: str | None) -> Caller:
        """Return the caller of a key."""
        text = read_key(credential or "")
        if text is None:
            self._count_wrong(address)
            raise invalid_credential()
        digest = self._digest(text)
        known = self.cache.get(digest)
        if known is not None and self._is_old(known.principal):
            self._refresh(text.tenant)
            known = self.cache.get(digest)
        if known is None:
            known = self._authenticate(text, digest, address=address)
        try:
            check_key(known.key, known.principal, now=self.clock.now(), address=address)
        except (AuthenticationError, RejectedError) as error:
            self._note(text.tenant, error, known=known)
            raise
        self._note_use(digest, known)
        return known.caller

    def invited(self, credential: str | None, *, address: str | None) -> Caller:
        """Return the agent that an invitation is for."""
        text = read_key(credential or "")
        if text is None:
            self._count_wrong(address)
            raise invalid_invitation()
        try:
            known = self._authenticate(text, self._digest(text), address=address)
        except AuthenticationError:
            raise invalid_invitation() from None
        is_good = known.key.is_invitation and known.key.is_good(self.clock.now())
        if not is_good:
            self._count_wrong(address)
            self._note(text.tenant, invalid_invitation(), known=known)
            raise invalid_invitation()
        check_use(known.key, known.principal, now=self.clock.now(), address=address)
        return known.caller

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:
        """Return the caller of a key that is in the cache and fresh."""
        text = read_key(credential or "")
        if text is None:
            return None
        digest = self._digest(text)
        known = self.cache.get(digest)
        if known is None or self._is_old(known.principal):
            return None
        try:
            check_key(known.key, known.principal, now=self.clock.now(), address=address)
        except (AuthenticationError, RejectedError):
            return None
        self._note_use(digest, known)
        return known.caller

    def _digest(self, text: KeyText) -> bytes:
        # hmac.digest would release the interpreter's lock, and wait for the threads of other calls
        # to get it back.
        return hmac.new(self._digest_key, str(text).encode(), "sha256").digest()

    def _authenticate(self, text: KeyText, digest: bytes, *, address: str | None) -> _VerifiedKey:
        """Read the key and its agent, and verify the secret."""
        self._check_rate(address)
        now_ms = self.clock.elapsed_ms()
        with self.store.snapshot(text.tenant) as tx:
            tenant, held = (
                tx.credentials.tenant(),
                KeyRepository(tx.work).keys_with_agents([text.prefix]),
            )
        key, agent = held.get(text.prefix, (None, None))
        principal = Principal(tenant=tenant, agent=agent, read_at_ms=now_ms)
        is_match = self.password_hasher.verify(key.seal if key else None, secret=text.secret)
        if not (is_match and key and principal.agent and principal.is_enabled):
            self._count_wrong(address)
            error = invalid_credential()
            if principal.tenant is not None:
                self._note(text.tenant, error)
            raise error
        caller = key_caller(key, principal)
        verified = _VerifiedKey(key=key, principal=principal, caller=caller, used_at_ms=-math.inf)
        self.cache.put(digest, verified)
        return verified

    def _refresh(self, tenant: str) -> None:
        """Refresh every cached key of a tenant, and evict those that are no longer valid.

        A key whose hash changed is evicted too: only hashing can tell whether the secret still
        matches.
        """
        before = [(name, one) for name, one in self.cache.items() if one.caller.tenant == tenant]
        now_ms = self.clock.elapsed_ms()
        with self.store.snapshot(tenant) as tx:
            owner = tx.credentials.tenant()
            held = KeyRepository(tx.work).keys_with_agents([one.key.prefix for _, one in before])
        for digest, one in before:
            key, agent = held.get(one.key.prefix, (None, None))
            principal = Principal(tenant=owner, agent=agent, read_at_ms=now_ms)
            if key and key.seal == one.key.seal and agent and principal.is_enabled:
                caller = key_caller(key, principal)
                self.cache.renew(digest, replace(one, key=key, principal=principal, caller=caller))
            else:
                self.cache.drop(digest)

    def _note_use(self, digest: bytes, known: _VerifiedKey) -> None:
        """Record that a key is used, at most every `USES_APART_S` seconds."""
        now_ms = self.clock.elapsed_ms()
        if now_ms - known.used_at_ms < USES_APART_S * _MS:
            return
        self._note_used_at(digest, now_ms)
        # Retry a failed write soon, but not on every call.
        again_ms = now_ms - (USES_APART_S - ACCESS_CACHE_S) * _MS
        self.refusals.used(
            known.caller.tenant,
            known.key.prefix,
            lost=lambda: self._note_used_at(digest, again_ms),
        )

    def _note_used_at(self, digest: bytes, at_ms: float) -> None:
        known = self.cache.get(digest)
        if known is not None:
            self.cache.renew(digest, replace(known, used_at_ms=at_ms))

    def _is_old(self, principal: Principal) -> bool:
        return self.clock.elapsed_ms() - principal.read_at_ms >= ACCESS_CACHE_S * _MS

    def _check_rate(self, address: str | None) -> None:
        """Refuse to hash for an address that recently sent many wrong credentials."""
        wait_s = self.rates.wait(_wrong(address), per_minute=WRONG_CREDENTIALS_PER_MINUTE)
        if wait_s is not None:
            raise LimitExceededError(
                "Too many credentials from this address were wrong.",
                hint=f"Try again in {wait_s} s.",
                retry_after_s=wait_s,
            )

    def _count_wrong(self, address: str | None) -> None:
        self.rates.take(_wrong(address), per_minute=WRONG_CREDENTIALS_PER_MINUTE)

    def _note(
        self, tenant: str, error: CommonbrainError, *, known: _VerifiedKey | None = None
    ) -> None:
        # The prefix of an unknown key is not recorded, or anyone could fill the audit log.
        entry = AccessEntry(
            at=self.clock.now(),
            action=ADMITTING,
            code=error.code,
            agent=known.caller.agent if known else None,
            credential=known.key.prefix if known else None,
        )
        self.refusals.note(tenant, entry)


def check_key(key: ApiKey, principal: Principal, *, now: datetime, address: str | None) -> None:
    """Check that a key may make calls now and from this address.

    Raises:
        AuthenticationError: It was revoked, has expired or is an invitation.
        RejectedError: As `check_use` raises.

    """
    check_use(key, principal, now=now, address=address)
    if key.is_invitation:
        raise AuthenticationError(
            "An invitation makes no calls.",
            code="invalid_credential",
            hint="Exchange it for a key: brain connect CLIENT --url 'THE LINK'.",
        )


def check_use(key: ApiKey, principal: Principal, *, now: datetime, address: str | None) -> None:
    """Check that a key may be used now and from this address, whatever for.

    Raises:
        AuthenticationError: It was revoked or has expired.
        RejectedError: `tenant_suspended`; `scope_denied`, it has an allow list without the address.

    """
    if not key.is_good(now):
        raise invalid_credential()
    if principal.tenant is not None:
        check_not_suspended(principal.tenant)
    if not key.allows(address):
        raise RejectedError(
            "This key may not be used from this address.",
            code="scope_denied",
            hint="Ask an admin to widen its allow list.",
        )


def key_caller(key: ApiKey, principal: Principal) -> Caller:
    """Return the caller of a key.

    Raises:
        AuthenticationError: The tenant or the agent is missing or disabled.

    """
    if principal.tenant is None or principal.agent is None or not principal.is_enabled:
        raise invalid_credential()
    admission = Admission(
        credential=key.prefix,
        role=principal.agent.role,
        policy=principal.tenant.policy,
        expires_at=key.expires_at,
    )
    role = key.narrowed(principal.agent.role)
    return make_caller(principal, agent=principal.agent.name, role=role, admission=admission)


def _wrong(address: str | None) -> str:
    return f"wrong/{address or 'somewhere'}"
