"""Searches in Postgres beyond what one scores or an index returns at once, and stale counts."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import cast

import numpy as np
import psycopg
import pytest
from commonbrain_server.postgres.index import PostgresIndex
from commonbrain_server.postgres.statistics import SCORED_MAX, Size
from commonbrain_server.postgres.vectors import PostgresVectors

from commonbrain.embeddings.interface import Vectors
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.store import Store
from commonbrain.testing.builders import a_memory
from tests.postgres import Database
from tests.storage.store_steps import put, query_scope, random_vectors

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


@pytest.mark.requirement("ST-26")
@pytest.mark.of_one_server
def test_search_that_the_index_ends_early_misses_nothing_in_scope(
    store: Store, subtests: pytest.Subtests
) -> None:
    large, small = (Size(memories=count, average_words=40) for count in (100_000, 600))
    query, *vectors = random_vectors(601)
    farthest = np.argsort(np.stack(vectors) @ query)[:3]
    with store.begin(LOCAL_TENANT) as tx:
        for place, vector in enumerate(vectors):
            project = "tea" if place in farthest else "cake"
            memory = a_memory(place + 1, f"number {place}", project=project)
            tx.memories.add(memory)
            tx.index.put(memory, Vectors(windows=vector[np.newaxis]))

    with store.snapshot(LOCAL_TENANT) as tx:
        which = replace(cast("PostgresIndex", tx.index).which, ef_search=10)
        index = PostgresVectors(work=tx.work, which=which)
        # Otherwise the planner compares so few vectors exactly, or the index returns all of them.
        for setting in ("enable_sort = off", "hnsw.max_scan_tuples = 1"):
            tx.work.connection.exec_driver_sql(f"SET LOCAL {setting}")
        for scope, limit, at_least in [
            (query_scope(project="tea"), 10, -1.0),
            (query_scope(), 500, -1.0),
            (query_scope(), 500, 0.05),
        ]:
            with subtests.test(project=scope.filter.project, at_least=at_least):
                by_index, exact = (
                    index.nearest(query, scope, limit=limit, at_least=at_least, size=size)
                    for size in (large, small)
                )
                assert exact
                assert by_index == exact
