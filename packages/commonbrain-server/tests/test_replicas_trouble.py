"""Faults of a primary are reported as those of any store; faults of a replica go unnoticed."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from threading import Event
from time import monotonic

import psycopg
import pytest
from commonbrain_server.postgres.opening import open_postgres
from commonbrain_server.postgres.replicas import REST_S, Position
from psycopg import sql
from sqlalchemy import event, make_url
from test_replicas import ids, reads, replicas

from commonbrain.clock import UNTIL
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.observability.health import ReplicaTrouble
from commonbrain.testing.builders import FakeClock, a_memory
from tests.faults.proxies import Proxy
from tests.postgres import END_ALL
from tests.processes import TIMEOUT_S
from tests.replicas import Pair, port_of, run_replica, wait_until
from tests.storage.store_steps import SPACE, put, stored

pytestmark = pytest.mark.part("distributed")

EARLY = Position(lsn="0/1", timeline=1)
"""What every replica has."""


@pytest.fixture
def proxy(pair: Pair) -> Iterator[Proxy]:
    """The way to the replica."""
    with Proxy("127.0.0.1", make_url(pair.standby).port or 0) as made:
        yield made


def through(proxy: Proxy, url: str) -> str:
    changed = make_url(url).set(host="127.0.0.1", port=proxy.port)
    return changed.render_as_string(hide_password=False)


def with_primary(pair: Pair, program: str) -> Pair:
    return replace(pair, database=replace(pair.database, program=program))


def test_connection_ended_by_the_primary_is_reported_as_unavailable(pair: Pair) -> None:
    with pair.opened() as store:
        pair.serves(store)

        def end(connection: psycopg.Connection[None], *_: object) -> None:
            with psycopg.connect(pair.server.url, autocommit=True) as superuser:
                pid = [connection.info.backend_pid]
                superuser.execute("SELECT pg_terminate_backend(%s, 10000)", pid)

        event.listen(store.dialect.engine, "checkout", end)
        with pytest.raises(UnavailableError, match="terminat"):
            store.read(LOCAL_TENANT, ids)


def test_hanging_primary_is_reported_at_the_deadline_of_the_caller(pair: Pair) -> None:
    url = make_url(pair.server.url)
    with (
        Proxy("127.0.0.1", url.port or 0) as line,
        with_primary(pair, through(line, pair.database.program)).opened(pair.copy) as store,
    ):
        pair.serves(store)
        line.go_black()
        token = UNTIL.set(monotonic() + 0.3)
        try:
            with pytest.raises(UnavailableError, match="no longer waits"):
                store.read(LOCAL_TENANT, ids)
        finally:
            UNTIL.reset(token)


def test_primary_in_recovery_is_read_like_a_plain_store(pair: Pair) -> None:
    with with_primary(pair, pair.copy).opened(pair.copy) as store:
        assert store.read(LOCAL_TENANT, port_of) == make_url(pair.standby).port
        assert store.read(LOCAL_TENANT, ids) == []
        assert reads(store).attempts == 0


def test_hanging_replica_costs_a_short_wait_and_is_paused(pair: Pair, proxy: Proxy) -> None:
    with pair.opened(through(proxy, pair.copy)) as store:
        put(store, a_memory(1, "tea is ready"))
        pair.serves(store)
        [replica] = replicas(store)
        now = 100.0
        replica.elapsed_s = lambda: now
        proxy.go_black()
        since = monotonic()

        assert store.read(LOCAL_TENANT, ids) == [1]
        assert monotonic() - since < TIMEOUT_S
        assert (reads(store).failed, reads(store).sort) == (1, ReplicaTrouble.FAILED)
        # While it rests nobody waits for it.
        assert store.read(LOCAL_TENANT, port_of) == make_url(pair.server.url).port
        assert reads(store).failed == 1

        proxy.go_on()
        now += REST_S
        pair.serves(store)
        assert (reads(store).failed, reads(store).trouble, reads(store).sort) == (1, None, None)


def test_only_one_reader_tries_a_paused_replica(pair: Pair, proxy: Proxy) -> None:
    with pair.opened(through(proxy, pair.copy)) as store:
        pair.serves(store)
        [replica] = replicas(store)
        now = 100.0
        replica.elapsed_s = lambda: now
        proxy.go_black()
        store.read(LOCAL_TENANT, port_of)
        assert replica.is_resting
        proxy.go_on()
        now += REST_S
        is_trying, may_end = Event(), Event()

        def trying(_: object) -> bool:
            is_trying.set()
            return may_end.wait(TIMEOUT_S)

        def ask(what: Callable[[object], bool]) -> tuple[bool] | None:
            return replica.ask(LOCAL_TENANT, what, since=EARLY)

        with ThreadPoolExecutor(1) as threads:
            trial = threads.submit(ask, trying)
            try:
                assert is_trying.wait(TIMEOUT_S)
                assert replica.is_resting
                assert ask(lambda _: True) is None
            finally:
                may_end.set()
            assert trial.result(TIMEOUT_S) == (True,)
        assert not replica.is_resting
        assert ask(lambda _: True) == (True,)


def test_replica_on_an_old_timeline_answers_nothing(pair: Pair) -> None:
    with ExitStack() as opened:
        promoted = opened.enter_context(run_replica(pair.server.url))
        superuser = opened.enter_context(psycopg.connect(promoted, autocommit=True))
        superuser.execute("SELECT pg_promote()")
        # What was left behind writes on, and its replica is further than the new primary.
        with psycopg.connect(pair.server.url, autocommit=True) as before:
            for _ in range(3):
                before.execute("SELECT pg_logical_emit_message(true, 'more', 'of it')")
                before.execute("SELECT pg_switch_wal()")
        pair.catch_up()
        port = make_url(promoted).port
        program = make_url(pair.database.program).set(port=port)
        moved = with_primary(pair, program.render_as_string(hide_password=False))

        with moved.opened(pair.copy) as store:
            assert store.read(LOCAL_TENANT, port_of) == port
            counts = reads(store)
            assert (counts.answered, counts.lagged, counts.sort) == (0, 1, ReplicaTrouble.TIMELINE)
            assert counts.behind_bytes is None

        with run_replica(promoted) as following:
            pair_of_now = replace(moved, standby=following)
            with pair_of_now.opened() as store:
                at = make_url(following).port
                wait_until(lambda: store.read(LOCAL_TENANT, port_of) == at)


def test_store_of_two_hosts_goes_on_where_the_standby_is_promoted(pair: Pair) -> None:
    with ExitStack() as opened:
        promoted = opened.enter_context(run_replica(pair.server.url))
        ports = [make_url(one).port for one in (promoted, pair.server.url)]
        hosts = [f"127.0.0.1:{port}" for port in ports]
        query = {"host": hosts, "target_session_attrs": "read-write"}
        both = make_url(pair.database.program)._replace(host=None, port=None).set(query=query)
        store = open_postgres(
            both.render_as_string(hide_password=False),
            space=SPACE,
            clock=FakeClock(),
            lock_timeout_s=LOCK_TIMEOUT_S,
        )
        opened.callback(store.close)
        put(store, a_memory(1, "tea is ready"))
        assert store.read(LOCAL_TENANT, port_of) == ports[1]
        replace(pair, standby=promoted).catch_up()

        with psycopg.connect(promoted, autocommit=True) as superuser:
            superuser.execute("SELECT pg_promote()")
        with psycopg.connect(pair.server.url, autocommit=True) as before:
            name = sql.Identifier(pair.database.name)
            before.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
            before.execute(END_ALL, [pair.database.name])

        put(store, a_memory(2, "tea is cold"))
        assert set(stored(store, 1, 2)) == {1, 2}
        assert store.read(LOCAL_TENANT, port_of) == ports[0]
