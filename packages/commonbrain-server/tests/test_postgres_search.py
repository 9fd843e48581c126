"""Words in Postgres beyond what a search scores at once, and counts that others made stale."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from itertools import islice
from typing import cast

import psycopg
import pytest
from commonbrain_server.postgres.index import PostgresIndex
from commonbrain_server.postgres.statistics import SCORED_MAX, Size

from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.store import Store
from commonbrain.testing.builders import a_memory
from tests.postgres import Database
from tests.storage.store_steps import put, query_scope

MANY = 30_000
SMALL = 100
# What is searched without being anybody's memory: another process's import in a moment.
FILL = (
    "INSERT INTO memory_text (tenant_id, memory_id, length, words) "
    "SELECT %s, id, 2, to_tsvector('commonbrain', %s || ' ' || id) "
    "FROM generate_series(1000, 999 + %s) AS id ON CONFLICT DO NOTHING"
)


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    with closing(database.opened()) as opened:
        yield opened


def fill(database: Database, text: str, many: int = MANY) -> None:
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        owner.execute(FILL, (LOCAL_TENANT, text, many))


def search(store: Store, *terms: str) -> list[int]:
    with store.snapshot(LOCAL_TENANT) as tx:
        return [hit.id for hit in tx.index.lexical(list(terms), query_scope(), limit=5)]


def counted(store: Store) -> Size:
    with store.snapshot(LOCAL_TENANT) as tx:
        return cast("PostgresIndex", tx.index).size.now()


def test_narrow_scope_is_applied_to_every_match(database: Database, store: Store) -> None:
    fill(database, "said")
    put(store, a_memory(999_999, "said"))

    assert search(store, "said") == [999_999]


@pytest.mark.parametrize("many", [MANY, 15_000])
def test_words_made_common_by_an_import_do_not_hide_a_memory_with_all_words(
    database: Database, store: Store, many: int
) -> None:
    fill(database, "zebra", SMALL)
    assert counted(store).memories == SMALL
    fill(database, "said", many + SMALL)
    put(store, a_memory(999_998, "said"), a_memory(999_999, "a quagga said"))

    assert search(store, "quagga", "said")[0] == 999_999
    assert counted(store).memories == many + SMALL + 2


def test_unknown_word_in_a_query_does_not_hide_the_other_words(
    database: Database, store: Store
) -> None:
    fill(database, "harbour grass", 3000)
    fill(database, "zebra", 9000)
    put(store, a_memory(999_999, "harbour grass"))

    assert search(store, "xyzzy", "harbour", "grass") == [999_999]


def test_word_statistics_are_recounted_by_one_thread_without_blocking_others(
    database: Database, store: Store
) -> None:
    fill(database, "zebra", SMALL)
    size = counted(store)
    assert [counted(store) for _ in range(size.lasts)] == [size] * size.lasts
    with closing(psycopg.connect(database.owner)) as owner, ThreadPoolExecutor() as pool:
        owner.execute("LOCK TABLE memory_text IN ACCESS EXCLUSIVE MODE")
        tried = [pool.submit(counted, store) for _ in range(4)]
        done = islice(as_completed(tried, timeout=10), len(tried) - 1)
        assert all(one.result() is size for one in done)
        owner.rollback()
        again = [one.result() for one in tried]

    assert sum(one is not size for one in again) == 1


def test_statistics_notice_writes_of_other_processes_without_a_word_search(
    database: Database, store: Store
) -> None:
    fill(database, "zebra", 1000)
    assert not counted(store).is_large
    fill(database, "zebra", MANY)

    assert [counted(store).is_large for _ in range(20)][-1]


def test_common_words_of_a_large_tenant_are_estimated_from_a_sample(
    database: Database, store: Store
) -> None:
    put(store, a_memory(1, "a zebra said so"), a_memory(2, "a zebra and a herd"))
    fill(database, "usual said", SCORED_MAX + 500)

    with store.snapshot(LOCAL_TENANT) as tx:
        size = cast("PostgresIndex", tx.index).sizes.of(tx.work)  # type: ignore[attr-defined]
        assert size.common["usual"] == pytest.approx(1.0, abs=0.01)
        assert "zebra" not in size.common
        hits = tx.index.lexical(["zebra", "said", "herd"], query_scope(), limit=5)
        common = tx.index.lexical(["said"], query_scope(), limit=5)

    assert [hit.id for hit in hits] == [2, 1]
    # The newest are others' here, and then every match is looked at.
    assert [hit.id for hit in common] == [1]
