"""How signs of life are written, whatever the engine; each has its own statement around it."""

from typing import Final

BEAT_COLUMNS: Final = (
    "id",
    "key",
    "agent",
    "project",
    "client",
    "cwd",
    "host",
    "pid",
    "pid_created_at",
    "server_pid",
    "server_created_at",
    "started_at",
    "heartbeat_at",
    "ended_at",
    "ending",
)
"""What a beat is written as in JSON, in this order."""
_CLIENTS: Final = ("client", "cwd", "host", "pid", "pid_created_at")
"""What stays as it was first told while the session lives; one that is revived may be elsewhere."""
_SERVERS: Final = ("server_pid", "server_created_at")
"""What holds the connection now: the last one told, and none of before an end."""


_REVIVED: Final = "excluded.heartbeat_at > sessions.ended_at"
"""Of a live session this is NULL, which is not true."""


def told(*, greatest: str) -> str:
    """Say what becomes of a session that is there; `greatest` is the engine's name for that."""
    clients = [
        f"{name} = CASE WHEN {_REVIVED} THEN coalesce(excluded.{name}, sessions.{name}) "
        f"ELSE coalesce(sessions.{name}, excluded.{name}) END"
        for name in _CLIENTS
    ]
    servers = [
        f"{name} = coalesce(excluded.{name}, CASE WHEN {_REVIVED} THEN NULL "
        f"ELSE sessions.{name} END)"
        for name in _SERVERS
    ]
    # What a live session becomes is what the beat says; what was taken for over lives again when
    # it was heard later.
    ends = [
        f"{name} = CASE WHEN sessions.ended_at IS NULL OR {_REVIVED} THEN excluded.{name} "
        f"ELSE sessions.{name} END"
        for name in ("ended_at", "ending")
    ]
    heard = f"heartbeat_at = {greatest}(sessions.heartbeat_at, excluded.heartbeat_at)"
    return ", ".join([heard, *clients, *servers, *ends])
