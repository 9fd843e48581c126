"""A real streaming replica: it answers what it has, and no answer lacks what was stored."""

from contextlib import ExitStack
from dataclasses import replace

import pytest
from commonbrain_server.postgres.engine import Postgres
from commonbrain_server.postgres.replicas import REST_S, Replica
from sqlalchemy import make_url

from commonbrain.model.errors import RejectedError
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.observability.health import ReplicaReads
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON, a_memory
from tests.replicas import Pair, port_of, run_replica, wait_until
from tests.storage.store_steps import put

pytestmark = pytest.mark.part("distributed")


def reads(store: Store) -> ReplicaReads:
    [one] = store.replicas()
    return one


def ids(tx: Transaction) -> list[int]:
    return tx.memories.page(after=0, limit=10)


def test_read_is_answered_by_a_current_replica(pair: Pair) -> None:
    with pair.opened() as store:
        put(store, a_memory(1, "tea is ready"))
        pair.serves(store)

        assert store.read(LOCAL_TENANT, ids) == [1]
        assert reads(store).answered >= 1


def test_lagging_replica_hides_no_acknowledged_write(
    pair: Pair,
) -> None:
    with pair.opened() as store, pair.opened() as other:
        with pair.paused():
            put(store, a_memory(1, "tea is ready"))

            assert other.read(LOCAL_TENANT, ids) == [1]
            assert reads(other).lagged == 1
            assert (reads(other).behind_bytes or 0) > 0
        pair.serves(other)

        assert other.read(LOCAL_TENANT, ids) == [1]
        assert reads(other).answered >= 1
        assert reads(other).trouble is None


def test_replica_that_fails_during_a_read_is_paused(pair: Pair) -> None:
    with pair.opened() as store:
        put(store, a_memory(1, "tea is ready"))
        pair.serves(store)
        [replica] = replicas(store)
        now = 100.0
        replica.elapsed_s = lambda: now
        ports: list[int] = []

        def interrupted(tx: Transaction) -> list[int]:
            ports.append(port_of(tx))
            if ports == [make_url(pair.standby).port]:
                pair.ask(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                    "WHERE application_name = 'commonbrain'"
                )
            return ids(tx)

        def is_interrupted() -> bool:
            ports.clear()
            assert store.read(LOCAL_TENANT, interrupted) == [1]
            return len(ports) > 1

        wait_until(is_interrupted)
        assert ports == [make_url(one).port for one in (pair.standby, pair.server.url)]
        assert "terminat" in (reads(store).trouble or "")
        assert store.read(LOCAL_TENANT, port_of) == make_url(pair.server.url).port
        assert reads(store).failed == 1

        now += REST_S
        pair.serves(store)
        assert reads(store).trouble is None


def test_killed_replica_does_not_fail_a_read(pair: Pair) -> None:
    with ExitStack() as opened:
        with run_replica(pair.server.url) as temporary_replica:
            doomed = replace(pair, standby=temporary_replica)
            store = opened.enter_context(doomed.opened())
            doomed.serves(store)
        put(store, a_memory(1, "tea is ready"))

        assert store.read(LOCAL_TENANT, ids) == [1]
        assert reads(store).failed == 1
        # Who starts meanwhile does without as well.
        other = opened.enter_context(doomed.opened())
        assert other.read(LOCAL_TENANT, ids) == [1]
        assert "refused" in (reads(other).trouble or "")


def test_replicas_take_turns_and_an_unreachable_one_is_skipped(
    pair: Pair,
) -> None:
    away = make_url(pair.copy).set(port=1).render_as_string(hide_password=False)
    with pair.opened(away, pair.copy, pair.copy) as store:
        for _ in range(4):
            pair.serves(store)

        assert store.replicas()[0].answered == 0
        assert all(one.answered for one in store.replicas()[1:])


def test_replica_shows_a_tenant_only_its_own_rows(pair: Pair) -> None:
    with pair.opened() as store:
        store.make_tenant("other", at=NOON)
        put(store, a_memory(1, "tea is ready"))
        pair.serves(store)

        def every(tx: Transaction) -> int:
            # As a statement would that forgot whose memories it asks for.
            run = tx.work.connection.exec_driver_sql
            return run("SELECT count(*) FROM memories").scalar_one()

        for _ in range(2):
            assert store.read(LOCAL_TENANT, every) == 1
            assert store.read("other", every) == 0
        assert reads(store).answered >= 1


def test_replica_with_an_unconfined_role_is_refused(pair: Pair) -> None:
    superuser = make_url(pair.standby).set(database=make_url(pair.copy).database)
    url = superuser.render_as_string(hide_password=False)

    with pytest.raises(RejectedError, match="superuser") as refused, pair.opened(url):
        pass
    assert refused.value.code == "role_unconfined"


def test_replica_of_another_database_is_refused(pair: Pair) -> None:
    with (
        pair.server.database() as another,
        pytest.raises(RejectedError) as refused,
        pair.opened(another.program),
    ):
        pass
    assert refused.value.code == "replica_foreign"


def test_primary_is_not_accepted_as_a_replica(pair: Pair) -> None:
    with pair.opened(pair.database.program) as store:
        assert store.read(LOCAL_TENANT, ids) == []
        assert reads(store).answered == 0
        assert reads(store).trouble == "it is no replica"


def test_asynchronous_commit_hides_no_acknowledged_write(pair: Pair) -> None:
    name = make_url(pair.database.owner).database or ""
    pair.server.run("ALTER DATABASE {name} SET synchronous_commit = off", name=name)
    pair.catch_up()
    with pair.opened() as store:
        for number in range(1, 6):
            put(store, a_memory(number, "tea is ready"))
            assert store.read(LOCAL_TENANT, ids) == list(range(1, number + 1))


def replicas(store: Store) -> list[Replica]:
    dialect = store.dialect
    assert isinstance(dialect, Postgres)
    return list(dialect.replicas.all)
