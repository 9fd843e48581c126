"""A real Postgres for tests: one server a worker.

Most tests have new tenants of a database that all of them share. Those about schema, roles,
upgrades or whole databases have one of their own, made from a template.
"""

import os
import secrets
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal, LiteralString, cast

import psycopg
from commonbrain_server.dev_servers import postgres_server
from commonbrain_server.postgres.opening import open_postgres, upgrade_postgres
from psycopg import sql
from sqlalchemy import make_url

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock, Opener
from tests.storage.store_steps import SPACE
from tests.tenants import with_own_tenants

END_ALL: Final = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
"""Ends each connection to a database, and waits for it; Citus may connect again at once."""

_PROCESSES = 4
"""Pools of connections to a shared database: each store that a test opens has another."""
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 the server makes a private folder in it
_MEMORY_BYTES_MIN: Final = 2 << 30
_ONLY_FOR_TESTS: Final = {
    # Passwords are hashed once for each connection, not 4,096 times.
    "scram_iterations": "1",
    # The log may lie in memory too.
    "max_wal_size": "512MB",
}
SERVER_URL = "COMMONBRAIN_TEST_POSTGRES_URL"
"""Names a server to use instead of one of our own, as a superuser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """A database of one test: its URLs for the owner, and for the role that programs have."""

    owner: str
    program: str

    @property
    def name(self) -> str:
        return self.owner.rpartition("/")[2]

    def opened(self, *, space: EmbeddingSpace = SPACE, clock: Clock | None = None) -> Store:
        """Open it as another process would."""
        return open_postgres(
            self.program, space=space, clock=clock or FakeClock(), lock_timeout_s=LOCK_TIMEOUT_S
        )


@dataclass(slots=True, kw_only=True)
class SharedDatabase:
    """A database of many tests, each of which has its own tenants there."""

    database: Database
    space: EmbeddingSpace
    processes: list[Store] = field(default_factory=list[Store])
    """Stores with a pool of connections each, which stay open from test to test."""

    def process(self, number: int) -> Store:
        """Give the connections of one of several processes."""
        at = number % _PROCESSES
        while len(self.processes) <= at:
            self.processes.append(self.database.opened(space=self.space))
        return self.processes[at]


@dataclass(slots=True, kw_only=True)
class Server:
    """A server, and the templates that were made on it."""

    url: str
    mark: str = field(default_factory=lambda: secrets.token_hex(4))
    """What tells our roles and databases from those of others on the same server."""
    numbers: Iterator[int] = field(default_factory=count)
    templates: dict[str, str] = field(default_factory=dict[str, str])
    shared: dict[str, SharedDatabase] = field(default_factory=dict[str, SharedDatabase])
    """Databases of tests that only need tenants of their own, by space."""
    copying: Literal["WAL_LOG", "FILE_COPY"] = "WAL_LOG"
    """How templates are copied; files are cheap to copy in memory alone."""

    @property
    def owner(self) -> str:
        return f"owner_{self.mark}"

    @property
    def program(self) -> str:
        return f"program_{self.mark}"

    def run(self, statement: str, *, database: str | None = None, **names: str) -> None:
        """Do something as the superuser."""
        url = self.url if database is None else self._url(database)
        quoted = {at: sql.Identifier(one) for at, one in names.items()}
        written = sql.SQL(cast("LiteralString", statement)).format(**quoted)
        with closing(psycopg.connect(url, autocommit=True)) as connection:
            connection.execute(written)

    def make_roles(self) -> None:
        """Make an owner without other rights, and a role for programs without any."""
        for role in (self.owner, self.program):
            # The mark is drawn for this run, and the server ends with it.
            self.run(f"CREATE ROLE {{role}} LOGIN PASSWORD '{self.mark}'", role=role)

    @contextmanager
    def database(
        self, *, space: EmbeddingSpace = SPACE, is_empty: bool = False
    ) -> Generator[Database]:
        """Give a database of its own, upgraded for a space unless it is to be empty."""
        name = f"test_{self.mark}_{next(self.numbers)}"
        self.create(name, template="template0" if is_empty else self.template(space))
        try:
            yield self.roles_of(name)
        finally:
            self.drop(name)

    def share(self, space: EmbeddingSpace) -> SharedDatabase:
        """Give the database that tests share, for a space."""
        if space.name not in self.shared:
            name = f"shared_{self.mark}_{next(self.numbers)}"
            self.create(name, template=self.template(space))
            self.shared[space.name] = SharedDatabase(database=self.roles_of(name), space=space)
        return self.shared[space.name]

    def disconnect(self) -> None:
        """Close the connections that stay open from test to test."""
        for shared in self.shared.values():
            for process in shared.processes:
                process.close()

    def roles_of(self, name: str) -> Database:
        """Give the URLs of a database."""
        return Database(owner=self._url(name, self.owner), program=self._url(name, self.program))

    def clear(self) -> None:
        """Take away what was made on a server that goes on."""
        shared = [one.database.name for one in self.shared.values()]
        for name in (*shared, *self.templates.values()):
            self.drop(name)
        for role in (self.program, self.owner):
            self.run("DROP ROLE {role}", role=role)

    def template(self, space: EmbeddingSpace) -> str:
        """Give the database that others of a space are copies of."""
        if space.name not in self.templates:
            name = f"template_{self.mark}_{len(self.templates)}"
            self.create(name, template="template0")
            upgrade_postgres(
                self._url(name, self.owner),
                space=space,
                clock=FakeClock(),
                lock_timeout_s=LOCK_TIMEOUT_S,
                role=self.program,
            )
            self.templates[space.name] = name
        return self.templates[space.name]

    def seal(self, name: str) -> None:
        """Do nothing: a database that no program has open can be copied."""

    def drop(self, name: str) -> None:
        """Drop a database, whoever is connected to it."""
        self.run("DROP DATABASE {name} WITH (FORCE)", name=name)

    def create(self, name: str, *, template: str) -> None:
        """Make a database of the owner's."""
        made = {"name": name, "template": template, "owner": self.owner}
        how = f"STRATEGY {self.copying}"
        self.run(f"CREATE DATABASE {{name}} TEMPLATE {{template}} OWNER {{owner}} {how}", **made)
        if template == "template0":
            # Only a superuser may; what comes from a template has it already.
            self.run("CREATE EXTENSION vector", database=name)

    def _url(self, database: str, role: str | None = None) -> str:
        url = make_url(self.url).set(database=database)
        if role is not None:
            url = url.set(username=role, password=self.mark)
        return url.render_as_string(hide_password=False)


@contextmanager
def running() -> Generator[Server]:
    """Run a server for the tests of this process, or use the one that is named."""
    named: Any = os.environ.get(SERVER_URL)
    if named:
        server = Server(url=named)
        server.make_roles()
        try:
            yield server
        finally:
            server.disconnect()
            server.clear()
        return
    with throwaway_server() as server:
        yield server


@contextmanager
def throwaway_server(settings: Mapping[str, str] | None = None) -> Generator[Server]:
    """Run a server of our own, in memory where there is enough."""
    every = {**_ONLY_FOR_TESTS, **(settings or {})}
    with ExitStack() as stack:
        with folders_in_memory() as is_in_memory:
            url = stack.enter_context(postgres_server(is_durable=False, settings=every))
        server = Server(url=url, copying="FILE_COPY" if is_in_memory else "WAL_LOG")
        server.make_roles()
        stack.callback(server.disconnect)
        yield server


@contextmanager
def folders_in_memory() -> Generator[bool]:
    """Let temporary folders be made in memory; say whether they are.

    A database has 1,300 files: to make one there takes a fifth of the processor time.
    """
    if not _MEMORY.is_dir():
        yield False
        return
    memory = os.statvfs(_MEMORY)
    has_space = memory.f_bavail * memory.f_frsize >= _MEMORY_BYTES_MIN
    # Programs may have to be copied to the same folder.
    if not has_space or memory.f_flag & os.ST_NOEXEC:
        yield False
        return
    before = tempfile.tempdir
    tempfile.tempdir = str(_MEMORY)
    try:
        yield True
    finally:
        tempfile.tempdir = before


@contextmanager
def tenants_by_path(server: Server) -> Generator[Opener]:
    """Give what opens new tenants in place of every file, the same ones for the same path."""
    known: dict[Path, tuple[SharedDatabase, str]] = {}
    stores: list[Store] = []

    def opened(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:
        at = path.absolute()
        is_new = at not in known
        if is_new:
            known[at] = server.share(space), f"~{next(server.numbers)}"
        shared, mark = known[at]
        if space == shared.space:
            store = with_own_tenants(shared.process(len(stores)), mark)
            if is_new:
                store.make_tenant(LOCAL_TENANT, at=clock.now())
        else:
            # Refused, as every store is that has vectors of another space.
            store = shared.database.opened(space=space, clock=clock)
        stores.append(store)
        return store

    yield opened
    # Many a test leaves its brain to the end of the process, as the file under it allows.
    for store in stores:
        store.close()
