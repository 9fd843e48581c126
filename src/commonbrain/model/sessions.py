"""Sessions: an active client with a task, and the evidence that it has ended."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from commonbrain.model import ids
from commonbrain.model.limits import (
    NAME_CHARS_MAX,
    SESSION_IDLE_MINUTES,
    SESSION_SILENT_HOURS,
)
from commonbrain.model.values import dataclass, field

FOLDER_VARIABLES: Final = ("CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "GEMINI_PROJECT_DIR")
"""Variables by which clients pass their folder to hooks, wherever those run."""
SESSION_VARIABLES: Final = {"claude-code": "CLAUDE_CODE_SESSION_ID"}
"""Variables by which clients pass their session to what they start.

Only a client's own variable counts, because another client started from its shell inherits it.
"""
PASSED_VARIABLES: Final = frozenset({*FOLDER_VARIABLES, *SESSION_VARIABLES.values()})
"""Variables that describe the client, for a process that works on behalf of another."""


class Ending(StrEnum):
    """The evidence that a session has ended."""

    ENDED = "ended"
    """It was ended explicitly."""
    CLOSED = "closed"
    """Its connection was closed."""
    DEAD = "dead"
    """Its client's process is gone."""
    REBOOTED = "rebooted"
    """The same client started again in the same folder."""
    SILENT = "silent"
    """No heartbeat for long, and its process cannot be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process on a host: numbers are reused, number and start time together are not."""

    host: str
    pid: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """The client of a call, in addition to the agent; everything may be unknown.

    `process` is the long-lived client's, never that of a short command; `server` holds the
    connection to it, if there is one.
    """

    client: str | None = None
    """Its name and version, for display."""
    cwd: str | None = None
    """The folder in which it was started."""
    process: Process | None = None
    server: Process | None = None


def printable_name(given: str) -> str | None:
    """Convert a client's name to a valid name; None if nothing is left."""
    words = " ".join(given.split())
    return "".join(filter(str.isprintable, words))[:NAME_CHARS_MAX].strip() or None


UNKNOWN: Final = ClientInfo()
"""An unknown client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An active client with a task; provisional until it boots.

    Memories refer to a session by its `key`: the client's own id if it gives one, else one
    generated for its connection. `ClientInfo` explains `process` and `server`.
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
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    """What others are shown of it, such as `branch`, `worktree` and `model`."""

    @property
    def is_named(self) -> bool:
        """Whether its client gave it its key."""
        return not self.key.startswith(f"{ids.SESSION}_")

    @property
    def is_http(self) -> bool:
        """Whether a server gave it its key, for a client that calls over HTTP."""
        return self.key.startswith(HTTP_PREFIX)


HTTP_PREFIX: Final = "http_"
"""Begins the keys that a server gives to clients over HTTP."""
IDLE_AFTER: Final = timedelta(minutes=SESSION_IDLE_MINUTES)
"""Time without a heartbeat after which a session is shown as idle; it does not end."""
SILENCE_MAX: Final = timedelta(hours=SESSION_SILENT_HOURS)
"""Time without a heartbeat after which a session ends whose process cannot be checked."""
BIRTHS_APART: Final = timedelta(seconds=1)
"""How much two readings of one start time may differ: clocks are adjusted."""
EXPLICIT_ENDINGS: Final = frozenset({Ending.ENDED, Ending.REBOOTED})
"""Explicit endings; a heartbeat revokes any other."""


def is_same_process(one: Process, other: Process) -> bool:
    """Return whether two readings are of one process, by number and start time."""
    return (
        one.host == other.host
        and one.pid == other.pid
        and abs(one.created_at - other.created_at) <= BIRTHS_APART
    )


def is_idle(session: Session, now: datetime, *, after: timedelta = IDLE_AFTER) -> bool:
    """Return whether there was no heartbeat for longer than a time."""
    return now - session.heartbeat_at > after


def is_over(session: Session) -> bool:
    """Return whether it has ended explicitly, so that only a new start makes it active again."""
    return session.ending in EXPLICIT_ENDINGS


def ending_of(
    session: Session,
    *,
    host: str,
    now: datetime,
    is_alive: Callable[[Process], bool],
    silence_max: timedelta = SILENCE_MAX,
) -> Ending | None:
    """Return the ending of an active session as seen from one host; None if it seems alive.

    Only processes of this host are checked. As long as one can be, silence proves nothing.
    """
    client, server = session.process, session.server
    if client is not None and client.host == host and not is_alive(client):
        return Ending.DEAD
    if server is not None and server.host == host and not is_alive(server):
        return Ending.CLOSED
    if any(one is not None and one.host == host for one in (client, server)):
        return None
    return Ending.SILENT if now - session.heartbeat_at >= silence_max else None


def key_of(
    last: str | None, *, known: Session | None, live_sessions: Sequence[Session]
) -> str | None:
    """Return the key of a connection whose client gave none; None for a new one.

    Args:
        last: the key under which it acted before.
        known: the session stored under that key.
        live_sessions: active sessions of the same agent, process and folder.

    A key from the client, through a hook, takes precedence over a generated one if it is the only
    such key. Ended sessions are not continued.

    """
    named = [one.key for one in live_sessions if one.is_named]
    if last in named:
        return last
    if len(named) == 1:
        return named[0]
    return None if known is not None and is_over(known) else last


def rebooted_by(session: Session, live_sessions: Sequence[Session]) -> list[Session]:
    """List the sessions that end because this one starts in the same process and folder.

    A client that names its sessions has one at a time, and so has a shell or a program that boots
    without a name. Connections without a name can coexist: one process may hold many.
    """
    others = [one for one in live_sessions if one.key != session.key]
    if session.is_named:
        return others
    if session.server is not None:
        return []
    return [one for one in others if not one.is_named and one.server is None]


def known_fields_of(contact: ClientInfo) -> dict[str, object]:
    """Return the known fields of a contact; unknown ones stay as they are."""
    fields = {name: getattr(contact, name) for name in ClientInfo.__slots__}
    return {name: value for name, value in fields.items() if value is not None}


BRANCH: Final = "branch"
WORKTREE: Final = "worktree"
MODEL: Final = "model"
METADATA_SHOWN: Final = (BRANCH, WORKTREE, MODEL)
"""Metadata that boot shows of other sessions."""
