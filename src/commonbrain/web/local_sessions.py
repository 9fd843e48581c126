"""Sessions of the page of one person: of one process, for the user of this machine."""

import hmac
import secrets
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from commonbrain.clock import Clock
from commonbrain.model.errors import AuthenticationError
from commonbrain.model.scope import Caller
from commonbrain.web.page_sessions import PageSession

_SECRET_BYTES: Final = 32
_IDLE_MAX: Final = timedelta(hours=12)
"""Time without a request after which a session ends; a night in which the tab stays open."""
_LIFETIME: Final = timedelta(days=7)


@dataclass(slots=True)
class LocalSessions:
    """The sessions of `brain ui`: whoever has the one-time link acts as the user of this machine.

    They live in this process. A link opens one session; `make_link` replaces a link that was used.
    """

    caller: Caller
    clock: Clock
    _link: str | None = None
    _sessions: dict[str, tuple[PageSession, datetime]] = field(
        default_factory=dict[str, tuple[PageSession, datetime]]
    )
    """Each session, and when it was last used."""
    _lock: Lock = field(default_factory=Lock)

    def make_link(self) -> str:
        """Return a new one-time credential, which replaces the last one."""
        with self._lock:
            self._link = secrets.token_urlsafe(_SECRET_BYTES)
            return self._link

    def open(self, credential: str, *, address: str | None) -> PageSession:  # noqa: ARG002 the protocol gives it
        """Start a session and spend the link; a wrong credential spends nothing."""
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
            session = PageSession(token=_new_token(), caller=self.caller, ends_at=now + _LIFETIME)
            self._sessions[session.token] = session, now
            return session

    def resume(self, token: str, *, address: str | None) -> PageSession | None:  # noqa: ARG002 the protocol gives it
        """Return the session of a cookie; None if it is unknown or has ended."""
        now = self.clock.now()
        with self._lock:
            session, used_at = self._sessions.get(token, (None, now))
            if session is None:
                return None
            if now >= session.ends_at or now - used_at >= _IDLE_MAX:
                del self._sessions[token]
                return None
            self._sessions[token] = session, now
            return replace(session, ends_at=min(session.ends_at, now + _IDLE_MAX))

    def end(self, token: str) -> None:
        """End a session; an unknown one is ignored."""
        with self._lock:
            self._sessions.pop(token, None)


def _new_token() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)
