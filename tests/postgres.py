"""A real Postgres for tests: one server a worker, one database a test, made from a template."""

import os
import secrets
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg import sql
from sqlalchemy import make_url

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.runtime.dev_servers import postgres_server
from commonbrain.storage.postgres.opening import open_postgres, upgrade_postgres
from commonbrain.storage.schema.types import METADATA
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock, Opener
from tests.contracts.store_steps import SPACE

END_ALL: Final = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
"""Ends each connection to a database, and waits for it; Citus may connect again at once."""

_USES_MAX = 50
"""How often a database is used: what was deleted stays in it, and slows it down."""
_BUSY_MAX = 6
"""Databases of one test: who opens more stores than this has left the first of them."""
_EMPTIED = (
    *(table.name for table in METADATA.sorted_tables if table.name != "spaces"),
    "memory_text",
    "atom_text",
)
_PARTED = frozenset({"vectors", "field_vectors", "memory_text", "atom_text"})
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
class Lent:
    """A database that one test after the other uses: emptying it costs less than making it."""

    name: str
    space: EmbeddingSpace
    database: Database
    uses: int = 1

    def empty(self, superuser: str) -> None:
        """Take every row out, and whoever is still connected."""
        url = make_url(superuser).set(database=self.name).render_as_string(hide_password=False)
        with closing(psycopg.connect(url)) as connection, connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND backend_type = 'client backend'"
            )
            # Of use only where the tables are distributed: shards are deleted from in turn, and
            # the next setting holds on every server.
            connection.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
            connection.execute("SET LOCAL citus.propagate_set_commands = 'local'")
            # Past references and triggers, for everything goes.
            connection.execute("SET LOCAL session_replication_role = replica")
            tenants = [id_ for (id_,) in connection.execute("SELECT id FROM tenants")]
            statements: list[sql.Composable] = [_delete_rows(table, tenants) for table in _EMPTIED]
            # The first is what it was made with, and what its index is over.
            statements.append(sql.SQL("DELETE FROM spaces WHERE id > (SELECT min(id) FROM spaces)"))
            renamed = sql.SQL("UPDATE spaces SET name = {}, state = 'current'")
            statements.append(renamed.format(sql.Literal(self.space.name)))
            # One round trip: a test waits for this before it starts.
            connection.execute(sql.SQL("; ").join(statements))
        self.uses += 1


def _delete_rows(table: str, tenants: list[object]) -> sql.Composed:
    every = sql.SQL("DELETE FROM {}").format(sql.Identifier(table))
    if table not in _PARTED:
        return every
    # Named, so that no partition without a row of theirs is opened.
    return every + sql.SQL(" WHERE tenant_id = ANY ({})").format(sql.Literal(tenants))


@dataclass(slots=True, kw_only=True)
class Server:
    """A server, and the templates that were made on it."""

    url: str
    mark: str = field(default_factory=lambda: secrets.token_hex(4))
    """What tells our roles and databases from those of others on the same server."""
    numbers: Iterator[int] = field(default_factory=count)
    templates: dict[str, str] = field(default_factory=dict[str, str])
    lent: dict[str, list[Lent]] = field(default_factory=dict[str, "list[Lent]"])
    """Databases that are free to be used again, by space."""

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

    def lend(self, space: EmbeddingSpace) -> Lent:
        """Give an empty database for a while, one that was used before if there is one."""
        free = self.lent.setdefault(space.name, [])
        one = free.pop() if free else None
        if one is not None and one.uses < _USES_MAX:
            one.empty(self.url)
            return one
        if one is not None:
            self.drop(one.name)
        name = f"lent_{self.mark}_{next(self.numbers)}"
        self.create(name, template=self.template(space))
        return Lent(name=name, space=space, database=self.roles_of(name))

    def roles_of(self, name: str) -> Database:
        """Give the URLs of a database."""
        return Database(owner=self._url(name, self.owner), program=self._url(name, self.program))

    def take_back(self, one: Lent) -> None:
        """Let a database be used again."""
        self.lent[one.space.name].append(one)

    def clear(self) -> None:
        """Take away what was made on a server that goes on."""
        lent = [one.name for free in self.lent.values() for one in free]
        for name in (*lent, *self.templates.values()):
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

    def drop(self, name: str) -> None:
        """Drop a database, whoever is connected to it."""
        self.run("DROP DATABASE {name} WITH (FORCE)", name=name)

    def create(self, name: str, *, template: str) -> None:
        """Make a database of the owner's."""
        made = {"name": name, "template": template, "owner": self.owner}
        self.run("CREATE DATABASE {name} TEMPLATE {template} OWNER {owner}", **made)
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
            server.clear()
        return
    with postgres_server(is_durable=False) as url:
        server = Server(url=url)
        server.make_roles()
        yield server


@contextmanager
def databases(server: Server) -> Generator[Opener]:
    """Give what opens a database in place of every file, the same one for the same path."""
    known: dict[Path, Lent] = {}
    stores: list[Store] = []

    def opened(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:
        at = path.absolute()
        if at not in known:
            if len(known) >= _BUSY_MAX:
                server.take_back(known.pop(next(iter(known))))
            known[at] = server.lend(space)
        stores.append(known[at].database.opened(space=space, clock=clock))
        return stores[-1]

    yield opened
    # Many a test leaves its brain to the end of the process, as the file under it allows.
    for store in stores:
        store.close()
    for one in known.values():
        server.take_back(one)
