"""A Citus cluster for tests: a coordinator and workers, with a database on all of them a test."""

import os
import re
import secrets
import shutil
import signal
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, LiteralString, cast

import psycopg
from commonbrain_server.dev_servers import postgres_server
from commonbrain_server.postgres.opening import distribute_postgres, upgrade_postgres
from psycopg import sql
from sqlalchemy import make_url
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.testing.builders import FakeClock
from tests.postgres import END_ALL, Database, Server
from tests.storage.store_steps import SPACE

PROGRAMS: Final = "COMMONBRAIN_TEST_CITUS"
"""Names the folder of a Postgres with Citus, as `tests.citus_build` prints it."""
_SETTINGS: Final = {
    "shared_preload_libraries": "citus",
    "citus.node_conninfo": "sslmode=prefer",
    # 80 tables on each of two workers, not 640: a database a test is a copy of all of them.
    "citus.shard_count": "4",
    # Each database has a background process of Citus.
    "max_worker_processes": "64",
    "max_prepared_transactions": "100",
    # Shards are moved by logical replication, while they are written.
    "wal_level": "logical",
    "max_replication_slots": "32",
    "max_wal_senders": "32",
    "max_logical_replication_workers": "16",
    "citus.enable_statistics_collection": "off",
    # A statement on more than one shard is in the log, see `CitusServer.spread_statements`.
    "citus.multi_task_query_log_level": "log",
}
_SPREAD: Final = re.compile(r"multi-task query about to be executed\n.*\n.*STATEMENT: +(.*)")
"""How Citus logs a statement; it may go on in further lines."""
# A background process of Citus comes back while others end, even to a database that is dropped.
_DROPPING: Final = Retrying(
    retry=retry_if_exception_type(psycopg.errors.ObjectInUse),
    stop=stop_after_attempt(10),
    reraise=True,
)


@dataclass(slots=True, kw_only=True)
class Node:
    """One server of a cluster, which keeps its folder and its port."""

    programs: Path
    password: str
    is_durable: bool
    folder: Path = field(default_factory=lambda: Path(mkdtemp(prefix="commonbrain-citus-")))
    settings: dict[str, str] = field(default_factory=lambda: dict(_SETTINGS))
    running: ExitStack = field(default_factory=ExitStack)
    port: int | None = None
    url: str = ""

    def start(self) -> None:
        """Start it, again on the same port."""
        server = postgres_server(
            self.folder,
            is_durable=self.is_durable,
            settings=self.settings,
            port=self.port,
            programs=self.programs,
            password=self.password,
        )
        self.url = self.running.enter_context(server)
        self.port = make_url(self.url).port

    @property
    def pid(self) -> int:
        """Its first process."""
        pid, *_ = (self.folder / "data" / "postmaster.pid").read_text("utf-8").splitlines()
        return int(pid)

    def kill(self) -> None:
        """End it at once, as a loss of power does."""
        os.kill(self.pid, signal.SIGKILL)
        self.running.close()

    def remove(self) -> None:
        """Stop it, and delete its folder."""
        self.running.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(slots=True, kw_only=True)
class CitusServer(Server):
    """A cluster; statements for every database run on each of its servers."""

    coordinator: Node
    nodes: Sequence[Node]
    """The workers."""

    @property
    def workers(self) -> Sequence[str]:
        """The URL of each worker's superuser."""
        return [node.url for node in self.nodes]

    @property
    def servers(self) -> Sequence[str]:
        """The URL of each server's superuser, the coordinator's last."""
        return (*self.workers, self.url)

    def run(self, statement: str, *, database: str | None = None, **names: str) -> None:
        """Do something as the superuser of each server."""
        for server in self.servers:
            _run(server, statement, database=database, **names)

    def ask(self, question: LiteralString, *given: object, database: str) -> list[tuple[Any, ...]]:
        """Ask the coordinator as its superuser."""
        with _connected(self.url, database=database) as connection:
            return connection.execute(question, given).fetchall()

    @contextmanager
    def plain_database(self, *, is_empty: bool = False) -> Generator[Database]:
        """Give a database without Citus, upgraded unless it is to be empty."""
        name = f"plain_{self.mark}_{next(self.numbers)}"
        Server.create(self, name, template="template0")
        database = self.roles_of(name)
        try:
            if not is_empty:
                upgrade_postgres(
                    database.owner,
                    space=SPACE,
                    clock=FakeClock(),
                    lock_timeout_s=LOCK_TIMEOUT_S,
                    role=self.program,
                )
            yield database
        finally:
            self.drop(name)

    @contextmanager
    def distributed_database(self) -> Generator[Database]:
        """Give a distributed database that is no copy of a template."""
        with self.plain_database() as database:
            self.install(database.name)
            distribute_postgres(database.owner, lock_timeout_s=LOCK_TIMEOUT_S)
            yield database

    def install(self, name: str) -> None:
        """Make a database one of the cluster, with what is in it on the coordinator."""
        self.run("CREATE EXTENSION citus", database=name)
        here = make_url(self.url)
        with _connected(self.url, database=name) as connection:
            connection.execute("SELECT citus_set_coordinator_host(%s, %s)", [here.host, here.port])
        for worker in self.workers:
            self.add_worker(worker, database=name)

    @contextmanager
    def another_worker(self, database: Database) -> Generator[Node]:
        """Add a worker to a database until the block ends."""
        first, *_ = self.nodes
        node = Node(programs=first.programs, password=first.password, is_durable=True)
        before = self.nodes
        try:
            node.start()
            for role in (self.owner, self.program):
                _run(node.url, f"CREATE ROLE {{role}} LOGIN PASSWORD '{self.mark}'", role=role)
            made = {"name": database.name, "owner": self.owner}
            _run(node.url, "CREATE DATABASE {name} TEMPLATE template0 OWNER {owner}", **made)
            for extension in ("vector", "citus"):
                _run(node.url, f"CREATE EXTENSION {extension}", database=database.name)
            self.nodes = [*before, node]
            self.add_worker(node.url, database=database.name)
            yield node
        finally:
            self.nodes = before
            node.remove()

    def rebalance(self, *, database: str) -> None:
        """Move shards until every worker has its share."""
        with _connected(self.url, database=database) as connection:
            connection.execute("SELECT citus_rebalance_start()")
            connection.execute("SELECT citus_rebalance_wait()")

    def move(self, tenant: str, *, to: Node, database: str) -> None:
        """Move the shards with a tenant's rows to another worker, while they are written."""
        places = [make_url(node.url) for node in (self.place_of(tenant, database=database), to)]
        self.ask(
            "SELECT citus_move_shard_placement(get_shard_id_for_distribution_column("
            "'tenants', %s::text), %s, %s, %s, %s, 'force_logical')",
            tenant,
            *(part for place in places for part in (place.host, place.port)),
            database=database,
        )

    @contextmanager
    def spread_statements(self) -> Generator[list[str]]:
        """Give the statements of the block that ran on more than one shard, when it has ended."""
        log = self.coordinator.folder / "log"
        before, statements = log.stat().st_size, list[str]()
        yield statements
        with log.open("rb") as written:
            written.seek(before)
            entries = _SPREAD.findall(written.read().decode(errors="replace"))
        statements.extend(entries)

    def place_of(self, tenant: str, *, database: str) -> Node:
        """Return the worker that has a tenant's rows."""
        [(port,)] = self.ask(
            "SELECT nodeport FROM pg_dist_shard_placement "
            "WHERE shardid = get_shard_id_for_distribution_column('tenants', %s::text)",
            tenant,
            database=database,
        )
        return next(node for node in self.nodes if make_url(node.url).port == port)

    def add_worker(self, worker: str, *, database: str) -> None:
        """Let a database use another server, which has it already."""
        url = make_url(worker)
        with _connected(self.url, database=database) as connection:
            connection.execute("SELECT citus_add_node(%s, %s)", [url.host, url.port])

    def template(self, space: EmbeddingSpace) -> str:
        """Give a distributed database that others of a space are copies of."""
        if space.name in self.templates:
            return self.templates[space.name]
        name = Server.template(self, space)
        distribute_postgres(self.roles_of(name).owner, lock_timeout_s=LOCK_TIMEOUT_S)
        self.seal(name)
        return name

    def seal(self, name: str) -> None:
        """End all connections to a database: those of Citus would keep it from being copied."""
        self.run("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false", name=name)
        for server in self.servers:
            with _connected(server) as connection:
                connection.execute(END_ALL, [name])

    def drop(self, name: str) -> None:
        """Drop a database on each server, whoever is connected to it."""
        for server in reversed(self.servers):
            _DROPPING(_drop, server, name)

    def create(self, name: str, *, template: str) -> None:
        """Make a database of the owner's on each server, with Citus in it."""
        Server.create(self, name, template=template)
        if template == "template0":
            self.install(name)


def _drop(server: str, name: str) -> None:
    with _connected(server) as connection:
        connection.execute(END_ALL, [name])
    _run(server, "DROP DATABASE IF EXISTS {name} WITH (FORCE)", name=name)


def _run(server: str, statement: str, *, database: str | None = None, **names: str) -> None:
    quoted = {at: sql.Identifier(one) for at, one in names.items()}
    written = sql.SQL(cast("LiteralString", statement)).format(**quoted)
    with _connected(server, database=database) as connection:
        connection.execute(written)


@contextmanager
def _connected(server: str, *, database: str | None = None) -> Generator[psycopg.Connection]:
    url = make_url(server)
    url = url if database is None else url.set(database=database)
    with closing(
        psycopg.connect(url.render_as_string(hide_password=False), autocommit=True)
    ) as connection:
        yield connection


@contextmanager
def cluster(
    programs: Path,
    *,
    workers: int = 2,
    is_durable: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Generator[CitusServer]:
    """Run a coordinator and workers; all roles have one password, with which servers connect.

    Durable servers keep what they have acknowledged when they are killed.
    """
    password = secrets.token_hex(8)
    with ExitStack() as stack:
        nodes: list[Node] = []
        for _ in range(workers + 1):
            node = Node(programs=programs, password=password, is_durable=is_durable)
            node.settings |= settings or {}
            stack.callback(node.remove)
            node.start()
            nodes.append(node)
        first, *others = nodes
        made = CitusServer(url=first.url, mark=password, coordinator=first, nodes=others)
        made.make_roles()
        stack.callback(made.disconnect)
        yield made


@contextmanager
def running() -> Generator[CitusServer]:
    """Run a cluster for the tests of this process, of the programs that are named."""
    with cluster(Path(os.environ[PROGRAMS])) as server:
        yield server
