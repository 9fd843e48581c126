"""Writes what reads leave behind in as few SQLite steps as possible.

A process that reads all day writes its traces from a separate thread, which has to wait for the
interpreter after every step of a statement, up to 5 ms each while a reader computes. Row by row,
the write lock would be held all that time: 8 readers left 8 writers one write per second. So each
statement is one step, whatever the number of rows.
"""

from typing import Any, Final

from commonbrain.storage.repositories.sessions import BEAT_COLUMNS, session_update

_STORED: Final = (
    "INSERT INTO recall_traces (tenant_id, id, asked_at, agent, session, query, verdict, "
    "considered, packed, degraded, stages_ms, ranker) "
    "SELECT :tenant, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, "
    "value -> 6, value -> 7, value -> 8, value -> 9, value ->> 10 FROM json_each(:traces) "
    "WHERE true ON CONFLICT DO NOTHING"
)
_TOUCHED: Final = (
    "UPDATE memories SET access_count = access_count + touched.times, "
    "last_access_at = max(coalesce(last_access_at, touched.at), touched.at) "
    "FROM (SELECT value ->> 0 AS id, count(*) AS times, max(value ->> 1) AS at "
    "FROM json_each(:accesses) GROUP BY 1) AS touched "
    "WHERE memories.tenant_id = :tenant AND memories.id = touched.id"
)
_HEARD: Final = (
    f"INSERT INTO sessions (tenant_id, {', '.join(BEAT_COLUMNS)}) "  # noqa: S608 all are our own
    f"SELECT :tenant, {', '.join(f'value ->> {at}' for at in range(len(BEAT_COLUMNS)))} "
    "FROM json_each(:beats) WHERE true "
    f"ON CONFLICT (tenant_id, agent, key) DO UPDATE SET {session_update(greatest='max')} "
    "WHERE sessions.ending IS NULL OR sessions.ending NOT IN ('ended', 'rebooted') "
    "ON CONFLICT DO NOTHING"
)
_OLD: Final = (
    "DELETE FROM recall_traces WHERE tenant_id = :tenant AND id < :before",
    "DELETE FROM feedback WHERE tenant_id = :tenant AND trace_id < :before",
)


def write_reads(cursor: Any, given: dict[str, Any]) -> int:  # noqa: ANN401 a driver's own
    """Write traces, accesses and heartbeats, given as JSON lists.

    Delete old traces, count new ones.
    """
    cursor.execute(_STORED, given)
    stored = cursor.rowcount
    cursor.execute(_TOUCHED, given)
    cursor.execute(_HEARD, given)
    for statement in _OLD:
        cursor.execute(statement, given)
    return stored
