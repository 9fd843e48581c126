"""A session: one live client with a task, and by what evidence it is known to be over."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from commonbrain.domain import ids
from commonbrain.domain.limits import NAME_CHARS_MAX


class Ending(StrEnum):
    """By what evidence a session is known to be over."""

    ENDED = "ended"
    """It said so."""
    CLOSED = "closed"
    """Its connection was closed."""
    DEAD = "dead"
    """Its client's process is gone."""
    REBOOTED = "rebooted"
    """The same client began anew in the same place."""
    SILENT = "silent"
    """Nothing was heard for a day of one whose process cannot be looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process on a host: its number is used again, its number and birth together are not."""

    host: str
    pid: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """What is known of the client behind a call, beside the agent that acts; all may be unknown.

    `process` is the long-lived client's, never that of a short command; `server` is what holds the
    connection to it, where there is one.
    """

    client: str | None = None
    """Its name and version, for people."""
    cwd: str | None = None
    """The folder it was started in."""
    process: Process | None = None
    server: Process | None = None


def printable_name(given: str) -> str | None:
    """Make what a client calls itself into what a name may be; None where nothing is left."""
    words = " ".join(given.split())
    return "".join(filter(str.isprintable, words))[:NAME_CHARS_MAX].strip() or None


UNKNOWN: Final = Contact()
"""A client of which nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One live client with a task; provisional until it boots.

    `key` is what memories name it by: the client's own id of it where it gives one, else one drawn
    for its connection. For `process` and `server` see `Contact`.
    """

    id: int
    key: str
    agent: str
    project: str | None = None
    task: str | None = None
    client: str | None = None
    cwd: str | None = None
    process: Process | None = None
    server: Process | None = None
    started_at: datetime
    heartbeat_at: datetime
    booted_at: datetime | None = None
    ended_at: datetime | None = None
    ending: Ending | None = None

    @property
    def is_named(self) -> bool:
        """Whether its client gave it its key, so that no connection made it up."""
        return not self.key.startswith(f"{ids.SESSION}_")
