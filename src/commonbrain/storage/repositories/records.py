"""Audit, outbox, idempotent replies, recall traces and tool events."""

import hmac
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import starmap
from operator import attrgetter
from typing import Any, Final, NamedTuple

from pydantic_core import to_json
from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    Table,
    bindparam,
    delete,
    func,
    select,
    text,
)

from commonbrain.model import ids
from commonbrain.model.query import Candidate, RecallTrace
from commonbrain.model.timestamps import to_millis
from commonbrain.model.values import dataclass, field, fields, replace
from commonbrain.observability.hook_runs import ShownCounts
from commonbrain.observability.tool_events import OK, REFUSED, WEB_TRANSPORT, EventBatch, ToolEvent
from commonbrain.storage.interface import AuditEntry, AuditFilter, AuditLine, StoredReply
from commonbrain.storage.schema.activity import OF_HOOKS, access_audit, tool_events
from commonbrain.storage.schema.memories import audit, idempotency, outbox, tenants
from commonbrain.storage.sql.context import Repository, SqlContext, count_up_to
from commonbrain.storage.sql.filters import unindexed

_AUDIT_KEY: Final = select(tenants.c.audit_key).where(tenants.c.id == bindparam("tenant"))
_REPLY: Final = select(*(idempotency.c[one.name] for one in fields(StoredReply))).where(
    idempotency.c.tenant_id == bindparam("tenant"),
    idempotency.c.agent == bindparam("agent"),
    idempotency.c.key == bindparam("key"),
)
_LAST: Final = select(func.max(audit.c.id)).where(audit.c.tenant_id == bindparam("tenant"))
_DROP_REPLIES: Final = delete(idempotency).where(
    idempotency.c.tenant_id == bindparam("tenant"), idempotency.c.at < bindparam("before")
)
_CONSIDERED_MAX: Final = 100
"""Candidates stored per trace, best first: as many as two full retrievers return."""


@dataclass(frozen=True, slots=True)
class RecordRepository:
    """The audit, the outbox and the replies to idempotent calls."""

    work: SqlContext
    _keys: list[bytes] = field(default_factory=list[bytes])

    def audit(self, entry: AuditEntry) -> None:
        """Append one line to the audit."""
        self.work.append(audit, self._audit_row(entry, key=self._audit_key()), at=entry.at)

    def audit_alike(self, entry: AuditEntry, contents: Mapping[int, str]) -> None:
        """Append one line per memory, each with the digest of its own content."""
        key, shared = self._audit_key(), self._audit_row(entry, key=b"")
        del shared["memory_id"], shared["content_hmac"]
        # Above every other, for so many drawn ids would collide.
        last = self.work.connection.execute(_LAST, {"tenant": self.work.tenant}).scalar()
        first = max(ids.make_id(entry.at, 0), (last or 0) + 1)
        each = {
            "id": range(first, first + len(contents)),
            "memory_id": list(contents),
            "content_hmac": [_digest(content, key=key) for content in contents.values()],
        }
        self.work.bulk_insert(audit, shared=shared, each=each)

    def _audit_row(self, entry: AuditEntry, *, key: bytes) -> dict[str, Any]:
        row = self.work.row_of(entry)
        row["content_hmac"] = _digest(row.pop("content"), key=key)
        return row

    def _audit_key(self) -> bytes:
        """Return the tenant's key, which no transaction changes."""
        if not self._keys:
            self._keys.extend(key for (key,) in self.work.rows(_AUDIT_KEY, {}))
        return self._keys[0]

    def publish(self, topic: str, memory_id: int, *, at: datetime) -> None:
        """Append an event to the outbox; workers read it after the commit."""
        self.work.append(outbox, {"topic": topic, "memory_id": memory_id, "at": at}, at=at)

    def drop_events(self, *, before: datetime, limit: int) -> int:
        """Delete events published before a time; return the number deleted."""
        # Ids begin with the moment, and the primary key finds them.
        here = outbox.c.tenant_id == self.work.tenant
        old = select(outbox.c.id).where(here, outbox.c.id < ids.make_id(before, 0))
        some = old.order_by(outbox.c.id).limit(limit).scalar_subquery()
        statement = delete(outbox).where(here, outbox.c.id.in_(some))
        return self.work.connection.execute(statement).rowcount

    def reply(self, agent: str, key: str) -> StoredReply | None:
        """Return the reply to an earlier call of this agent with this idempotency key."""
        given = {"tenant": self.work.tenant, "agent": agent, "key": key}
        row = self.work.connection.execute(_REPLY, given).mappings().first()
        if row is None:
            return None
        known = StoredReply(**row)
        return replace(known, memory_ids=tuple(known.memory_ids))

    def drop_replies(self, *, before: datetime) -> None:
        """Delete the replies stored before a time."""
        given = {"tenant": self.work.tenant, "before": before}
        self.work.connection.execute(_DROP_REPLIES, given)

    def save_reply(self, reply: StoredReply) -> None:
        """Store a reply under its idempotency key."""
        row = self.work.row_of(reply) | {"memory_ids": list(reply.memory_ids)}
        self.work.add(idempotency, row)


def _digest(content: str, *, key: bytes) -> bytes:
    return hmac.digest(key, content.encode(), "sha256")


def trace_row(trace: RecallTrace) -> list[Any]:
    """Return a row of the values of a trace, its lists as JSON, in the order of its columns."""
    return [
        trace.id,
        to_millis(trace.asked_at),
        trace.caller.agent,
        trace.caller.session,
        trace.query,
        str(trace.status),
        # A trace of 40 candidates is long; this takes a fifth of the time of `json`.
        to_json([_considered(one, trace) for one in trace.considered[:_CONSIDERED_MAX]]).decode(),
        to_json(trace.packed).decode(),
        to_json(trace.degraded).decode(),
        to_json(dict(trace.stages_ms)).decode(),
        trace.ranker,
    ]


def _considered(candidate: Candidate, trace: RecallTrace) -> dict[str, Any]:
    # Half of them are 0, which goes without saying: a recall leaves 40 candidates of 25 features.
    features = {name: round(value, 4) for name, value in candidate.features.items() if value}
    id_ = candidate.memory.id
    extent = trace.extents.get(id_)
    return {
        "id": id_,
        "score": round(candidate.score, 4),
        "features": features,
        "left_out": trace.left_out.get(id_),
        **({} if extent is None else {"shown": extent}),
    }


_COLUMNS: Final = tuple(column.name for column in tool_events.columns if column.name != "tenant_id")
_FIELDS: Final = tuple("transport" if name == "door" else name for name in _COLUMNS)
"""The fields of a `ToolEvent`, in the order of its columns."""
_NEWEST: Final = (
    select(*(tool_events.c[name] for name in _COLUMNS))
    .where(tool_events.c.tenant_id == bindparam("tenant"), tool_events.c.id >= bindparam("since"))
    .order_by(tool_events.c.id.desc())
    .limit(bindparam("limit"))
)
_IS_OF_AGENT: Final = tool_events.c.agent == bindparam("agent")
_FAILED: Final = _NEWEST.where(tool_events.c.outcome.not_in((OK, REFUSED)))
_FAILED_OF_AGENT: Final = _FAILED.where(_IS_OF_AGENT)
_TIMINGS: Final = _NEWEST.with_only_columns(
    tool_events.c.tool, tool_events.c.duration_ms, tool_events.c.outcome
).where(tool_events.c.door != WEB_TRANSPORT)
# One step whatever the number of rows, as the other things are that reads leave in SQLite.
_SQLITE: Final = text(
    f"INSERT INTO tool_events (tenant_id, {', '.join(_COLUMNS)}) "  # noqa: S608 all are our own
    f"SELECT :tenant, {', '.join(f'value ->> {at}' for at in range(len(_COLUMNS)))} "
    "FROM json_each(:events) WHERE true ON CONFLICT DO NOTHING"
)


_OF_HOOKS: Final = _NEWEST.with_only_columns(
    tool_events.c.at, tool_events.c.tool, tool_events.c.args
).where(text(OF_HOOKS))
_OF_HOOKS_OF_AGENT: Final = _OF_HOOKS.where(_IS_OF_AGENT)
_OF_SESSION: Final = _NEWEST.with_only_columns(tool_events.c.args).where(
    tool_events.c.session == bindparam("session"), _IS_OF_AGENT
)


class Timing(NamedTuple):
    """How long a call took, and how it ended."""

    tool: str
    duration_ms: float
    outcome: str


class HookRun(NamedTuple):
    """One run of a hook."""

    at: datetime
    tool: str
    shown: ShownCounts


@dataclass(frozen=True, slots=True)
class ToolEventRepository:
    """Tool events: the calls of operations."""

    work: SqlContext
    _hooks: dict[tuple[object, ...], list[HookRun]] = field(
        default_factory=dict[tuple[object, ...], "list[HookRun]"]
    )
    """Runs that were read: a page counts ten thousand twice."""

    def latest(self, *, limit: int, since: datetime) -> list[ToolEvent]:
        """List the calls since a time, newest first."""
        return self._events(_NEWEST, {"since": ids.make_id(since, 0), "limit": limit})

    def failed(self, *, limit: int, since: datetime, agent: str | None = None) -> list[ToolEvent]:
        """List the failed calls since a time, of one agent or of all, newest first."""
        given = {"since": ids.make_id(since, 0), "limit": limit}
        if agent is None:
            return self._events(_FAILED, given)
        return self._events(_FAILED_OF_AGENT, {**given, "agent": agent})

    def _events(self, question: Select[Any], given: Mapping[str, object]) -> list[ToolEvent]:
        rows, tenant = self.work.rows(question, given), self.work.tenant
        return [ToolEvent(tenant=tenant, **dict(zip(_FIELDS, row, strict=True))) for row in rows]

    def timings(self, *, limit: int, since: datetime) -> list[Timing]:
        """List tool, duration and outcome of agents' calls since a time, newest first.

        People who read the page are left out, as in the trends.
        """
        rows = self.work.rows(_TIMINGS, {"since": ids.make_id(since, 0), "limit": limit})
        return list(starmap(Timing, rows))

    def of_hooks(
        self,
        *,
        limit: int,
        since: datetime,
        agent: str | None = None,
    ) -> list[HookRun]:
        """List the runs of hooks since a time, newest first; those of one agent, if it is named."""
        of_agent = {} if agent is None else {"agent": agent}
        given = {"since": ids.make_id(since, 0), "limit": limit, **of_agent}
        key = tuple(given.items())
        if key not in self._hooks:
            rows = self.work.rows(_OF_HOOKS_OF_AGENT if of_agent else _OF_HOOKS, given)
            self._hooks[key] = [
                HookRun(at, tool, ShownCounts.read(args)) for at, tool, args in rows
            ]
        return self._hooks[key]

    def tokens_shown(self, agent: str, session: str, *, limit: int) -> int:
        """Sum the tokens that the latest calls and hooks of an agent's session showed."""
        given = {"since": 0, "limit": limit, "agent": agent, "session": session}
        return sum(ShownCounts.read(args).tokens for (args,) in self.work.rows(_OF_SESSION, given))


def write_events(work: SqlContext, happened: EventBatch) -> None:
    """Store events, each once, and delete old ones if it is due."""
    connection, tenant = work.connection, work.tenant
    if connection.dialect.name == "sqlite":
        rows = json.dumps([[*_values(event).values()] for event in happened.events])
        connection.execute(_SQLITE, {"tenant": tenant, "events": rows})
    elif happened.events:
        into = work.dialect.insert_or_skip(tool_events)
        given = [{"tenant_id": tenant, **_values(one), "at": one.at} for one in happened.events]
        connection.execute(into, given)
    drop_old(work, tool_events.c.id, before=happened.retained_since)


def drop_old(work: SqlContext, *columns: Column[int], before: datetime | None) -> None:
    """Delete rows with an id of an earlier time in one of these columns; ids begin with theirs."""
    if before is not None:
        for id_ in columns:
            old = work.here(id_.table, id_ < ids.make_id(before, 0))
            work.connection.execute(delete(id_.table).where(old))


def _values(event: ToolEvent) -> dict[str, Any]:
    """List the values of an event in column order, its time as SQLite stores it."""
    given = {column: getattr(event, name) for column, name in zip(_COLUMNS, _FIELDS, strict=True)}
    return {**given, "at": to_millis(event.at), "session": event.session or ""}


_LINE_FIELDS: Final = tuple(one.name for one in fields(AuditLine))
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of the lowest id."""
_EQUAL: Final = ("agent", "action", "request_id", "memory_id")


class AuditRepository(Repository):
    """Reads the audit of memories and the access audit of one tenant, newest first."""

    def latest(self, criteria: AuditFilter, *, before: int | None, limit: int) -> list[AuditLine]:
        """List lines below an id, newest first."""
        lines: list[AuditLine] = []
        for table, query in self._queries(criteria, before=before):
            # The lines of one memory are few; SQLite would walk all lines in their order instead.
            id_ = table.c.id if criteria.memory_id is None else unindexed(table.c.id)
            rows = self.work.connection.execute(query.order_by(id_.desc()).limit(limit))
            lines += (AuditLine(**row) for row in rows.mappings())
        return sorted(lines, key=attrgetter("id"), reverse=True)[:limit]

    def count(self, criteria: AuditFilter, *, before: int | None, at_most: int) -> int:
        """Count lines below an id, up to a number."""
        queries = self._queries(criteria, before=before)
        counts = (count_up_to(self.work.connection, query, at_most=at_most) for _, query in queries)
        return min(sum(counts), at_most)

    def _queries(
        self, criteria: AuditFilter, *, before: int | None
    ) -> Iterator[tuple[Table, Select[Any]]]:
        """Build the query of each audit; only that of memories has lines about a memory."""
        tables = (
            *(() if criteria.is_of_access else (audit,)),
            *(() if criteria.memory_id is not None else (access_audit,)),
        )
        for table in tables:
            columns = [table.c[name] for name in _LINE_FIELDS if name in table.c]
            conditions = self._conditions(table, criteria)
            query = select(*columns).where(table.c.tenant_id == self.work.tenant, *conditions)
            yield table, query if before is None else query.where(table.c.id < before)

    def _conditions(self, table: Table, criteria: AuditFilter) -> Iterator[ColumnElement[bool]]:
        for name in _EQUAL:
            if (value := getattr(criteria, name)) is not None:
                yield table.c[name] == value
        if criteria.since is not None:
            # No id is lower than one made at its time, and the primary key finds these.
            yield table.c.id >= ids.make_id(max(criteria.since, _EARLIEST), 0)
            yield table.c.at >= criteria.since
        if criteria.until is not None:
            yield table.c.at <= criteria.until
