"""The shelf of calls."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, delete, select, text

from commonbrain.adapters.sql.event_tables import tool_events
from commonbrain.adapters.sql.work import Work
from commonbrain.domain import ids
from commonbrain.domain.times import to_millis
from commonbrain.domain.tool_event import OK, REFUSED, ToolEvent
from commonbrain.ports.events import Happened

_COLUMNS: Final = tuple(column.name for column in tool_events.columns if column.name != "tenant_id")
_NEWEST: Final = (
    select(*(tool_events.c[name] for name in _COLUMNS))
    .where(tool_events.c.tenant_id == bindparam("tenant"), tool_events.c.id >= bindparam("since"))
    .order_by(tool_events.c.id.desc())
    .limit(bindparam("limit"))
)
_FAILED: Final = _NEWEST.where(tool_events.c.outcome.not_in((OK, REFUSED)))
_OLD: Final = delete(tool_events).where(
    tool_events.c.tenant_id == bindparam("tenant"), tool_events.c.id < bindparam("before")
)
# One step whatever the number of rows, as the other things are that reads leave in SQLite.
_SQLITE: Final = text(
    f"INSERT INTO tool_events (tenant_id, {', '.join(_COLUMNS)}) "  # noqa: S608 all are our own
    f"SELECT :tenant, {', '.join(f'value ->> {at}' for at in range(len(_COLUMNS)))} "
    "FROM json_each(:events) WHERE true ON CONFLICT DO NOTHING"
)


@dataclass(frozen=True, slots=True)
class ToolEventShelf:
    """Calls of one tenant in one transaction."""

    work: Work

    def latest(self, *, limit: int, since: datetime, failed: bool = False) -> list[ToolEvent]:
        """List the calls since a moment, or the failed ones, the newest first."""
        question = _FAILED if failed else _NEWEST
        rows = self.work.rows(question, {"since": ids.make_id(since, 0), "limit": limit})
        tenant = self.work.tenant
        return [ToolEvent(tenant=tenant, **dict(zip(_COLUMNS, row, strict=True))) for row in rows]


def write_events(work: Work, happened: Happened) -> None:
    """Keep events, those that are kept already once, and drop the old ones."""
    connection, tenant = work.connection, work.tenant
    if connection.dialect.name == "sqlite":
        rows = json.dumps([[*_values(event).values()] for event in happened.events])
        connection.execute(_SQLITE, {"tenant": tenant, "events": rows})
    elif happened.events:
        into = work.dialect.insert_or_skip(tool_events)
        given = [{"tenant_id": tenant, **_values(one), "at": one.at} for one in happened.events]
        connection.execute(into, given)
    connection.execute(_OLD, {"tenant": tenant, "before": ids.make_id(happened.keep_from, 0)})


def _values(event: ToolEvent) -> dict[str, Any]:
    """Give an event's columns in their order, its moment as SQLite keeps it."""
    given = {name: getattr(event, name) for name in _COLUMNS}
    return {**given, "at": to_millis(event.at), "session": event.session or ""}
