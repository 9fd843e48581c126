"""A real streaming replica for tests: a primary, its copy, and what may happen to it."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from commonbrain_server.dev_servers import postgres_replica
from commonbrain_server.postgres.opening import open_postgres
from sqlalchemy import make_url
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import FakeClock
from tests.postgres import Database, Server, folders_in_memory, throwaway_server
from tests.storage.store_steps import SPACE

LAGS = "SELECT pg_wal_lsn_diff(%s::pg_lsn, pg_last_wal_replay_lsn()) > 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A primary with a database, and the replica of its server."""

    server: Server
    database: Database
    standby: str
    """The URL of the replica's superuser."""

    @property
    def copy(self) -> str:
        """The URL of the same database, for the same role, on the replica."""
        return self.there(self.database.program)

    def there(self, url: str) -> str:
        """Turn a URL of the primary into one of the replica."""
        port = make_url(self.standby).port
        return make_url(url).set(port=port).render_as_string(hide_password=False)

    @contextmanager
    def opened(self, *copies: str) -> Generator[Store]:
        """Open the store with copies, by default the one that there is."""
        store = open_postgres(
            self.database.program,
            space=SPACE,
            clock=FakeClock(),
            lock_timeout_s=LOCK_TIMEOUT_S,
            replicas=copies or (self.copy,),
        )
        with closing(store):
            yield store

    def ask(self, statement: LiteralString, *given: object) -> object:
        """Ask the replica as its superuser."""
        with closing(psycopg.connect(self.standby, autocommit=True)) as connection:
            [value] = connection.execute(statement, given).fetchone() or [None]
            return value

    def catch_up(self) -> None:
        """Wait until the replica has all that the primary has."""
        with closing(psycopg.connect(self.server.url, autocommit=True)) as connection:
            cursor = connection.execute("SELECT pg_current_wal_flush_lsn()::text")
            [held] = cursor.fetchone() or [None]
        wait_until(lambda: not self.ask(LAGS, held))

    def serves(self, store: Store) -> None:
        """Wait until a store is answered by the replica: the server writes by itself at times."""
        self.catch_up()
        here = make_url(self.standby).port
        wait_until(lambda: store.read(LOCAL_TENANT, port_of) == here)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Let the replica receive what the primary writes, and replay nothing of it."""
        self.ask("SELECT pg_wal_replay_pause()")
        wait_until(lambda: self.ask("SELECT pg_get_wal_replay_pause_state()") == "paused")
        try:
            yield
        finally:
            self.ask("SELECT pg_wal_replay_resume()")


@contextmanager
def run_primary() -> Generator[Server]:
    """Run a server that a replica can follow.

    It acknowledges what is in its log, as a durable one does, but the log need not be on a disk.
    """
    settings = {
        "synchronous_commit": "on",
        "full_page_writes": "on",
        # Each new database ends a checkpoint, and a slow replica would find its log removed.
        "wal_keep_size": "512MB",
    }
    with throwaway_server(settings) as server:
        yield server


@contextmanager
def run_replica(primary: str) -> Generator[str]:
    """Run a replica of a server; give the URL of its superuser."""
    with ExitStack() as stack:
        with folders_in_memory():
            url = stack.enter_context(postgres_replica(primary))
        yield url


def port_of(tx: Transaction) -> int:
    """Say at which port the server listens that answers."""
    return tx.work.connection.exec_driver_sql("SELECT inet_server_port()").scalar_one()


def wait_until(is_so: Callable[[], bool]) -> None:
    """Ask until something is so, for a minute at most."""
    Retrying(
        retry=retry_if_result(lambda so: not so), wait=wait_fixed(0.01), stop=stop_after_delay(60)
    )(is_so)
