"""Sessions of the web page: a login by key or token, then a secret of their own."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from commonbrain.clock import Clock, RandomSource
from commonbrain.model.errors import AuthenticationError, LimitExceededError, RejectedError
from commonbrain.model.limits import (
    ACCESS_CACHE_S,
    PAGE_LOGINS_PER_MINUTE,
    PAGE_SESSIONS_MAX,
    PAGE_USES_APART_S,
    VERIFIED_MAX,
)
from commonbrain.model.scope import Caller
from commonbrain.storage.interface import ADMITTING, AccessEntry
from commonbrain.web.logins import PageLogin
from commonbrain_server.security.api_keys import check_key, key_caller
from commonbrain_server.security.authentication import (
    Authenticator,
    LruCache,
    Principal,
    invalid_credential,
    name_token,
    narrow_token_role,
    token_caller,
)
from commonbrain_server.security.denials import AccessDenials
from commonbrain_server.security.key_texts import (
    SESSION_SECRET_BYTES,
    KeyText,
    SessionToken,
    read_key,
    read_session_token,
)
from commonbrain_server.security.keys import ApiKey, KeyRepository
from commonbrain_server.security.quotas import RateLimiter
from commonbrain_server.security.stored_page_sessions import (
    PageSessionRepository,
    StoredPageSession,
)

if TYPE_CHECKING:
    from commonbrain.storage.store import Store, Transaction

LOGIN: Final = "page_login"
LOGOUT: Final = "page_logout"
"""The actions of audit entries about sessions."""
_BITS: Final = 8 * SESSION_SECRET_BYTES
_MS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownSession:
    """A session with its caller's tenant, agent and key, as last read from the store."""

    stored: StoredPageSession
    key: ApiKey | None
    principal: Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPageSessions:
    """Sessions in the store, so that every process of every server knows them.

    A process caches a session for `ACCESS_CACHE_S` seconds: it learns within this time that the
    session was ended elsewhere, or that its key, agent or tenant changed.
    """

    store: Store
    access: Authenticator
    """Checks the credential at login."""
    clock: Clock
    rates: RateLimiter
    refusals: AccessDenials
    random_source: RandomSource
    idle: timedelta
    """Time without use after which a session ends; it may end `PAGE_USES_APART_S` earlier."""
    lifetime: timedelta
    """Time after which a session ends in any case."""
    cache: LruCache[tuple[str, str], _KnownSession] = field(
        default_factory=lambda: LruCache(most=VERIFIED_MAX)
    )

    def open(self, credential: str, *, address: str | None) -> PageLogin:
        """Check a credential and start a session."""
        self.check_login_rate(address)
        caller = self.access.admit(credential, address=address)
        return self.start(caller, key=read_key(credential))

    def start(self, caller: Caller, *, key: KeyText | None = None) -> PageLogin:
        """Store the session of a caller who is authenticated; the caller's oldest ones make way.

        Args:
            caller: Who logs in.
            key: The API key that authenticated them; None for a token.

        Raises:
            AuthenticationError: The token has expired.
            RejectedError: The server accepts every call, and has no logins.

        """
        if caller.admission is None:
            raise RejectedError(
                "This server accepts every call from this machine, and has no logins.",
                code="no_access_control",
                hint="Open the page without logging in, or serve without --open.",
            )
        now = self.clock.now()
        ends_at = min(filter(None, (now + self.lifetime, caller.admission.expires_at)))
        if ends_at <= now:
            # A token is accepted for some seconds after its end, which a session would outlast.
            raise invalid_credential()
        secret = self.random_source.bits(_BITS).to_bytes(SESSION_SECRET_BYTES)
        text = SessionToken(
            tenant=caller.tenant, secret=urlsafe_b64encode(secret).decode().rstrip("=")
        )
        stored = StoredPageSession(
            digest=_digest(text),
            agent=caller.agent,
            key_prefix=key.prefix if key else None,
            token_role=None if key else caller.role,
            created_at=now,
            last_seen_at=now,
            ends_at=ends_at,
        )
        with self.store.begin(caller.tenant) as tx:
            self._drop_old(tx, caller.agent, now=now)
            PageSessionRepository(tx.work).add(stored)
            tx.credentials.note(AccessEntry.by(caller, LOGIN, at=now))
        return PageLogin(token=str(text), caller=caller, ends_at=ends_at)

    def resume(self, token: str, *, address: str | None) -> PageLogin | None:
        """Return a live session, with the caller as its key or agent is now."""
        text = read_session_token(token)
        if text is None:
            return None
        known = self._cached(text) or self._read(text)
        if known is None:
            return None
        try:
            caller = self._caller(known, address)
        except (AuthenticationError, RejectedError) as error:
            self._note_denial(text.tenant, known.stored, code=error.code)
            return None
        self._record_use(text, known)
        key_ends = known.key.expires_at if known.key else None
        ends_at = min(known.stored.ends_at, key_ends or known.stored.ends_at)
        return PageLogin(token=token, caller=caller, ends_at=ends_at)

    def end(self, token: str) -> None:
        """Delete a session; other processes resume it for `ACCESS_CACHE_S` seconds at most."""
        text = read_session_token(token)
        if text is None:
            return
        digest = _digest(text)
        # An invented token takes no write lock.
        with self.store.snapshot(text.tenant) as tx:
            stored = PageSessionRepository(tx.work).get(digest)
        if stored is not None:
            entry = AccessEntry(
                at=self.clock.now(),
                action=LOGOUT,
                agent=stored.agent,
                credential=_credential(stored),
            )
            with self.store.begin(text.tenant) as tx:
                if PageSessionRepository(tx.work).drop([digest]):
                    tx.credentials.note(entry)
        # At last, or a request meanwhile would cache it again.
        self.cache.drop((text.tenant, digest))

    def check_login_rate(self, address: str | None) -> None:
        """Count a login from an address.

        Raises:
            LimitExceededError: `rate_limited`, there were too many logins from this address.

        """
        wait_s = self.rates.take(
            f"login/{address or 'somewhere'}", per_minute=PAGE_LOGINS_PER_MINUTE
        )
        if wait_s is not None:
            raise LimitExceededError(
                f"An address may log in {PAGE_LOGINS_PER_MINUTE} times a minute.",
                hint=f"Try again in {wait_s} s.",
                retry_after_s=wait_s,
            )

    def _drop_old(self, tx: Transaction, agent: str, *, now: datetime) -> None:
        """Delete the agent's sessions that are over, and the oldest that are too many."""
        known = PageSessionRepository(tx.work).of_agent(agent)
        live = [one.digest for one in known if not one.is_over(now, idle=self.idle)]
        stay = set(live[: PAGE_SESSIONS_MAX - 1])
        PageSessionRepository(tx.work).drop([one.digest for one in known if one.digest not in stay])

    def _cached(self, text: SessionToken) -> _KnownSession | None:
        """Return a cached session that is fresh and live."""
        known = self.cache.get((text.tenant, _digest(text)))
        if known is None:
            return None
        is_old = (
            self.clock.elapsed_ms() - known.principal.read_at_ms >= ACCESS_CACHE_S * _MS
            # Another process may have seen it since.
            or known.stored.is_over(self.clock.now(), idle=self.idle)
        )
        return None if is_old else known

    def _read(self, text: SessionToken) -> _KnownSession | None:
        """Read a session with its tenant, agent and key; None if it is unknown or over."""
        digest = _digest(text)
        now_ms = self.clock.elapsed_ms()
        key, agent = None, None
        with self.store.snapshot(text.tenant) as tx:
            tenant, stored = tx.credentials.tenant(), PageSessionRepository(tx.work).get(digest)
            if stored is not None and stored.key_prefix is not None:
                held = KeyRepository(tx.work).keys_with_agents([stored.key_prefix])
                key, agent = held.get(stored.key_prefix, (None, None))
            elif stored is not None:
                agent = KeyRepository(tx.work).agent(stored.agent)
        before = self.cache.get((text.tenant, digest))
        if stored is not None and before is not None:
            # The last use may not be written yet, and cannot be in a store that is read-only.
            seen_at = max(stored.last_seen_at, before.stored.last_seen_at)
            stored = replace(stored, last_seen_at=seen_at)
        if stored is None or stored.is_over(self.clock.now(), idle=self.idle):
            self.cache.drop((text.tenant, digest))
            return None
        principal = Principal(tenant=tenant, agent=agent, read_at_ms=now_ms)
        known = _KnownSession(stored=stored, key=key, principal=principal)
        self.cache.put((text.tenant, digest), known)
        return known

    def _caller(self, known: _KnownSession, address: str | None) -> Caller:
        """Return the caller as at a login now.

        Raises:
            AuthenticationError: The key was revoked or has expired, or the agent is disabled.
            RejectedError: The tenant is suspended, or the address is not in the key's allow list.

        """
        stored, key, principal = known.stored, known.key, known.principal
        if stored.token_role is not None:
            role = narrow_token_role(stored.token_role, principal.agent)
            return token_caller(principal, agent=stored.agent, role=role, expires_at=stored.ends_at)
        if key is None:
            raise invalid_credential()
        check_key(key, principal, now=self.clock.now(), address=address)
        return key_caller(key, principal)

    def _record_use(self, text: SessionToken, known: _KnownSession) -> None:
        """Record that a session is used, at most every `PAGE_USES_APART_S` seconds."""
        now, stored = self.clock.now(), known.stored
        if now - stored.last_seen_at < timedelta(seconds=PAGE_USES_APART_S):
            return
        used = replace(known, stored=replace(stored, last_seen_at=now))
        self.cache.renew((text.tenant, stored.digest), used)
        self.refusals.page_session_used(text.tenant, stored.digest, prefix=stored.key_prefix)

    def _note_denial(self, tenant: str, stored: StoredPageSession, *, code: str) -> None:
        entry = AccessEntry(
            at=self.clock.now(),
            action=ADMITTING,
            code=code,
            agent=stored.agent,
            credential=_credential(stored),
        )
        self.refusals.note(tenant, entry)


def _digest(text: SessionToken) -> str:
    return sha256(text.secret.encode()).hexdigest()


def _credential(stored: StoredPageSession) -> str:
    return stored.key_prefix or name_token(stored.agent)
