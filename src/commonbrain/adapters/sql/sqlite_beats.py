"""How signs of life are written to SQLite: one statement for all of them, for `write_reads`."""

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


def _told() -> str:
    clients = [
        f"{name} = iif({_REVIVED}, coalesce(excluded.{name}, sessions.{name}), "
        f"coalesce(sessions.{name}, excluded.{name}))"
        for name in _CLIENTS
    ]
    servers = [
        f"{name} = coalesce(excluded.{name}, iif({_REVIVED}, NULL, sessions.{name}))"
        for name in _SERVERS
    ]
    # What a live session becomes is what the beat says; what was taken for over lives again when
    # it was heard later.
    ends = [
        f"{name} = iif(sessions.ended_at IS NULL OR {_REVIVED}, excluded.{name}, sessions.{name})"
        for name in ("ended_at", "ending")
    ]
    heard = "heartbeat_at = max(sessions.heartbeat_at, excluded.heartbeat_at)"
    return ", ".join([heard, *clients, *servers, *ends])


HEARD: Final = (
    f"INSERT INTO sessions (tenant_id, {', '.join(BEAT_COLUMNS)}) "  # noqa: S608 all are our own
    f"SELECT :tenant, {', '.join(f'value ->> {at}' for at in range(len(BEAT_COLUMNS)))} "
    "FROM json_each(:beats) WHERE true "
    f"ON CONFLICT (tenant_id, agent, key) DO UPDATE SET {_told()} "
    "WHERE sessions.ending IS NULL OR sessions.ending NOT IN ('ended', 'rebooted') "
    "ON CONFLICT DO NOTHING"
)
