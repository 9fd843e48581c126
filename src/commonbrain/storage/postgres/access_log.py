"""Writes what reads leave behind in few Postgres steps, as `sqlite/access_log.py` does."""

import json
from typing import Any, Final

from commonbrain.storage.repositories.sessions import BEAT_COLUMNS, session_update

_STORED: Final = (
    "INSERT INTO recall_traces (tenant_id, id, asked_at, agent, session, query, verdict, "
    "considered, packed, degraded, stages_ms, ranker) "
    "SELECT %(tenant)s, (value ->> 0)::bigint, (value ->> 1)::bigint, value ->> 2, value ->> 3, "
    "value ->> 4, value ->> 5, value -> 6, value -> 7, value -> 8, value -> 9, "
    "(value ->> 10)::bigint "
    "FROM json_array_elements(%(traces)s::json) ON CONFLICT DO NOTHING"
)
_TOUCHED: Final = (
    "UPDATE memories SET access_count = access_count + touched.times, "
    "last_access_at = greatest(last_access_at, touched.at) "
    "FROM (SELECT (value ->> 0)::bigint AS id, count(*) AS times, "
    "max((value ->> 1)::bigint) AS at FROM json_array_elements(%(accesses)s::json) GROUP BY 1) "
    "AS touched WHERE memories.tenant_id = %(tenant)s AND memories.id = touched.id"
)
_OLD: Final = (
    "DELETE FROM recall_traces WHERE tenant_id = %(tenant)s AND id < %(before)s",
    "DELETE FROM feedback WHERE tenant_id = %(tenant)s AND trace_id < %(before)s",
)
# Rows whose id another session used first are skipped, as are sessions that were ended explicitly.
_HEARD: Final = (
    f"INSERT INTO sessions (tenant_id, {', '.join(BEAT_COLUMNS)}) "  # noqa: S608 all are our own
    f"SELECT %s, {', '.join('%s' for _ in BEAT_COLUMNS)} WHERE NOT EXISTS (SELECT 1 FROM sessions "
    "AS known WHERE known.tenant_id = %s AND known.id = %s "
    "AND (known.agent, known.key) <> (%s, %s)) "
    f"ON CONFLICT (tenant_id, agent, key) DO UPDATE SET {session_update(greatest='greatest')} "
    "WHERE sessions.ending IS NULL OR sessions.ending NOT IN ('ended', 'rebooted')"
)
_PLACE: Final = {name: place for place, name in enumerate(BEAT_COLUMNS)}


def write_reads(cursor: Any, given: dict[str, Any]) -> int:  # noqa: ANN401 a driver's own
    """Write traces, accesses and heartbeats, given as JSON lists.

    Delete old traces, count new ones.
    """
    cursor.execute(_STORED, given)
    stored: int = cursor.rowcount
    cursor.execute(_TOUCHED, given)
    tenant, beats = given["tenant"], json.loads(given["beats"])
    if beats:
        cursor.executemany(_HEARD, [[tenant, *beat, tenant, *_key(beat)] for beat in beats])
    for statement in _OLD:
        cursor.execute(statement, given)
    return stored


def _key(beat: list[Any]) -> list[Any]:
    return [beat[_PLACE[name]] for name in ("id", "agent", "key")]
