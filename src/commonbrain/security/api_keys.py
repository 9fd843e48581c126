"""Tells callers by their API keys: argon2id once, then from what the process knows for a while."""

from __future__ import annotations

import hmac
import math
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from commonbrain.clock import Clock
from commonbrain.model.agents import ApiKey, KeyText, read_key
from commonbrain.model.errors import (
    AuthenticationError,
    CommonbrainError,
    LimitExceededError,
    RejectedError,
)
from commonbrain.model.limits import (
    ACCESS_KEPT_S,
    USES_APART_S,
    VERIFIED_MAX,
    WRONG_CREDENTIALS_PER_MINUTE,
)
from commonbrain.model.scope import Admission, Caller
from commonbrain.security.authentication import Principal, a_caller, check_open, unknown
from commonbrain.security.cache import TtlCache
from commonbrain.security.denials import AccessDenials
from commonbrain.security.quotas import RateLimiter
from commonbrain.storage.interface import ADMITTING, AccessEntry, PasswordHasher

if TYPE_CHECKING:
    from commonbrain.storage.store import Store

_MS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A key whose secret was found right, as the store had it when it was last looked at."""

    key: ApiKey
    standing: Principal
    caller: Caller
    used_at_ms: float
    """When it was last noted that the key is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyAuthenticator:
    """Admits who has a good API key.

    What is known of a key is kept under a keyed digest of it, never under the key, and read again
    from the store every `ACCESS_KEPT_S` seconds: so long may a revoked key go on to work. All that
    are known of a tenant are read together, for hundreds of agents call through one process.
    """

    store: Store
    seals: PasswordHasher
    clock: Clock
    rates: RateLimiter
    refusals: AccessDenials
    kept: TtlCache[bytes, _Known] = field(default_factory=lambda: TtlCache(most=VERIFIED_MAX))
    _digesting: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def admit(self, credential: str | None, *, address: str | None) -> Caller:
        """Give who calls with a key."""
        text = read_key(credential or "")
        if text is None:
            self._count_wrong(address)
            raise unknown()
        digest = self._digest(text)
        known = self.kept.get(digest)
        if known is not None and self._is_old(known.standing):
            self._look_again(text.tenant)
            known = self.kept.get(digest)
        if known is None:
            known = self._look(text, digest, address=address)
        try:
            self._check(known, address)
        except (AuthenticationError, RejectedError) as error:
            self._note(text.tenant, error, known=known)
            raise
        self._note_use(digest, known)
        return known.caller

    def known(self, credential: str | None, *, address: str | None) -> Caller | None:
        """Give who calls with a key that was looked at not long ago."""
        text = read_key(credential or "")
        if text is None:
            return None
        digest = self._digest(text)
        known = self.kept.get(digest)
        if known is None or self._is_old(known.standing):
            return None
        try:
            self._check(known, address)
        except (AuthenticationError, RejectedError):
            return None
        self._note_use(digest, known)
        return known.caller

    def _digest(self, text: KeyText) -> bytes:
        return hmac.digest(self._digesting, str(text).encode(), "sha256")

    def _look(self, text: KeyText, digest: bytes, *, address: str | None) -> _Known:
        """Read the key and its agent, and check the secret."""
        self._check_patience(address)
        now_ms = self.clock.elapsed_ms()
        with self.store.snapshot(text.tenant) as tx:
            tenant, held = tx.credentials.tenant(), tx.credentials.keys_with_agents([text.prefix])
        key, agent = held.get(text.prefix, (None, None))
        standing = Principal(tenant=tenant, agent=agent, read_at_ms=now_ms)
        is_right = self.seals.fits(key.seal if key else None, secret=text.secret)
        if not (is_right and key and standing.agent and standing.is_good):
            self._count_wrong(address)
            error = unknown()
            if standing.tenant is not None:
                self._note(text.tenant, error)
            raise error
        caller = _caller(key, standing)
        found = _Known(key=key, standing=standing, caller=caller, used_at_ms=-math.inf)
        self.kept.put(digest, found)
        return found

    def _look_again(self, tenant: str) -> None:
        """Read every key that is known of a tenant, and forget what has no good standing any more.

        What was sealed anew is forgotten too: whether a secret fits that is for hashing to say.
        """
        before = [(name, one) for name, one in self.kept.items() if one.caller.tenant == tenant]
        now_ms = self.clock.elapsed_ms()
        with self.store.snapshot(tenant) as tx:
            owner = tx.credentials.tenant()
            held = tx.credentials.keys_with_agents([one.key.prefix for _, one in before])
        for digest, one in before:
            key, agent = held.get(one.key.prefix, (None, None))
            standing = Principal(tenant=owner, agent=agent, read_at_ms=now_ms)
            if key and key.seal == one.key.seal and agent and standing.is_good:
                caller = _caller(key, standing)
                self.kept.renew(digest, replace(one, key=key, standing=standing, caller=caller))
            else:
                self.kept.drop(digest)

    def _check(self, known: _Known, address: str | None) -> None:
        """Refuse a key that is over, or is not to be used from there."""
        if not known.key.is_good(self.clock.now()):
            raise unknown()
        if known.standing.tenant is not None:
            check_open(known.standing.tenant)
        if not known.key.allows(address):
            raise RejectedError(
                "This key may not be used from this address.",
                code="scope_denied",
                hint="Ask an admin to widen its allow list.",
            )

    def _note_use(self, digest: bytes, known: _Known) -> None:
        """Note that a key is used, now and then."""
        now_ms = self.clock.elapsed_ms()
        if now_ms - known.used_at_ms < USES_APART_S * _MS:
            return
        self._note_used_at(digest, now_ms)
        # What was not written is tried again before long, but not by every call.
        again_ms = now_ms - (USES_APART_S - ACCESS_KEPT_S) * _MS
        self.refusals.used(
            known.caller.tenant,
            known.key.prefix,
            lost=lambda: self._note_used_at(digest, again_ms),
        )

    def _note_used_at(self, digest: bytes, at_ms: float) -> None:
        known = self.kept.get(digest)
        if known is not None:
            self.kept.renew(digest, replace(known, used_at_ms=at_ms))

    def _is_old(self, standing: Principal) -> bool:
        return self.clock.elapsed_ms() - standing.read_at_ms >= ACCESS_KEPT_S * _MS

    def _check_patience(self, address: str | None) -> None:
        """Refuse to hash for an address that gave many wrong credentials of late."""
        wait_s = self.rates.wait(_wrong(address), per_minute=WRONG_CREDENTIALS_PER_MINUTE)
        if wait_s is not None:
            raise LimitExceededError(
                "Too many credentials from this address were wrong.",
                hint=f"Try again in {wait_s} s.",
                retry_after_s=wait_s,
            )

    def _count_wrong(self, address: str | None) -> None:
        self.rates.take(_wrong(address), per_minute=WRONG_CREDENTIALS_PER_MINUTE)

    def _note(self, tenant: str, error: CommonbrainError, *, known: _Known | None = None) -> None:
        # A prefix that somebody made up is not written down, or anybody could fill the audit.
        entry = AccessEntry(
            at=self.clock.now(),
            action=ADMITTING,
            code=error.code,
            agent=known.caller.agent if known else None,
            credential=known.key.prefix if known else None,
        )
        self.refusals.note(tenant, entry)


def _caller(key: ApiKey, standing: Principal) -> Caller:
    """Make the caller that a key of a known agent stands for."""
    if standing.tenant is None or standing.agent is None:
        raise unknown()
    admission = Admission(
        credential=key.prefix, role=standing.agent.role, policy=standing.tenant.policy
    )
    role = key.narrowed(standing.agent.role)
    return a_caller(standing, agent=standing.agent.name, role=role, admission=admission)


def _wrong(address: str | None) -> str:
    return f"wrong/{address or 'somewhere'}"
