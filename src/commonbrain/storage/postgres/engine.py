"""How Postgres is connected to: a pool, transactions of one tenant, and who may write when.

Writers of one tenant take turns, as all do in SQLite: the shelves rely on being alone when they
look for what is there before they add to it. Writers of different tenants wait for nobody.
"""

from __future__ import annotations

import json
import selectors
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg import sql
from psycopg.types import TypeInfo
from sqlalchemy import URL, Connection, Engine, Insert, Table, create_engine, event, exc, text
from sqlalchemy.dialects.postgresql import insert as postgres_insert

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.errors import RejectedError
from commonbrain.observability.health import ReplicaReads
from commonbrain.storage.maintenance import Backup, Finding, Progress
from commonbrain.storage.postgres.access_log import write_reads
from commonbrain.storage.postgres.cancellation import (
    as_alchemy_s,
    check_awaited,
    silence_after,
    wire,
)
from commonbrain.storage.postgres.checks import clear_text, examine_postgres
from commonbrain.storage.postgres.citus import BEGIN_READING, BEGIN_WRITING, EF_SEARCH, MARK
from commonbrain.storage.postgres.index import PostgresIndex
from commonbrain.storage.postgres.replicas import FOUND, Cluster, Replica, Replicas
from commonbrain.storage.postgres.schema import OF_BYTES
from commonbrain.storage.postgres.statistics import TenantSizes
from commonbrain.storage.sql.context import SqlContext

_Told = TypeVar("_Told")
_CONNECT_S: Final = 10
_CONNECT_REPLICA_S: Final = 2
"""A reader waits so long for a replica that does not answer at all; the primary has what it has."""
SILENCE_REPLICA_S: Final = 1.5
"""Nor longer for its answer to one statement, which takes milliseconds where all is well."""
_STATEMENT_S: Final = 60
"""How long one statement may take before it is given up; a search takes milliseconds."""
_IDLE_S: Final = 60
"""How long a transaction may lie idle: a process that hangs must not hold a tenant's turn."""
_AT_MOST: Final = 32
"""Connections of one process, all of them kept: to make one costs as much as a recall."""
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
    "WHERE c.relnamespace = current_schema()::regnamespace AND c.relname LIKE :suffix "
    "AND i.indisvalid)"
)
_TENANTS: Final = text("SELECT every_tenant()")
_BE: Final[LiteralString] = "SET LOCAL commonbrain.tenant = {tenant}"
_READABLE_FROM: Final = text("SELECT obj_description('alembic_version'::regclass)")
_MARK: Final = "schema_mark"


@cache
def _insert_or_skip(into: Table) -> Insert:
    return postgres_insert(into).on_conflict_do_nothing()


@dataclass(slots=True, kw_only=True)
class Postgres:
    """One database: writers of a tenant take turns, readers wait for nobody."""

    url: URL
    space: EmbeddingSpace
    space_id: int = 0
    """The row of the space in this database; set when the store is opened."""
    lock_timeout_s: float
    engine: Engine = field(init=False)
    sizes: TenantSizes = field(default_factory=TenantSizes)
    is_distributed: bool = False
    """Whether Citus carries statements to other machines, which must be told what holds here."""
    replicas: Replicas = field(default_factory=Replicas)
    """Copies that answer what only reads; none unless settings name some."""
    _half: TypeInfo | None = None

    def __post_init__(self) -> None:
        """Make the pool; connect to nothing yet."""
        self.engine = make_engine(self.url, lock_timeout_s=self.lock_timeout_s)
        self._listen(self.engine)

    def add_replicas(self, urls: Sequence[URL], *, cluster: Cluster) -> None:
        """Let copies of this database answer what only reads; connect to nothing yet."""
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

    def dispose(self) -> None:
        """Let go of every connection."""
        for engine in (self.engine, *(one.engine for one in self.replicas.all)):
            engine.dispose()

    @property
    def location(self) -> str:
        """Where the store is, without what opens it."""
        return location_of(self.url)

    def is_prepared(self, connection: Connection) -> bool:  # noqa: ARG002
        """Say that a database has no mode to be put into."""
        return True

    def prepare(self) -> None:
        """Do nothing: see `is_prepared`."""

    def note_reads(self, connection: Connection, given: dict[str, Any]) -> int:
        """Write traces and accesses, given as JSON lists, in few steps; count new traces."""
        with as_alchemy_s(connection, "note reads") as cursor:
            return write_reads(cursor, given)

    def compact(self) -> None:
        """Leave it to Postgres, whose autovacuum gives room back while everybody works."""

    def insert_or_skip(self, into: Table) -> Insert:
        """Build an insert that does nothing when the primary key is taken."""
        return _insert_or_skip(into)

    def writer(self, tenant: str) -> Connection:
        """Open a connection whose transaction takes the tenant's turn as it begins."""
        begin = BEGIN_WRITING if self.is_distributed else _BEGIN_WRITING
        return self.engine.connect().execution_options(tenant=tenant, begin=begin)

    def reader(self, tenant: str | None) -> Connection:
        """Open a connection whose transaction sees one moment and waits for nobody."""
        begin = BEGIN_READING if self.is_distributed else _BEGIN_READING
        return self.engine.connect().execution_options(tenant=tenant or "", begin=begin)

    def ask_copy(self, tenant: str, ask: Callable[[Connection], _Told]) -> tuple[_Told] | None:
        """Ask a replica that sees all that anybody was told is kept; None when there is none."""
        return self.replicas.ask(self.engine, tenant, ask=ask)

    def replica_reads(self) -> list[ReplicaReads]:
        """Tell how the replicas fared in this process."""
        return [one.reads for one in self.replicas.all]

    def each_tenant(self, connection: Connection) -> Iterator[str]:
        """Be one tenant after the other for the rest of a transaction."""
        cursor: Any = connection.connection.cursor()
        for tenant in connection.execute(_TENANTS).scalars().all():
            cursor.execute(sql.SQL(_BE).format(tenant=sql.Literal(tenant)))
            yield tenant

    def check_kept(self) -> None:
        """Trust the server: a commit that it acknowledged is in its log."""

    def schema_mark(self, connection: Connection) -> int:
        """Give what tells schema and serving space, which came with the transaction's beginning."""
        return connection.info[_MARK]

    def mark_switch(self, connection: Connection) -> None:
        """Do nothing: the mark of the schema has the serving space in it."""

    def take_turn(self, connection: Connection, tenant: str) -> None:
        """Wait for whoever writes for a tenant, as its own writers do."""
        connection.execute(_TURN, {"tenant": tenant})

    def is_indexed(self, connection: Connection, space_id: int) -> bool:
        """Say whether an upgrade has indexed the vectors of a space."""
        return connection.execute(_INDEXED, {"suffix": f"%_nearest_{space_id}"}).scalar_one()

    def beside(self, space: EmbeddingSpace, space_id: int) -> Postgres:
        """Give the same database as it is in another space."""
        other = copy(self)
        other.space, other.space_id = space, space_id
        return other

    def readable_from(self, connection: Connection) -> str | None:
        """Give what the upgrade wrote: programs are replaced one by one while others go on."""
        return connection.execute(_READABLE_FROM).scalar()

    def as_kept(self, table: Table) -> Table:
        """Give tables of vectors as they are here, without numbers for readers that keep them."""
        return OF_BYTES.get(table.name, table)

    def index(self, work: SqlContext) -> PostgresIndex:
        """Give the shelf of full text and vectors."""
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
        """Take entries without a memory out of the full text."""
        for tenant in self.each_tenant(connection):
            clear_text(connection, tenant)

    def backup(self, destination: Path, *, replace: bool, on_progress: Progress) -> Backup:  # noqa: ARG002
        """Refuse: a copy as of one moment is made by Postgres' own tools.

        Raises:
            RejectedError: always.

        """
        raise RejectedError(
            "A store in Postgres is not written to a file by Commonbrain.",
            code="backup_unsupported",
            hint="Take it with pg_dump --format=custom, or with your server's own backups; "
            "`brain export` writes memories of any store as JSON lines.",
        )

    def _listen(self, engine: Engine) -> None:
        event.listen(engine, "connect", self._on_connect)
        event.listen(engine, "checkout", _check_alive)
        event.listen(engine, "begin", _on_begin)

    def _on_connect(self, connection: psycopg.Connection[Any], _record: object) -> None:
        # Nothing begins by itself: `begin` decides how, in one message with all that goes with it.
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
    """Make a pool of connections that give up in time and search vectors as measured."""
    told = {
        "lock_timeout": f"{round(lock_timeout_s * 1000)}",
        "statement_timeout": f"{round(max(statement_s, lock_timeout_s) * 1000)}",
        "idle_in_transaction_session_timeout": f"{_IDLE_S * 1000}",
        # Whoever hangs up is noticed while the statement runs, and what it holds is free again.
        "client_connection_check_interval": "2000",
        # Compiling a statement takes longer than any of ours runs.
        "jit": "off",
        "hnsw.ef_search": EF_SEARCH,
        # Without it a search of an index that many tenants share brings next to nothing.
        "hnsw.iterative_scan": "relaxed_order",
    }
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        paramstyle="format",
        pool_size=_AT_MOST,
        max_overflow=0,
        # Who was used last comes first, so that few are open where little is asked.
        pool_use_lifo=True,
        pool_timeout=lock_timeout_s,
        json_serializer=_compact_json,
        connect_args={
            "connect_timeout": connect_s,
            # Who went away without a word is noticed in time: by probes while nothing is said, and
            # by what stays unacknowledged.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": connect_s * 2 * 1000,
            "application_name": "commonbrain",
            "options": " ".join(f"-c {name}={value}" for name, value in told.items()),
        },
        # An error tells what is wrong, never what was being stored.
        hide_parameters=True,
    )
    longest_s = statement_s and max(statement_s, lock_timeout_s)
    wire(engine, silence_s=silence_s or silence_after(longest_s))
    return engine


def location_of(url: URL) -> str:
    """Name a database without what opens it."""
    shown = URL.create("postgresql", host=url.host, port=url.port, database=url.database)
    return shown.render_as_string()


def _on_begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    tenant = options.get("tenant")
    check_awaited()
    with as_alchemy_s(connection, "BEGIN") as cursor:
        if tenant is None:
            cursor.execute("BEGIN")
            return
        given = {name: sql.Literal(options.get(name)) for name in ("tenant", "since")}
        cursor.execute(sql.SQL(options["begin"]).format(**given))
        told = [result.fetchone() for result in cursor.results() if result.description]
        connection.info[FOUND] = told[0]
        connection.info[_MARK] = int(told[-1][-1])


def _check_alive(connection: psycopg.Connection[Any], *_: object) -> None:
    """Take another connection when the server has ended this one, which asking would tell too late.

    Nothing is expected on an idle connection: whatever there is to read is the server's farewell.

    Raises:
        exc.DisconnectionError: it is at its end; the pool makes a new one.

    """
    if connection.closed:
        raise exc.DisconnectionError
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        if selector.select(timeout=0):
            raise exc.DisconnectionError


def _compact_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
