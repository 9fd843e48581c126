"""Working notes: short-lived keys and values of a session; pinned ones are of a project."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

NOTES_PINNED_MAX: Final = 10
"""Of one project: every boot shows all of them."""
NOTES_MAX: Final = 100
"""Of one session: what is more belongs into the memory."""
NOTE_KEPT: Final = timedelta(days=7)
"""How long unpinned ones outlast the last that their session wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One working note; who has no session writes under an empty one."""

    key: str
    value: str
    agent: str
    session: str = ""
    project: str | None = None
    """Of a pinned one: where boots show it; None means everywhere."""
    pinned: bool = False
    at: datetime
    expires_at: datetime | None = None
