"""What SQLite's index keeps in the process, and what it does not look at when there is too much."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from commonbrain.embeddings.interface import Vectors
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.sqlite.index import SqliteIndex
from commonbrain.storage.sqlite.vectors import BinaryVectorIndex
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock, a_memory
from tests.laid_out_stores import open_laid_out
from tests.storage.store_steps import SPACE, lexical, put, query_scope, random_vectors


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(open_laid_out(path, space=SPACE, clock=FakeClock())) as opened:
        yield opened


def put_windows(store: Store, count: int) -> None:
    """Store memories of two windows each."""
    vectors = random_vectors(2 * count).reshape(count, 2, -1)
    with store.begin(LOCAL_TENANT) as tx:
        for id_, windows in enumerate(vectors, 1):
            memory = a_memory(id_, f"number {id_}")
            tx.memories.add(memory)
            tx.index.put(memory, Vectors(windows=windows))


def test_vectors_beyond_the_cache_are_read_from_the_rows(store: Store) -> None:
    put_windows(store, 300)
    [query] = random_vectors(1)

    with store.snapshot(LOCAL_TENANT) as tx:
        assert isinstance(tx.index, SqliteIndex)
        all_hits = tx.index.nearest(query, query_scope(), limit=300)
        few = BinaryVectorIndex(dimensions=len(query), memory_bytes_max=199 * 2 * len(query))
        afresh = replace(tx.index.work, followed=set())
        vectors = replace(tx.index.whole, codes=few, work=afresh)
        partly = vectors.nearest(query, query_scope(), limit=300, at_least=-1.0)

    assert [hit.id for hit in partly] == [hit.id for hit in all_hits]
    assert [hit.score for hit in partly] == pytest.approx([hit.score for hit in all_hits])


def test_changes_within_a_transaction_are_included_in_similarities(store: Store) -> None:
    put_windows(store, 3)
    [vector] = random_vectors(1)

    with store.begin(LOCAL_TENANT) as tx:
        tx.index.follow()
        tx.index.drop(2)
        memory = a_memory(9, "number 9")
        tx.memories.add(memory)
        tx.index.put(memory, Vectors(windows=vector[None, :]))
        within = tx.index.similarities(vector, [1, 2, 3, 9])
    with store.snapshot(LOCAL_TENANT) as tx:
        after = tx.index.similarities(vector, [1, 2, 3, 9])

    assert set(within) == set(after) == {1, 3, 9}
    assert within[9] == pytest.approx(1, abs=1e-2)


def test_approximate_search_is_limited_to_the_given_memories(store: Store) -> None:
    put_windows(store, 40)
    [query] = random_vectors(1)

    with store.snapshot(LOCAL_TENANT) as tx:
        assert isinstance(tx.index, SqliteIndex)
        tx.index.follow()
        nearest = tx.index.whole.codes.nearest(query, limit=5, among=np.array([3, 7, 99]))

    assert set(nearest.tolist()) == {3, 7}
    assert len(nearest) == 4


def test_search_for_a_very_common_word_returns_new_and_old_memories(store: Store) -> None:
    put(store, a_memory(1, "tea first"), a_memory(9000, "tea last"))
    index_tea(store, last=6000)

    assert set(lexical(store, "tea")) == {1, 9000}


def test_common_word_is_left_out_where_another_is_rare_whatever_the_ids(store: Store) -> None:
    at = 1_700_000_000_000 << 16
    put(store, a_memory(1, "tea first"), a_memory(at, "zebra"))
    index_tea(store, last=2500)

    assert lexical(store, "tea", "zebra") == [at]


def index_tea(store: Store, *, last: int) -> None:
    """Index the word "tea" by itself under the ids from 2 on."""
    many = sa.text(
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < :last)"
        " INSERT INTO memory_text(rowid, text, keywords) SELECT i, 'tea', '' FROM n"
    )
    with store.dialect.writer("default") as connection, connection.begin():
        connection.execute(many, {"last": last})


def test_later_vector_with_any_id_is_found(subtests: pytest.Subtests) -> None:
    for second in [(4, 5), (5, 4), (2, 6), (3, 4)]:
        with subtests.test(second=second):
            vectors = random_vectors(5)
            ids = [1, 2, 3, *second]
            codes, dimensions = BinaryVectorIndex(dimensions=vectors.shape[1]), vectors.shape[1]
            blobs = [one.astype(np.float16).tobytes() for one in vectors]
            codes.apply([(seq, ids[seq], blobs[seq]) for seq in range(3)])
            codes.cosines(vectors[0], ids[:3])
            codes.apply([(seq, ids[seq], blobs[seq]) for seq in range(3, 5)])

            cosines, unkept = codes.cosines(vectors[0], ids)

            halves = np.frombuffer(b"".join(blobs), dtype=np.float16).reshape(5, dimensions)
            scores = (halves.astype(np.float32) @ vectors[0]).tolist()
            best = {
                id_: max(s for i, s in zip(ids, scores, strict=True) if i == id_) for id_ in ids
            }
            assert cosines == pytest.approx(best)
            assert not unkept
