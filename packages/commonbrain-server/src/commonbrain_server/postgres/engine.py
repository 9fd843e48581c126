"""The Postgres engine: connection pool, transactions of one tenant, write locks.

Writers of one tenant take turns, as all do in SQLite, because repositories rely on being alone
between a check and an insert. Writers of different tenants do not wait for each other.
"""

from __future__ import annotations

import json
import selectors
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from math import inf
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, LiteralString

import psycopg
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg import sql
from psycopg.types import TypeInfo
from sqlalchemy import URL, Connection, Engine, Insert, Table, create_engine, event, exc, text
from sqlalchemy.dialects.postgresql import insert as postgres_insert

from commonbrain.clock import UNTIL, check_awaited
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.errors import RejectedError
from commonbrain.observability.health import ReplicaReads
from commonbrain.storage.interface import Backup, Finding, Progress
from commonbrain.storage.repositories.sessions import BEAT_COLUMNS, session_update
from commonbrain.storage.sql.context import SqlContext, StatementInProgress
from commonbrain.storage.sql.statements import CURSOR_OPTIONS, LIST_FORMS
from commonbrain_server.postgres.cancellation import (
    as_alchemy_s,
    silence_after,
    wire,
)
from commonbrain_server.postgres.checks import clear_text, examine_postgres
from commonbrain_server.postgres.citus import (
    BEGIN_READING,
    BEGIN_WRITING,
    MARK,
    OneTenantCompiler,
    session_settings,
)
from commonbrain_server.postgres.errors import map_postgres_errors
from commonbrain_server.postgres.functions import ARRAYS
from commonbrain_server.postgres.index import PostgresIndex
from commonbrain_server.postgres.replicas import FOUND, Cluster, Replica, Replicas
from commonbrain_server.postgres.schema import OF_BYTES
from commonbrain_server.postgres.statistics import TenantSizes
from commonbrain_server.postgres.vectors import EF_SEARCH, vector_index_name

LIST_FORMS["postgresql"] = ARRAYS
# Vectors as text would be converted number by number, on both sides.
CURSOR_OPTIONS["psycopg"] = {"binary": True}
_TRACES: Final = (
    "INSERT INTO recall_traces (tenant_id, id, asked_at, agent, session, query, verdict, "
    "considered, packed, degraded, stages_ms, ranker) "
)
# Columns of many rows: from one JSON list, each value would cost a reading of its whole trace.
_STORED: Final = (
    f"{_TRACES} SELECT %s, id, asked_at, agent, session, query, verdict, "  # noqa: S608 all are our own
    "considered::json, packed::json, degraded::json, stages_ms::json, ranker "
    # What is long goes as binary arrays, in which nothing has to be escaped.
    "FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[], "
    "%b::text[], %b::text[], %b::text[], %b::text[], %s::bigint[]) AS trace (id, asked_at, agent, "
    "session, query, verdict, considered, packed, degraded, stages_ms, ranker) "
    "ON CONFLICT DO NOTHING"
)
# The same for one trace: of traces that Citus selects from a list, it counts skipped ones too.
_STORED_ON_SHARD: Final = (
    f"{_TRACES} VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
)
_TOUCHED: Final = (
    "UPDATE memories SET access_count = access_count + touched.times, "
    "last_access_at = greatest(last_access_at, touched.at) "
    "FROM (SELECT (value ->> 0)::bigint AS id, count(*) AS times, "
    "max((value ->> 1)::bigint) AS at FROM json_array_elements(%(accesses)s::json) GROUP BY 1) "
    "AS touched WHERE memories.tenant_id = %(tenant)s AND memories.id = touched.id"
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
_NOTHING: Final = json.dumps([])
_PLACE: Final = {name: place for place, name in enumerate(BEAT_COLUMNS)}


def write_reads(cursor: Any, given: dict[str, Any], *, is_distributed: bool) -> int:  # noqa: ANN401 a driver's own
    """Write traces, given as rows, and accesses and heartbeats, given as JSON lists.

    Count new traces.
    """
    tenant, traces, stored = given["tenant"], given["traces"], 0
    if traces:
        if is_distributed:
            cursor.executemany(_STORED_ON_SHARD, [[tenant, *trace] for trace in traces])
        else:
            columns = [list(column) for column in zip(*traces, strict=True)]
            cursor.execute(_STORED, [tenant, *columns])
        stored = cursor.rowcount
    if given["accesses"] != _NOTHING:
        cursor.execute(_TOUCHED, given)
    beats = json.loads(given["beats"])
    if beats:
        cursor.executemany(_HEARD, [[tenant, *beat, tenant, *_key(beat)] for beat in beats])
    return stored


def _key(beat: list[Any]) -> list[Any]:
    return [beat[_PLACE[name]] for name in ("id", "agent", "key")]


_CONNECT_S: Final = 10
_CONNECT_REPLICA_S: Final = 2
"""Seconds to wait for a replica that does not accept connections."""
SILENCE_REPLICA_S: Final = 1.5
"""Seconds to wait for a replica's reply to one statement, which usually takes milliseconds."""
_STATEMENT_S: Final = 60
"""Seconds for one statement; a search takes milliseconds."""
_IDLE_S: Final = 60
"""Seconds a transaction may be idle: a hanging process must not hold a tenant's lock."""
_RESTART_SHARE: Final = 2 / 3
"""Of the time that a writer waits for others, the share that all wait for a server that restarts.

Recovery after a crash took up to 11 s. After it, calls fail at once: it may never come back.
"""
_RETRY_S: Final = 1.0
"""How often each call that waits for a server tries it; it starts a process for each try."""
_UNTRIED_S: Final = 2 * _RETRY_S
"""Without a try for so long, none waits in a thread, and one of those that are held has to try."""
_AT_MOST: Final = 32
"""Connections of one process, all kept open: opening one costs as much as a recall."""
# Everything a transaction needs to begin, in one message: BEGIN, whose rows it sees, its turn, and
# which version the schema has. What is read while waiting for a turn must be as it is afterwards,
# so that writers see what is committed; readers see one moment.
_BEGIN_WRITING: Final[LiteralString] = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; "
    "SELECT set_config('commonbrain.tenant', {tenant}, true), "
    "pg_advisory_xact_lock(hashtextextended('commonbrain ' || {tenant}, 0)); "
    f"SELECT {MARK}"
)
_BEGIN_READING: Final[LiteralString] = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
    f"SELECT set_config('commonbrain.tenant', {{tenant}}, true), {MARK}"
)
_TURN: Final = text("SELECT pg_advisory_xact_lock(hashtextextended('commonbrain ' || :tenant, 0))")
_INDEXED: Final = text(
    "SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid "
    "WHERE c.relnamespace = current_schema()::regnamespace AND c.relname LIKE :name "
    "AND i.indisvalid)"
)
_TENANTS: Final = text("SELECT every_tenant()")
_BE: Final[LiteralString] = "SET LOCAL commonbrain.tenant = {tenant}"
_MARK: Final = "schema_mark"
_BUILT_MAX: Final = 1024
"""Beginnings of transactions that are kept, by tenant."""
# The selector that Linux prefers opens a file of its own each time.
_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)
_GIVEN: Final = ("tenant", "since", "settings")
"""Execution options that the statements of a beginning may name."""


@cache
def _insert_or_skip(into: Table) -> Insert:
    return postgres_insert(into).on_conflict_do_nothing()


@dataclass(slots=True, kw_only=True)
class Postgres:
    """One database: writers of a tenant take turns, readers never wait."""

    url: URL
    space: EmbeddingSpace
    space_id: int = 0
    """The row of the embedding space in this database; set on opening."""
    lock_timeout_s: float
    engine: Engine = field(init=False)
    location: str = field(init=False)
    """Where the store is, without credentials."""
    sizes: TenantSizes = field(default_factory=TenantSizes)
    is_distributed: bool = False
    """Whether Citus runs statements on other machines, which need the session's settings."""
    replicas: Replicas = field(default_factory=Replicas)
    """Replicas that answer reads; none unless configured."""
    _half: TypeInfo | None = None
    _lost_at: float | None = None
    """When the server was first found not to answer; None while it does."""
    _tried_at: float = -inf
    """When a call last tried to connect, or was let through to try."""

    def __post_init__(self) -> None:
        """Create the pool; does not connect."""
        self.engine = make_engine(self.url, lock_timeout_s=self.lock_timeout_s)
        self.location = location_of(self.url)
        self._listen(self.engine)

    def add_replicas(self, urls: Sequence[URL], *, cluster: Cluster) -> None:
        """Use replicas for reads; does not connect."""
        made: list[Replica] = []
        for url in urls:
            engine = make_engine(
                url,
                lock_timeout_s=SILENCE_REPLICA_S,
                statement_s=SILENCE_REPLICA_S,
                connect_s=_CONNECT_REPLICA_S,
                silence_s=SILENCE_REPLICA_S,
            )
            self._listen(engine)
            reads = ReplicaReads(replica=location_of(url))
            made.append(Replica(engine=engine, cluster=cluster, reads=reads))
        self.replicas = Replicas(all=made)

    def use_citus(self) -> None:
        """Begin transactions and write statements as Citus needs them."""
        self.is_distributed = True
        self.engine.dialect.statement_compiler = OneTenantCompiler

    def dispose(self) -> None:
        """Close every connection."""
        for engine in (self.engine, *(one.engine for one in self.replicas.all)):
            engine.dispose()

    def note_reads(self, connection: Connection, given: dict[str, Any]) -> int:
        """Write what `write_reads` takes; count new traces."""
        with as_alchemy_s(connection, "note reads") as cursor:
            return write_reads(cursor, given, is_distributed=self.is_distributed)

    def compact(self) -> None:
        """Do nothing: autovacuum returns space while others work."""

    def insert_or_skip(self, into: Table) -> Insert:
        """Build an insert that does nothing if the primary key exists."""
        return _insert_or_skip(into)

    def writer(self, tenant: str) -> Connection:
        """Open a connection whose transaction takes the tenant's write lock when it begins."""
        begin = BEGIN_WRITING if self.is_distributed else _BEGIN_WRITING
        return self._connect(tenant, begin)

    def reader(self, tenant: str | None) -> Connection:
        """Open a connection whose transaction reads a snapshot without waiting."""
        begin = BEGIN_READING if self.is_distributed else _BEGIN_READING
        return self._connect(tenant or "", begin)

    def map_errors(self) -> AbstractContextManager[StatementInProgress]:
        """Translate driver errors, see `map_postgres_errors`."""
        return map_postgres_errors(self.location, is_distributed=self.is_distributed)

    def each_tenant(self, connection: Connection, *, to_write: bool = False) -> Iterator[str]:
        """Switch to each tenant in turn for the rest of a transaction."""
        cursor: Any = connection.connection.cursor()
        for tenant in self.tenants(connection):
            cursor.execute(sql.SQL(_BE).format(tenant=sql.Literal(tenant)))
            if to_write:
                connection.execute(_TURN, {"tenant": tenant})
            yield tenant

    def tenants(self, connection: Connection) -> Sequence[str]:
        """List the tenants of the database."""
        return connection.execute(_TENANTS).scalars().all()

    def check_process(self) -> None:
        """Do nothing: the server does not share memory with its clients."""

    def check_location(self) -> None:
        """Do nothing: a commit that the server acknowledged is in its log."""

    def count_changes(self, connection: Connection) -> int:  # noqa: ARG002
        """Return 0: the server checks its log by itself."""
        return 0

    def acknowledge(self, changes: int) -> None:
        """Do nothing, as in `check_location`."""

    def schema_mark(self, connection: Connection) -> int:
        """Return the mark of schema and serving space, read when the transaction began."""
        return connection.info[_MARK]

    def mark_switch(self, connection: Connection) -> None:
        """Do nothing: the schema mark includes the serving space."""

    def is_indexed(self, connection: Connection, space_id: int) -> bool:
        """Return whether an upgrade has indexed the vectors of a space."""
        name_in_any_table = vector_index_name("%", space_id)
        return connection.execute(_INDEXED, {"name": name_in_any_table}).scalar_one()

    def in_space(self, space: EmbeddingSpace, space_id: int) -> Postgres:
        """Return the dialect of the same database in another embedding space."""
        other = copy(self)
        other.space, other.space_id = space, space_id
        return other

    def stored_table(self, table: Table) -> Table:
        """Return the vector tables as they are here, without sequence numbers."""
        return OF_BYTES.get(table.name, table)

    def index(self, work: SqlContext) -> PostgresIndex:
        """Return the index of full text and vectors."""
        return PostgresIndex.of(
            work,
            space_id=self.space_id,
            dimensions=self.space.dimensions,
            sizes=self.sizes,
        )

    def examine(self, connection: Connection) -> list[Finding]:
        """Check engine and role, and that full text and vectors agree with the rows."""
        return examine_postgres(
            connection, self.space_id, tenants=lambda: self.each_tenant(connection)
        )

    def clear_text(self, connection: Connection) -> None:
        """Remove full-text entries without a memory."""
        for tenant in self.each_tenant(connection):
            clear_text(connection, tenant)

    def backup(self, destination: Path, *, replace: bool, on_progress: Progress) -> Backup:  # noqa: ARG002
        """Reject: use Postgres's own tools for a consistent copy.

        Raises:
            RejectedError: always.

        """
        raise RejectedError(
            "A store in Postgres is not written to a file by Commonbrain.",
            code="backup_unsupported",
            hint="Take it with pg_dump --format=custom, or with your server's own backups; "
            "`brain export` writes memories of any store as JSON lines.",
        )

    def _connect(self, tenant: str, begin: str) -> Connection:
        settings = session_settings(tenant) if self.is_distributed else None
        return self._reach().execution_options(tenant=tenant, begin=begin, settings=settings)

    def _reach(self) -> Connection:
        """Connect; wait for a server that restarts, but not again for one that stays away.

        Raises:
            exc.OperationalError: it does not answer, or not before the caller's deadline.

        """
        while True:
            self._tried_at = tried_at = monotonic()
            try:
                connection = self.engine.connect()
            except exc.OperationalError:
                # Another thread may have connected meanwhile.
                self._lost_at = self._lost_at or tried_at
                until = UNTIL.get()
                if not self._is_awaited() or (until and monotonic() + _RETRY_S >= until):
                    # The next call tries.
                    self._tried_at = -inf
                    raise
                sleep(_RETRY_S)
            else:
                self._lost_at = None
                return connection

    def is_restarting(self) -> bool:
        """Return whether the server went away, and other calls wait until it is back.

        If none has tried to connect lately, the answer to one is that it need not wait: it tries.
        """
        if not self._is_awaited():
            return False
        now = monotonic()
        if now - self._tried_at < _UNTRIED_S:
            return True
        self._tried_at = now
        return False

    def _is_awaited(self) -> bool:
        """Return whether the server went away, and not so long ago that no call waits for it."""
        waited_s = monotonic() - (self._lost_at or -inf)
        return waited_s < self.lock_timeout_s * _RESTART_SHARE

    def _listen(self, engine: Engine) -> None:
        event.listen(engine, "connect", self._on_connect)
        event.listen(engine, "checkout", _check_alive)
        event.listen(engine, "begin", _on_begin)

    def _on_connect(self, connection: psycopg.Connection[Any], _record: object) -> None:
        # Nothing begins implicitly: `begin` sends everything in one message.
        connection.autocommit = True
        if self._half is None:
            self._half = TypeInfo.fetch(connection, "halfvec")
        if self._half is not None:
            register_halfvec_info(connection, self._half)


def make_engine(
    url: URL,
    *,
    lock_timeout_s: float,
    statement_s: float = _STATEMENT_S,
    connect_s: int = _CONNECT_S,
    silence_s: float | None = None,
) -> Engine:
    """Create a pool of connections with timeouts and the measured search settings.

    Statements have no time limit if `statement_s` is 0.
    """
    longest_s = statement_s and max(statement_s, lock_timeout_s)
    options = {
        "lock_timeout": f"{round(lock_timeout_s * 1000)}",
        "statement_timeout": f"{round(longest_s * 1000)}",
        "idle_in_transaction_session_timeout": f"{_IDLE_S * 1000}",
        # A disconnected client is noticed during a statement, and its locks are released.
        "client_connection_check_interval": "2000",
        # JIT compilation takes longer than any statement runs.
        "jit": "off",
        "hnsw.ef_search": EF_SEARCH,
        # Without it, a search of an index shared by many tenants returns almost nothing.
        "hnsw.iterative_scan": "relaxed_order",
    }
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        paramstyle="format",
        pool_size=_AT_MOST,
        max_overflow=0,
        # Last in, first out, so that few connections stay open under low load.
        pool_use_lifo=True,
        pool_timeout=lock_timeout_s,
        json_serializer=partial(json.dumps, ensure_ascii=False, separators=(",", ":")),
        connect_args={
            "connect_timeout": connect_s,
            # Detects a dead peer: by keepalive probes, and by unacknowledged data.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": connect_s * 2 * 1000,
            "application_name": "commonbrain",
            "options": " ".join(f"-c {name}={value}" for name, value in options.items()),
        },
        # Errors never contain what was being stored.
        hide_parameters=True,
    )
    wire(engine, silence_s=silence_s or silence_after(longest_s))
    return engine


def location_of(url: URL) -> str:
    """Return the name of a database without credentials."""
    shown = URL.create("postgresql", host=url.host, port=url.port, database=url.database)
    return shown.render_as_string()


@lru_cache(_BUILT_MAX)
def _beginning(begin: LiteralString, *given: object) -> str:
    """Build the beginning of a transaction: of its tenant, few have more than one."""
    literals = zip(_GIVEN, map(sql.Literal, given), strict=True)
    return sql.SQL(begin).format(**dict(literals)).as_string()


def _on_begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    tenant = options.get("tenant")
    check_awaited()
    with as_alchemy_s(connection, "BEGIN") as cursor:
        if tenant is None:
            cursor.execute("BEGIN")
            return
        cursor.execute(_beginning(options["begin"], *map(options.get, _GIVEN)))
        results = [result.fetchone() for result in cursor.results() if result.description]
        connection.info[FOUND] = results[0]
        connection.info[_MARK] = int(results[-1][-1])


def _check_alive(connection: psycopg.Connection[Any], *_: object) -> None:
    """Discard a connection that the server has ended, before it is used.

    Nothing is expected on an idle connection: readable data is the server's end of connection.

    Raises:
        exc.DisconnectionError: it has ended; the pool opens a new one.

    """
    if connection.closed:
        raise exc.DisconnectionError
    with _Selector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        if selector.select(timeout=0):
            raise exc.DisconnectionError
