"""Sessions of browsers: the page of one person has those of its process, a server others."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from commonbrain.model.scope import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSession:
    """A live session: who uses it, and when it ends even if it is used."""

    token: str = field(repr=False)
    """The secret text of its cookie."""
    caller: Caller
    ends_at: datetime


class PageSessions(Protocol):
    """Opens, resumes and ends sessions of the web page."""

    def open(self, credential: str, *, address: str | None) -> PageSession:
        """Open a session with an API key or a token.

        Raises:
            AuthenticationError: `missing_credential`, or `invalid_credential` for any defect.
            RejectedError: The credential may not be used from this address, or its tenant is
                suspended.
            LimitExceededError: `rate_limited`, there were too many logins from this address.
            UnavailableError: The credential cannot be checked now, or the store did not answer.

        """
        ...

    def resume(self, token: str, *, address: str | None) -> PageSession | None:
        """Return a live session; None if it is unknown or over, or its credential is refused.

        Raises:
            UnavailableError: The store did not answer.

        """
        ...

    def end(self, token: str) -> None:
        """End a session, if there is one.

        Raises:
            UnavailableError: The store did not answer; the session goes on.

        """
        ...
