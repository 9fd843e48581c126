"""A Citus cluster for tests: a coordinator and workers, with a database on all of them a test."""

import os
import secrets
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg import sql
from sqlalchemy import make_url

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.runtime.dev_servers import postgres_server
from commonbrain.storage.postgres.opening import distribute_postgres
from tests.postgres import Server

PROGRAMS: Final = "COMMONBRAIN_TEST_CITUS"
"""Names the folder of a Postgres with Citus, as `tests.distributed.build` prints it."""
_SETTINGS: Final = {
    "shared_preload_libraries": "citus",
    "citus.node_conninfo": "sslmode=prefer",
    # 80 tables on each of two workers, not 640: a database a test is a copy of all of them.
    "citus.shard_count": "4",
    # Each database has a background process of Citus.
    "max_worker_processes": "64",
    "max_prepared_transactions": "100",
    "citus.enable_statistics_collection": "off",
    # A statement on more than one shard is in the log, see `CitusServer.spread_statements`.
    "citus.multi_task_query_log_level": "log",
}
_END_ALL: Final = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"


@dataclass(slots=True, kw_only=True)
class CitusServer(Server):
    """A cluster; statements for every database run on each of its servers."""

    workers: Sequence[str]
    """The URL of each worker's superuser."""

    @property
    def servers(self) -> Sequence[str]:
        """The URL of each server's superuser, the coordinator's last."""
        return (*self.workers, self.url)

    def run(self, statement: str, *, database: str | None = None, **names: str) -> None:
        """Do something as the superuser of each server."""
        quoted = {at: sql.Identifier(one) for at, one in names.items()}
        written = sql.SQL(cast("LiteralString", statement)).format(**quoted)
        for server in self.servers:
            with _connected(server, database=database) as connection:
                connection.execute(written)

    def ask(self, question: LiteralString, *given: object, database: str) -> list[tuple[Any, ...]]:
        """Ask the coordinator as its superuser."""
        with _connected(self.url, database=database) as connection:
            return connection.execute(question, given).fetchall()

    def add_worker(self, worker: str, *, database: str) -> None:
        """Let a database use another server, which has it already."""
        url = make_url(worker)
        with _connected(self.url, database=database) as connection:
            connection.execute("SELECT citus_add_node(%s, %s)", [url.host, url.port])

    def _template(self, space: EmbeddingSpace) -> str:
        if space.name in self.templates:
            return self.templates[space.name]
        name = Server._template(self, space)
        distribute_postgres(self.roles_of(name).owner, lock_timeout_s=LOCK_TIMEOUT_S)
        # The background process of Citus would keep it from being copied.
        self.run("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false", name=name)
        for server in self.servers:
            with _connected(server) as connection:
                connection.execute(_END_ALL, [name])
        return name

    def _create(self, name: str, *, template: str) -> None:
        Server._create(self, name, template=template)
        if template != "template0":
            return
        self.run("CREATE EXTENSION citus", database=name)
        here = make_url(self.url)
        with _connected(self.url, database=name) as connection:
            connection.execute("SELECT citus_set_coordinator_host(%s, %s)", [here.host, here.port])
        for worker in self.workers:
            self.add_worker(worker, database=name)


@contextmanager
def _connected(server: str, *, database: str | None = None) -> Generator[psycopg.Connection]:
    url = make_url(server)
    url = url if database is None else url.set(database=database)
    with closing(
        psycopg.connect(url.render_as_string(hide_password=False), autocommit=True)
    ) as connection:
        yield connection


@contextmanager
def cluster(programs: Path, *, workers: int = 2) -> Generator[CitusServer]:
    """Run a coordinator and workers; all roles have one password, with which servers connect."""
    password = secrets.token_hex(8)

    def server() -> str:
        running = postgres_server(
            is_durable=False, settings=_SETTINGS, programs=programs, password=password
        )
        return stack.enter_context(running)

    with ExitStack() as stack:
        made = CitusServer(
            url=server(), mark=password, workers=[server() for _ in range(workers)]
        )
        made.make_roles()
        yield made


@contextmanager
def running() -> Generator[CitusServer]:
    """Run a cluster for the tests of this process, of the programs that are named."""
    with cluster(Path(os.environ[PROGRAMS])) as server:
        yield server
