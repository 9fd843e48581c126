"""A session: one live client with a task, and by what evidence it is known to be over."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from commonbrain.model import ids
from commonbrain.model.limits import NAME_CHARS_MAX


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
class ClientInfo:
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


UNKNOWN: Final = ClientInfo()
"""A client of which nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One live client with a task; provisional until it boots.

    `key` is what memories name it by: the client's own id of it where it gives one, else one drawn
    for its connection. For `process` and `server` see `ClientInfo`.
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


IDLE_AFTER: Final = timedelta(minutes=5)
"""Silence after which a session is shown as idle; it ends nothing."""
SILENCE_MAX: Final = timedelta(hours=24)
"""Silence that ends a session nobody here can look at: on another host, or without a process."""
BIRTHS_APART: Final = timedelta(seconds=1)
"""How far two readings of one process's birth may differ: clocks are adjusted."""
TOLD: Final = frozenset({Ending.ENDED, Ending.REBOOTED})
"""Endings that somebody decided; after any other one a sign of life proves it wrong."""


def is_same_process(one: Process, other: Process) -> bool:
    """Say whether two readings are of one process: numbers are used again, births are not."""
    return (
        one.host == other.host
        and one.pid == other.pid
        and abs(one.created_at - other.created_at) <= BIRTHS_APART
    )


def is_idle(session: Session, now: datetime) -> bool:
    """Say whether nothing was heard of it for a while."""
    return now - session.heartbeat_at > IDLE_AFTER


def is_over(session: Session) -> bool:
    """Say whether it ended for good: only a new beginning makes it live again."""
    return session.ending in TOLD


def ending_of(
    session: Session, *, host: str, now: datetime, is_alive: Callable[[Process], bool]
) -> Ending | None:
    """Judge a live session from one host; None while nothing speaks against it.

    Only processes of this host are looked at. While one can be, silence proves nothing.
    """
    client, server = session.process, session.server
    if client is not None and client.host == host and not is_alive(client):
        return Ending.DEAD
    if server is not None and server.host == host and not is_alive(server):
        return Ending.CLOSED
    if any(one is not None and one.host == host for one in (client, server)):
        return None
    return Ending.SILENT if now - session.heartbeat_at >= SILENCE_MAX else None


def key_of(
    last: str | None, *, known: Session | None, live_sessions: Sequence[Session]
) -> str | None:
    """Say under which key a connection acts whose client gave it none; None for a new one.

    Args:
        last: the key it acted under before.
        known: what is stored under that key.
        live_sessions: the live sessions of the same agent, process and folder.

    A key that the client gave, through a hook, beats one that was drawn for the connection, as
    long as there is one such key and no more. What is over is not gone on with.

    """
    named = [one.key for one in live_sessions if one.is_named]
    if last in named:
        return last
    if len(named) == 1:
        return named[0]
    return None if known is not None and is_over(known) else last


def rebooted_by(session: Session, live_sessions: Sequence[Session]) -> list[Session]:
    """List the sessions that end because this one begins in the same process and folder.

    A client that names its sessions has one at a time; connections without a name stand side by
    side, for one process may hold many.
    """
    return [one for one in live_sessions if session.is_named and one.key != session.key]


def session_told_by(contact: ClientInfo) -> dict[str, object]:
    """Give what a contact tells of its client; what it does not know stays as it is."""
    told = {name: getattr(contact, name) for name in ClientInfo.__slots__}
    return {name: value for name, value in told.items() if value is not None}


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
