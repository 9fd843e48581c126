"""A network that goes silent but still acknowledges: callers get errors, threads are freed."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic

import psycopg
import pytest
from commonbrain_server.postgres.engine import make_engine
from commonbrain_server.postgres.opening import open_postgres
from sqlalchemy import Connection, exc, make_url, text

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock
from tests.faults.cluster import until
from tests.faults.proxies import Proxy
from tests.postgres import Database
from tests.processes import TIMEOUT_S
from tests.storage.store_steps import SPACE

AT_ONCE = 2
DEADLINE_S = 0.5


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    url = make_url(database.program)
    with Proxy(url.host or "", url.port or 0) as made:
        yield made


@pytest.fixture
def store(proxy: Proxy, database: Database) -> Iterator[Store]:
    """The store, reached by way of the proxy."""
    opened = open_postgres(
        through(proxy, database), space=SPACE, clock=FakeClock(), lock_timeout_s=LOCK_TIMEOUT_S
    )
    yield opened
    opened.close()


def through(proxy: Proxy, database: Database) -> str:
    url = make_url(database.program).set(host="127.0.0.1", port=proxy.port)
    return url.render_as_string(hide_password=False)


def read_one(store: Store) -> list[str]:
    with store.snapshot(LOCAL_TENANT) as tx:
        return [str(one) for one in tx.memories.get([1])]


def write(store: Store, proxy: Proxy) -> None:
    with store.begin(LOCAL_TENANT) as tx:
        proxy.go_black()
        tx.memories.get([1])


async def test_calls_over_a_silent_network_fail_in_time_and_free_their_threads(
    store: Store, proxy: Proxy
) -> None:
    threads = ThreadLimiter(AT_ONCE, seconds_max=DEADLINE_S)
    assert await threads.run(lambda: read_one(store)) == []
    proxy.go_black()
    calls = [threads.run(lambda: read_one(store)) for _ in range(AT_ONCE)]
    replies = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(one) for one in replies] == [UnavailableError] * AT_ONCE
    proxy.go_on()
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                again = [threads.run(lambda: read_one(store)) for _ in range(AT_ONCE)]
                assert await asyncio.gather(*again) == [[]] * AT_ONCE
                break
            except UnavailableError:
                """A connection from before was still in the pool: it, too, is let go."""
    threads.close()


async def test_write_lock_is_free_after_the_deadline_of_its_call(
    store: Store, proxy: Proxy, database: Database
) -> None:
    threads = ThreadLimiter(1, seconds_max=DEADLINE_S)
    with pytest.raises(UnavailableError):
        await threads.run(lambda: write(store, proxy))
    other = database.opened()
    with other.begin(LOCAL_TENANT) as tx:
        assert tx.memories.get([1]) == {}
    other.close()
    threads.close()


def test_statement_without_a_deadline_does_not_wait_for_ever(
    proxy: Proxy, database: Database
) -> None:
    engine = make_engine(make_url(through(proxy, database)), lock_timeout_s=0.1, statement_s=0.1)
    with engine.connect() as connection:
        proxy.go_black()
        since = monotonic()
        with pytest.raises(exc.OperationalError, match="no word came") as late:
            connection.execute(text("SELECT 1"))
        assert monotonic() - since < TIMEOUT_S
        assert late.value.connection_invalidated
    engine.dispose()


async def test_slow_statement_ends_with_its_call_and_other_connections_stay(
    store: Store,
) -> None:
    connection = store.dialect.engine.connect()
    threads = ThreadLimiter(1, seconds_max=DEADLINE_S)

    def sleep() -> None:
        with store.snapshot(LOCAL_TENANT) as tx:
            tx.work.connection.execute(text("SELECT pg_sleep(30)"))

    with pytest.raises(UnavailableError):
        await threads.run(sleep)
    assert await asyncio.wait_for(threads.run(lambda: read_one(store)), TIMEOUT_S) == []
    raw = connection.connection.dbapi_connection
    assert isinstance(raw, psycopg.Connection)
    assert raw.execute("SELECT 1").fetchone() == (1,)
    connection.close()
    threads.close()


async def test_call_after_its_deadline_starts_no_statement(store: Store) -> None:
    threads = ThreadLimiter(1, seconds_max=DEADLINE_S)
    begun: list[str] = []

    def work() -> None:
        with pytest.raises(UnavailableError), store.snapshot(LOCAL_TENANT) as tx:
            tx.work.connection.execute(text("SELECT pg_sleep(30)"))
        with pytest.raises(UnavailableError, match="no longer waits") as late:
            read_one(store)
        begun.append(late.value.code)

    with pytest.raises(UnavailableError):
        await threads.run(work)
    await asyncio.wait_for(threads.run(lambda: None), TIMEOUT_S)
    assert begun == ["deadline"]
    threads.close()


def test_connection_that_ends_at_begin_is_dropped_without_a_traceback(
    store: Store, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    other = database.opened()
    with ThreadPoolExecutor(1) as threads, other.begin(LOCAL_TENANT) as tx:
        waiting = threads.submit(write_nothing, store)
        # It waits for the turn that the other one has.
        until(partial(_end_waiting, tx.work.connection), bool)
        with pytest.raises(UnavailableError) as ended:
            waiting.result(TIMEOUT_S)
    write_nothing(store)
    other.close()

    assert ended.value.code == "store_down"
    assert not [line for line in caplog.messages if "reset" in line]


def write_nothing(store: Store) -> None:
    with store.begin(LOCAL_TENANT) as tx:
        assert tx.memories.get([1]) == {}


def _end_waiting(connection: Connection) -> bool:
    """End the connection that waits for a lock; return whether there was one."""
    ended = text(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' "
        "AND NOT granted AND database = (SELECT oid FROM pg_database "
        "WHERE datname = current_database())"
    )
    return bool(connection.execute(ended).scalars().all())
