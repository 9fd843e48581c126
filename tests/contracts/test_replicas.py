"""A real streaming replica: it answers what it has, and nobody is told less than was kept."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from commonbrain.adapters.sql.postgres_opening import open_postgres
from commonbrain.adapters.sql.store import SqlStore, SqlTransaction
from commonbrain.domain.limits import LOCK_WAIT_S
from commonbrain.domain.scope import LOCAL_TENANT
from commonbrain.ports.replicas import Reads
from commonbrain.testing.builders import a_memory
from commonbrain.testing.clock import FakeClock
from commonbrain.testing.servers import postgres_replica, postgres_server
from commonbrain.testing.store_steps import SPACE, put
from tests.postgres import Database, Server

HELD = "SELECT pg_wal_lsn_diff(%s::pg_lsn, pg_last_wal_replay_lsn()) > 0"


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
    def opened(self, *copies: str, **more: Any) -> Iterator[SqlStore]:
        """Open the store with copies, by default the one that there is."""
        given = {"url": self.database.program, "replicas": copies or (self.copy,), **more}
        store = open_postgres(space=SPACE, clock=FakeClock(), lock_wait_s=LOCK_WAIT_S, **given)
        with closing(store):
            yield store

    def run(self, statement: str, *given: object) -> Any:
        """Ask the replica as its superuser."""
        with closing(psycopg.connect(self.standby, autocommit=True)) as connection:
            return connection.execute(statement, given).fetchone()

    def caught_up(self) -> None:
        """Wait until the replica has all that the primary has."""
        with closing(psycopg.connect(self.server.url, autocommit=True)) as connection:
            held = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        assert held is not None
        until(lambda: not self.run(HELD, held[0])[0])


def until(is_so: Any) -> None:
    """Ask until something is so, for a minute at most."""
    Retrying(
        retry=retry_if_result(lambda so: not so), wait=wait_fixed(0.01), stop=stop_after_delay(60)
    )(is_so)


def reads(store: SqlStore) -> Reads:
    [one] = store.replicas()
    return one


def ids(tx: SqlTransaction) -> list[int]:
    return tx.memories.page(after=0, limit=10)


@pytest.fixture(scope="module")
def primary() -> Iterator[Server]:
    with postgres_server() as url:
        server = Server(url=url)
        server.make_roles()
        yield server


@pytest.fixture(scope="module")
def standby(primary: Server) -> Iterator[str]:
    with postgres_replica(primary.url) as url:
        yield url


@pytest.fixture
def pair(primary: Server, standby: str) -> Iterator[Pair]:
    with primary.database() as database:
        made = Pair(server=primary, database=database, standby=standby)
        made.caught_up()
        yield made


@pytest.mark.requirement("DO-07")
def test_what_only_reads_is_answered_by_a_replica_that_has_kept_up(pair: Pair) -> None:
    with pair.opened() as store:
        put(store, a_memory(1, "tea is ready"))
        pair.caught_up()

        def where(tx: SqlTransaction) -> tuple[list[int], bool]:
            run = tx.work.connection.exec_driver_sql
            return ids(tx), run("SELECT pg_is_in_recovery()").scalar_one()

        assert store.read(LOCAL_TENANT, where) == ([1], True)
        assert reads(store).answered == 1


def test_what_was_just_kept_is_seen_while_the_replica_stands_still(pair: Pair) -> None:
    with pair.opened() as store:
        pair.run("SELECT pg_wal_replay_pause()")
        try:
            put(store, a_memory(1, "tea is ready"))
            # Another process knows nothing of that write.
            with pair.opened() as other:
                assert other.read(LOCAL_TENANT, ids) == [1]
                assert reads(other).lagged == 1
                assert (reads(other).behind_bytes or 0) > 0
        finally:
            pair.run("SELECT pg_wal_replay_resume()")
        pair.caught_up()
        assert store.read(LOCAL_TENANT, ids) == [1]
        assert reads(store) == Reads(replica=reads(store).replica, answered=1, behind_bytes=0)


def test_a_replica_that_dies_costs_nobody_an_answer(pair: Pair) -> None:
    with pair.opened() as store, postgres_replica(pair.server.url) as dying:
        put(store, a_memory(1, "tea is ready"))
        doomed = Pair(server=pair.server, database=pair.database, standby=dying)
        doomed.caught_up()
        with doomed.opened() as other:
            asked: list[str] = []

            def interrupted(tx: SqlTransaction) -> list[int]:
                run = tx.work.connection.exec_driver_sql
                here = run("SELECT inet_server_port()::text").scalar_one()
                asked.append(here)
                if here == str(make_url(dying).port):
                    doomed.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE application_name = 'commonbrain'")
                return ids(tx)

            assert other.read(LOCAL_TENANT, interrupted) == [1]
            assert [str(make_url(one).port) for one in (dying, pair.server.url)] == asked
            assert reads(other).failed == 1
            # It is left alone for a while: nobody waits for what is likely to be away.
            assert other.read(LOCAL_TENANT, ids) == [1]
            assert reads(other).failed == 1
            assert reads(other).answered == 0
            assert "terminat" in (reads(other).trouble or "")
