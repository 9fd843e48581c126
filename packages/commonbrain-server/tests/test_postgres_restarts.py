"""A server that restarts: calls wait for it, reads are repeated, and one that stays away is known.

A database that refuses connections is, for its clients, one whose server restarts.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psycopg
import pytest
from commonbrain_server.postgres.opening import open_postgres
from commonbrain_server.postgres.store import PostgresStore
from psycopg import sql
from sqlalchemy import ExceptionContext, event, text

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import FakeClock, a_brain, a_memory, use_store_opener
from tests.postgres import END_ALL, Database, Server
from tests.processes import until
from tests.serving import an_app, calling
from tests.storage.store_steps import SPACE, put, stored


@dataclass(slots=True, kw_only=True)
class Restarting:
    """A database that goes away and comes back, and the connections refused meanwhile."""

    postgres: Server
    database: Database
    refused: int = 0
    back_after: int | None = None
    """After so many refused connections it is back; None if it stays away."""
    stores: list[Store] = field(default_factory=list[Store])

    def opened(self, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> Store:
        store = open_postgres(
            self.database.program, space=SPACE, clock=FakeClock(), lock_timeout_s=lock_timeout_s
        )
        assert isinstance(store, PostgresStore)
        event.listen(store.postgres.engine, "handle_error", self._count)
        self.stores.append(store)
        return store

    def go(self, *, back_after: int | None = None) -> None:
        """Refuse connections, and end those there are."""
        self.refused, self.back_after = 0, back_after
        self._allow(is_allowed=False)
        with closing(psycopg.connect(self.postgres.url, autocommit=True)) as superuser:
            superuser.execute(END_ALL, [self.database.name])

    def _count(self, failed: ExceptionContext) -> None:
        if failed.connection is not None:
            # A statement failed.
            return
        self.refused += 1
        if self.refused == self.back_after:
            self._allow(is_allowed=True)

    def _allow(self, *, is_allowed: bool) -> None:
        name = sql.Identifier(self.database.name)
        allow = sql.SQL("true" if is_allowed else "false")
        with closing(psycopg.connect(self.postgres.url, autocommit=True)) as superuser:
            statement = sql.SQL("ALTER DATABASE {name} ALLOW_CONNECTIONS {allow}")
            superuser.execute(statement.format(name=name, allow=allow))


@pytest.fixture
def restarting(postgres: Server, database: Database) -> Iterator[Restarting]:
    made = Restarting(postgres=postgres, database=database)
    yield made
    for one in made.stores:
        one.close()


@pytest.mark.requirement("DO-29")
def test_calls_wait_for_a_server_that_restarts(restarting: Restarting) -> None:
    store = restarting.opened()

    restarting.go(back_after=3)
    put(store, a_memory(1, "tea is ready"))
    assert restarting.refused == 3

    restarting.go(back_after=1)
    assert set(stored(store, 1)) == {1}


@pytest.mark.requirement("DO-29")
@pytest.mark.parametrize("shares_snapshot", [False, True])
def test_read_whose_connection_is_lost_is_repeated(
    restarting: Restarting, *, shares_snapshot: bool
) -> None:
    store = restarting.opened()
    put(store, a_memory(1, "tea is ready"))
    steps: Iterator[Callable[[], None]] = iter([partial(restarting.go, back_after=1)])

    def read(tx: Transaction) -> list[int]:
        next(steps, lambda: None)()
        assert tx.work.connection.execute(text("SELECT 1")).scalar_one()
        return [*tx.memories.get([1])]

    with store.consistent_reads() if shares_snapshot else nullcontext():
        assert store.read(LOCAL_TENANT, read) == [1]


@pytest.mark.requirement("DO-29")
def test_server_that_stays_away_is_waited_for_once(restarting: Restarting) -> None:
    store = restarting.opened(lock_timeout_s=2)
    restarting.go()
    for fails_at_once in (False, True):
        restarting.refused = 0
        with pytest.raises(UnavailableError) as raised:
            stored(store, 1)
        assert raised.value.code == "store_down"
        assert (restarting.refused == 1) is fails_at_once


@pytest.mark.requirement("DO-30")
async def test_calls_of_a_server_that_restarts_wait_without_a_thread(
    restarting: Restarting,
) -> None:
    store = restarting.opened()
    put(store, a_memory(1, "tea is ready"))
    # A call waits for a thread for a third of this, which is less than the restart takes.
    threads = ThreadLimiter(1, seconds_max=9, is_held=store.is_restarting)
    restarting.go(back_after=5)

    first = asyncio.create_task(threads.run(lambda: stored(store, 1)))
    await asyncio.to_thread(until, store.is_restarting)
    others = [threads.run(lambda: stored(store, 1)) for _ in range(4)]

    assert [set(one) for one in await asyncio.gather(first, *others)] == [{1}] * 5
    assert restarting.refused == 5
    threads.close()


@pytest.mark.requirement("DO-30")
async def test_server_that_is_back_is_found_by_the_next_call_if_none_waits_for_it(
    restarting: Restarting,
) -> None:
    store = restarting.opened()
    put(store, a_memory(1, "tea is ready"))
    hurried = ThreadLimiter(1, seconds_max=1.5)
    threads = ThreadLimiter(4, seconds_max=9, is_held=store.is_restarting)
    restarting.go(back_after=2)

    # Its deadline is before its third try.
    with pytest.raises(UnavailableError):
        await hurried.run(lambda: stored(store, 1))
    assert restarting.refused == 2
    calls = [threads.run(lambda: stored(store, 1)) for _ in range(4)]

    async with asyncio.timeout(2):
        assert [set(one) for one in await asyncio.gather(*calls)] == [{1}] * 4
    for one in (hurried, threads):
        one.close()


@pytest.mark.requirement("DO-31")
def test_readiness_is_answered_while_the_server_is_away(restarting: Restarting, path: Path) -> None:
    def opened(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:  # noqa: ARG001 as it is called
        return restarting.opened()

    with use_store_opener(opened):
        app = an_app(a_brain(path))
    with calling(app, None) as client:
        assert client.get("/readyz").is_success
        restarting.go()
        reply = client.get("/readyz")

    assert (reply.status_code, reply.json()["code"]) == (503, "store_down")
    # Each is a second after the one before.
    assert restarting.refused <= 2
