"""By what evidence a session is over, and which session a contact is of; all by pure decision."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from commonbrain.domain.session import Contact, Ending, Process, Session

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


def key_of(last: str | None, *, known: Session | None, around: Sequence[Session]) -> str | None:
    """Say under which key a connection acts whose client gave it none; None for a new one.

    Args:
        last: the key it acted under before.
        known: what is stored under that key.
        around: the live sessions of the same agent, process and folder.

    A key that the client gave, through a hook, beats one that was drawn for the connection, as
    long as there is one such key and no more. What is over is not gone on with.

    """
    named = [one.key for one in around if one.is_named]
    if last in named:
        return last
    if len(named) == 1:
        return named[0]
    return None if known is not None and is_over(known) else last


def rebooted_by(session: Session, around: Sequence[Session]) -> list[Session]:
    """List the sessions that end because this one begins in the same process and folder.

    A client that names its sessions has one at a time; connections without a name stand side by
    side, for one process may hold many.
    """
    return [one for one in around if session.is_named and one.key != session.key]


def told_by(contact: Contact) -> dict[str, object]:
    """Give what a contact tells of its client; what it does not know stays as it is."""
    told = {name: getattr(contact, name) for name in Contact.__slots__}
    return {name: value for name, value in told.items() if value is not None}
