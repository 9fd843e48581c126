"""Logins of browsers: `brain ui` has those of its process, a server has others."""

import hmac
import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Final, Protocol

from commonbrain.clock import Clock
from commonbrain.model.errors import AuthenticationError
from commonbrain.model.scope import Caller

_SECRET_BYTES: Final = 32
_IDLE_MAX: Final = timedelta(hours=12)
"""Time without a request after which a login ends; a night in which the tab stays open."""
_LIFETIME: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLogin:
    """A live login: who uses it, and when it ends even if it is used."""

    token: str = field(repr=False)
    """The secret text of its cookie."""
    caller: Caller
    ends_at: datetime


class PageLogins(Protocol):
    """Opens, resumes and ends logins of the web page."""

    def open(self, credential: str, *, address: str | None) -> PageLogin:
        """Log in with an API key or a token.

        Raises:
            AuthenticationError: `missing_credential`, or `invalid_credential` for any defect.
            RejectedError: The credential may not be used from this address, or its tenant is
                suspended.
            LimitExceededError: `rate_limited`, there were too many logins from this address.
            UnavailableError: The credential cannot be checked now, or the store did not answer.

        """
        ...

    def resume(self, token: str, *, address: str | None) -> PageLogin | None:
        """Return a live login; None if it is unknown or over, or its credential is refused.

        Raises:
            UnavailableError: The store did not answer.

        """
        ...

    def end(self, token: str) -> None:
        """End a login, if there is one.

        Raises:
            UnavailableError: The store did not answer; the login stays.

        """
        ...


@dataclass(slots=True)
class LinkLogins:
    """The logins of `brain ui`: the holder of the one-time link acts as the user of this machine.

    They live in this process. A link opens one login; `make_link` replaces a link that was used.
    """

    caller: Caller
    clock: Clock
    _link: str | None = None
    _logins: dict[str, tuple[PageLogin, datetime]] = field(
        default_factory=dict[str, tuple[PageLogin, datetime]]
    )
    """Each login, and when it was last used."""
    _lock: Lock = field(default_factory=Lock)

    def make_link(self) -> str:
        """Return a new one-time credential, which replaces the last one."""
        with self._lock:
            self._link = secrets.token_urlsafe(_SECRET_BYTES)
            return self._link

    def open(self, credential: str, *, address: str | None) -> PageLogin:  # noqa: ARG002 the protocol gives it
        """Log in and spend the link; a wrong credential spends nothing."""
        with self._lock:
            link = self._link
            if link is None or not hmac.compare_digest(credential.encode(), link.encode()):
                raise AuthenticationError(
                    "This link was used before, or is not the latest.",
                    code="link_used",
                    hint="Run brain ui again for a new one.",
                )
            self._link = None
            now = self.clock.now()
            login = PageLogin(
                token=secrets.token_urlsafe(_SECRET_BYTES),
                caller=self.caller,
                ends_at=now + _LIFETIME,
            )
            self._logins[login.token] = login, now
            return login

    def resume(self, token: str, *, address: str | None) -> PageLogin | None:  # noqa: ARG002 the protocol gives it
        """Return the login of a cookie; None if it is unknown or has ended."""
        now = self.clock.now()
        with self._lock:
            login, used_at = self._logins.get(token, (None, now))
            if login is None:
                return None
            if now >= login.ends_at or now - used_at >= _IDLE_MAX:
                del self._logins[token]
                return None
            self._logins[token] = login, now
            return replace(login, ends_at=min(login.ends_at, now + _IDLE_MAX))

    def end(self, token: str) -> None:
        """End a login; an unknown one is ignored."""
        with self._lock:
            self._logins.pop(token, None)
