"""Working notes of a session, which it may pin for others."""

from datetime import datetime, timedelta
from typing import Final

from commonbrain.model.scope import Authority
from commonbrain.model.values import dataclass

NOTES_PINNED_MAX: Final = 10
"""Pinned notes of one project; every boot shows all of them."""
NOTES_MAX: Final = 100
"""Notes of one session; store more as memories."""
NOTE_RETENTION: Final = timedelta(days=7)
"""How long unpinned notes outlast the session's last note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One working note; a caller without a session writes under an empty key."""

    key: str
    value: str
    agent: str
    session: str = ""
    project: str | None = None
    """The project of a pinned note; None means everywhere."""
    pinned: bool = False
    authority: Authority
    """Who wrote it; a pinned note is replaced or deleted by no lower one."""
    at: datetime
    expires_at: datetime | None = None
