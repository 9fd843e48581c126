"""Sessions of agents, and their scratchpads."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Select,
    Update,
    and_,
    bindparam,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    text,
    update,
)

from commonbrain.model import ids
from commonbrain.model.notes import Note
from commonbrain.model.scope import Caller
from commonbrain.model.sessions import (
    EXPLICIT_ENDINGS,
    HTTP_PREFIX,
    Ending,
    Process,
    Session,
    is_over,
    is_same_process,
)
from commonbrain.model.timestamps import to_millis
from commonbrain.model.values import dataclass, fields
from commonbrain.storage.interface import ShownMemories
from commonbrain.storage.schema.activity import notes, sessions
from commonbrain.storage.schema.memories import audit
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sql.statements import in_ids

_NOT_IN_BEATS: Final = {"tenant_id", "task", "probed_at", "booted_at", "shown", "metadata"}
BEAT_COLUMNS: Final = tuple(
    column.name for column in sessions.columns if column.name not in _NOT_IN_BEATS
)
"""What a beat is written as in JSON, in this order."""
_CLIENTS: Final = ("client", "cwd", "host", "pid", "pid_created_at")
"""Columns that keep their first value while the session lives; a revived one may differ."""
_EXPLICIT: Final = ", ".join(f"'{ending}'" for ending in sorted(EXPLICIT_ENDINGS))
_SERVERS: Final = ("server_pid", "server_created_at")
"""Columns of the current connection: the last value wins, and none survives an end."""


_REVIVED: Final = "excluded.heartbeat_at > sessions.ended_at"
"""Of a live session this is NULL, which is not true."""


def session_update(*, greatest: str) -> str:
    """Build the update of an existing session; `greatest` is the name of that function."""
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
    # A connection that was closed may come back, with what it was shown.
    shown = f"shown = CASE WHEN excluded.ending IN ({_EXPLICIT}) THEN NULL ELSE sessions.shown END"
    return ", ".join([heard, *clients, *servers, *ends, shown])


_PLAIN: Final = tuple(
    field.name for field in fields(Session) if field.name in sessions.c and field.name != "metadata"
)
"""What a session and its row name alike."""
_BIRTHS: Final = {"pid": "pid_created_at", "server_pid": "server_created_at"}
_NAMES: Final = tuple(column.name for column in sessions.columns)
_HERE: Final = sessions.c.tenant_id == bindparam("tenant")
# A parameter may not be named as a column that it sets.
_NEW: Final = {
    name: bindparam(f"new_{name}", type_=sessions.c[name].type)
    for name in _NAMES
    if name not in {"tenant_id", "id", "agent", "key"}
}
_UNSAVED: Final = frozenset({"probed_at", "shown"})
"""Columns that are no part of a session; saving one leaves them as they are."""
_LIVE: Final = select(sessions).where(_HERE, sessions.c.ended_at.is_(None))
_ONE: Final = select(sessions).where(
    _HERE, sessions.c.agent == bindparam("agent"), sessions.c.key == bindparam("key")
)
_TRACES: Final = tuple(
    select(table.c.agent)
    .where(table.c.tenant_id == bindparam("tenant"), table.c.agent == bindparam("agent"))
    .limit(1)
    for table in (sessions, audit)
)
"""What an agent leaves; each is indexed by agent."""
_SHOWN: Final = _ONE.with_only_columns(sessions.c.shown)
_SAVE: Final = (
    update(sessions)
    .where(_HERE, sessions.c.agent == bindparam("agent"), sessions.c.key == bindparam("key"))
    .values({name: new for name, new in _NEW.items() if name not in _UNSAVED})
)
_SAVE_OVER: Final = _SAVE.values(shown=null())
_AMONG_LIVE: Final = update(sessions).where(in_ids(sessions.c.id), sessions.c.ended_at.is_(None))
_PROBED: Final = _AMONG_LIVE.values(probed_at=_NEW["probed_at"])
_END: Final = _AMONG_LIVE.values(ended_at=_NEW["ended_at"], ending=_NEW["ending"], shown=null())
_OF_PROCESS: Final = _LIVE.where(
    sessions.c.agent == bindparam("agent"),
    sessions.c.host == bindparam("host"),
    sessions.c.pid == bindparam("pid"),
    sessions.c.cwd.is_not_distinct_from(bindparam("cwd")),
)
_OF_TERMINALS: Final = _LIVE.where(
    sessions.c.agent == bindparam("agent"),
    sessions.c.host == bindparam("host"),
    sessions.c.server_pid.is_(None),
    sessions.c.key.startswith(f"{ids.SESSION}_", autoescape=True),
)
_ANY_TERMINAL: Final = _OF_TERMINALS.limit(1)
_OF_TERMINAL: Final = _OF_TERMINALS.where(sessions.c.pid == bindparam("pid"))
_IS_PROBED: Final = or_(sessions.c.pid.is_not(None), sessions.c.server_pid.is_not(None))
_TO_PROBE: Final = (
    _LIVE.where(sessions.c.host == bindparam("host"), _IS_PROBED)
    .order_by(func.coalesce(sessions.c.probed_at, sessions.c.started_at), sessions.c.id)
    .limit(bindparam("limit"))
)
_IS_HTTP: Final = sessions.c.key.startswith(HTTP_PREFIX, autoescape=True)
_INSTANT: Final = sessions.c.heartbeat_at.type
_SILENT: Final = (
    _LIVE.where(
        or_(~_IS_PROBED, sessions.c.host.is_distinct_from(bindparam("host"))),
        or_(
            sessions.c.heartbeat_at <= bindparam("since", type_=_INSTANT),
            and_(_IS_HTTP, sessions.c.heartbeat_at <= bindparam("http_since", type_=_INSTANT)),
        ),
    )
    .order_by(sessions.c.heartbeat_at)
    .limit(bindparam("limit"))
)


@dataclass(frozen=True, slots=True)
class SessionRepository:
    """Sessions, identified by agent and key."""

    work: SqlContext

    def get(self, agent: str, key: str) -> Session | None:
        """Return a session, live or ended; None if it is unknown."""
        # Every call of a server asks this, so it goes straight to the driver.
        known = self._all(_ONE, agent=agent, key=key)
        return known[0] if known else None

    def save(self, session: Session) -> None:
        """Insert or replace a session by agent and key; the id of an existing one stays.

        What it was shown is forgotten if it is over.
        """
        values = _row(session)
        given = {"tenant": self.work.tenant, "agent": session.agent, "key": session.key}
        given |= {f"new_{name}": values[name] for name in _NEW.keys() - _UNSAVED}
        changed = self.work.change(_SAVE_OVER if is_over(session) else _SAVE, given)
        row = {"tenant_id": self.work.tenant, **values}
        if not changed and not self.work.add(sessions, row):
            # Another session was drawn the same id: any free one will do, for only keys are shown.
            del values["id"]
            self.work.append(sessions, values, at=session.started_at)

    def live(
        self,
        *,
        limit: int,
        agent: str | None = None,
        project: str | None = None,
        after: tuple[datetime, int] | None = None,
    ) -> list[Session]:
        """List sessions that have not ended, latest heartbeat first.

        `after` is the heartbeat and the id of the last session of the page before.
        """
        at, id_ = after or (None, None)
        named = {"agent": agent, "project": project, "after_at": at, "after_id": id_}
        given = {name: value for name, value in named.items() if value is not None}
        return self._all(_live(frozenset(given)), **given, limit=limit)

    def of_process(self, agent: str, process: Process, *, cwd: str | None) -> list[Session]:
        """List an agent's live sessions of one process in one folder, oldest first."""
        return self._of_process(_OF_PROCESS, process, agent=agent, cwd=cwd)

    def of_terminal(self, agent: str, process: Process) -> list[Session]:
        """List an agent's live unnamed sessions of a shell or program in any folder, newest first.

        Those that a server holds for it are left out.
        """
        return self._of_process(_OF_TERMINAL, process, agent=agent)[::-1]

    def has_terminals(self, agent: str, host: str) -> bool:
        """Return whether `of_terminal` returns any for some process of a host."""
        return bool(self._all(_ANY_TERMINAL, agent=agent, host=host))

    def to_probe(self, host: str, *, limit: int) -> list[Session]:
        """List live sessions with a process on this host, least recently probed first."""
        return self._all(_TO_PROBE, host=host, limit=limit)

    def silent(
        self, host: str, *, since: datetime, http_since: datetime, limit: int
    ) -> list[Session]:
        """List live sessions that this host cannot probe without a heartbeat since a time.

        `http_since` is that time for sessions over HTTP.
        """
        return self._all(_SILENT, host=host, since=since, http_since=http_since, limit=limit)

    def last_booted(self, agent: str, *, prefix: str) -> Session | None:
        """Return the live session that an agent booted last, among keys with a prefix."""
        conditions = (
            sessions.c.agent == agent,
            sessions.c.key.startswith(prefix, autoescape=True),
            sessions.c.booted_at.is_not(None),
        )
        latest = sessions.c.booted_at.desc(), sessions.c.id.desc()
        booted = self._all(_LIVE.where(*conditions).order_by(*latest).limit(1))
        return booted[0] if booted else None

    def unseen(self, agents: Sequence[str]) -> list[str]:
        """Return those agents that never had a session nor changed anything."""
        return [
            one
            for one in agents
            if not any(self.work.rows(trace, {"agent": one}) for trace in _TRACES)
        ]

    def probed(self, ids: Sequence[int], *, at: datetime) -> None:
        """Record when sessions were probed."""
        self._change(_PROBED, ids, new_probed_at=at)

    def end(self, ids: Sequence[int], *, ending: Ending, at: datetime) -> None:
        """End the live ones among the sessions."""
        self._change(_END, ids, new_ended_at=at, new_ending=ending)

    def shown(self, agent: str, key: str) -> dict[int, bool]:
        """Return the memories that a session was shown, and which needed review then."""
        given = {"tenant": self.work.tenant, "agent": agent, "key": key}
        rows = self.work.connection.execute(_SHOWN, given).scalars().all()
        return dict(rows[0] or ()) if rows else {}

    def show(self, given: ShownMemories, *, at: datetime) -> None:
        """Add what a session was shown; an unknown session starts."""
        known = self.shown(given.agent, given.session)
        listed = [list(pair) for pair in given.added_to(known).items()]
        here = self.work.here(sessions, agent=given.agent, key=given.session)
        statement = update(sessions).where(here).values(shown=listed or None)
        if not self.work.connection.execute(statement).rowcount and listed:
            own = {"key": given.session, "agent": given.agent, "shown": listed}
            self.work.append(sessions, {**own, "started_at": at, "heartbeat_at": at}, at=at)

    def _of_process(
        self, statement: Select[Any], process: Process, **given: object
    ) -> list[Session]:
        rows = self._all(statement, host=process.host, pid=process.pid, **given)
        same = [one for one in rows if one.process and is_same_process(one.process, process)]
        # Sorted here, because SQLite would choose an index of all sessions for its order.
        return sorted(same, key=lambda one: one.id)

    def _all(self, statement: Select[Any], **given: object) -> list[Session]:
        rows = self.work.rows(statement, given)
        return [_session(dict(zip(_NAMES, row, strict=True))) for row in rows]

    def _change(self, statement: Update, ids: Sequence[int], **given: object) -> None:
        if ids:
            self.work.change(statement, {"tenant": self.work.tenant, "ids": list(ids), **given})


@lru_cache
def _live(given: frozenset[str]) -> Select[Any]:
    """Build a list of live sessions once for all with the same conditions."""
    row = sessions.c
    conditions = [row[name] == bindparam(name) for name in ("agent", "project") if name in given]
    if "after_at" in given:
        at, id_ = bindparam("after_at", type_=_INSTANT), bindparam("after_id", type_=BigInteger())
        conditions.append(or_(row.heartbeat_at < at, and_(row.heartbeat_at == at, row.id > id_)))
    latest = row.heartbeat_at.desc(), row.id
    return _LIVE.where(*conditions).order_by(*latest).limit(bindparam("limit"))


def beat_row(session: Session) -> list[object]:
    """Write a heartbeat as the JSON values that `write_reads` reads, in its order."""
    row = _row(session)
    return [
        to_millis(value) if isinstance(value, datetime) else value
        for value in (row[name] for name in BEAT_COLUMNS)
    ]


def _row(session: Session) -> dict[str, Any]:
    client, server = session.process, session.server
    seen = client or server
    return {name: getattr(session, name) for name in _PLAIN} | {
        "metadata": dict(session.metadata) or None,
        "host": seen.host if seen else None,
        "pid": client.pid if client else None,
        "pid_created_at": client.created_at if client else None,
        "server_pid": server.pid if server else None,
        "server_created_at": server.created_at if server else None,
    }


def _session(row: Mapping[Any, Any]) -> Session:
    return Session(
        **{name: row[name] for name in _PLAIN},
        metadata=row["metadata"] or {},
        process=_process(row, "pid"),
        server=_process(row, "server_pid"),
    )


def _process(row: Mapping[Any, Any], pid: str) -> Process | None:
    if row["host"] is None or row[pid] is None:
        return None
    return Process(host=row["host"], pid=row[pid], created_at=row[_BIRTHS[pid]])


_NOTE: Final = tuple(field.name for field in fields(Note))
_ROWS: Final = select(*(notes.c[name] for name in _NOTE))


@dataclass(frozen=True, slots=True)
class ScratchpadRepository:
    """Notes of sessions; expired ones are invisible."""

    work: SqlContext

    def put(self, note: Note) -> None:
        """Store a note; it replaces the one with its agent, session and key."""
        self.drop(note)
        row = self.work.row_of(note)
        self.work.connection.execute(insert(notes), row)

    def drop(self, note: Note) -> None:
        """Delete the note with this one's agent, session and key."""
        here = self._written(note.agent, note.session), notes.c.key == note.key
        self.work.connection.execute(delete(notes).where(*here))

    def of(self, caller: Caller, *, now: datetime) -> list[Note]:
        """List the notes of the caller's session, by key."""
        here = self._written(caller.agent, caller.session)
        statement = _ROWS.where(here, _lives(now)).order_by(notes.c.key)
        return [Note(**row) for row in self.work.connection.execute(statement).mappings()]

    def pinned(self, project: str | None, *, now: datetime) -> list[Note]:
        """List the pinned notes of a project and those without a project, by key, then author."""
        rows = self.work.rows(_PINNED, {"project": project, "now": now})
        return [Note(**dict(zip(_NOTE, row, strict=True))) for row in rows]

    def extend(self, caller: Caller, *, until: datetime, now: datetime) -> None:
        """Extend the unpinned notes of the caller's session until then; delete expired ones."""
        here = notes.c.tenant_id == self.work.tenant
        self.work.connection.execute(delete(notes).where(here, notes.c.expires_at <= now))
        own = self._written(caller.agent, caller.session)
        statement = update(notes).where(own, ~notes.c.pinned, notes.c.expires_at < until)
        self.work.connection.execute(statement.values(expires_at=until))

    def _written(self, agent: str, session: str | None) -> ColumnElement[bool]:
        return self.work.here(notes, agent=agent, session=session or "")


def _lives(now: datetime | BindParameter[Any]) -> ColumnElement[bool]:
    return or_(notes.c.expires_at.is_(None), notes.c.expires_at > now)


_PINNED: Final = _ROWS.where(
    notes.c.tenant_id == bindparam("tenant"),
    # As a word, because SQLite uses an index of few rows only for its very condition.
    text("notes.pinned"),
    or_(notes.c.project.is_(None), notes.c.project == bindparam("project")),
    _lives(bindparam("now", type_=notes.c.expires_at.type)),
).order_by(notes.c.key, notes.c.agent, notes.c.session)
