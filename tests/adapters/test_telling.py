"""Which words of a question are searched for in Postgres, and how common they are said to be."""

from collections.abc import Iterator
from contextlib import closing
from typing import cast

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.adapters.sql.postgres_index import PostgresIndex
from commonbrain.adapters.sql.postgres_sizes import Size
from commonbrain.adapters.sql.postgres_telling import SCORED_MAX, Telling, telling
from commonbrain.adapters.sql.store import SqlStore
from commonbrain.domain.scope import LOCAL_TENANT
from commonbrain.testing.builders import a_memory
from commonbrain.testing.store_steps import look, put
from tests.postgres import Database

SHARES = st.dictionaries(st.text(min_size=1), st.floats(min_value=1e-6, max_value=1.0), max_size=8)
OTHERS = SCORED_MAX + 500
# What is searched without being anybody's memory: a large tenant in a moment.
FILL = (
    "INSERT INTO memory_text (tenant_id, memory_id, length, words) "
    "SELECT %s, id, 3, to_tsvector('commonbrain', 'usual said ' || id) "
    "FROM generate_series(1000, 999 + %s) AS id"
)


@pytest.fixture
def store(database: Database) -> Iterator[SqlStore]:
    with closing(database.opened()) as opened:
        yield opened


@given(shares=SHARES, memories=st.integers(min_value=0, max_value=10**7))
def test_some_words_rank_and_none_counts_against_a_memory(
    shares: dict[str, float], memories: int
) -> None:
    chosen = telling(shares, memories=memories)

    assert set(chosen.words) <= set(shares)
    assert bool(chosen.words) == bool(shares)
    assert len(chosen.weights) == len(chosen.words)
    assert all(weight is None or weight > 0 for weight in chosen.weights)


@given(shares=SHARES, memories=st.integers(min_value=SCORED_MAX + 1, max_value=10**7))
def test_what_is_known_and_searched_for_matches_no_more_than_is_scored(
    shares: dict[str, float], memories: int
) -> None:
    chosen = telling(shares, memories=memories)

    among = memories if chosen.newest is None else min(chosen.newest, memories)
    matches = min(sum(shares[word] for word in chosen.words[: chosen.sought]), 1) * among
    assert matches <= SCORED_MAX * 1.001


def test_the_rarest_are_searched_for_and_the_common_only_rank() -> None:
    chosen = telling({"now": 0.3, "the": 0.9, "zebra": 0.001, "herd": 0.002}, memories=100_000)

    assert chosen.words == ["zebra", "herd", "now"]
    assert chosen.sought == 2
    assert chosen.newest is None


def test_every_word_that_the_sample_does_not_know_is_searched_for() -> None:
    unknown = ["zebra", "quagga", "okapi", "gnu", "eland", "addax"]
    shares = dict.fromkeys(unknown, 0.0005) | {"herd": 0.001, "grass": 0.1}

    chosen = telling(shares, memories=1_000_000, rare=0.0005)

    assert chosen.words == [*unknown, "herd", "grass"]
    assert chosen.sought == len(unknown) + 1


def test_where_all_are_common_the_newest_are_looked_at() -> None:
    chosen = telling({"the": 0.9, "of": 0.6}, memories=100_000)

    assert (chosen.sought, chosen.newest) == (2, SCORED_MAX)


def test_in_a_small_tenant_every_word_is_searched_for() -> None:
    chosen = telling({"the": 1.0, "of": 1.0}, memories=SCORED_MAX)

    assert chosen == Telling(words=["the", "of"], sought=2, weights=[None, None])


def test_a_large_tenant_tells_by_a_sample_which_words_are_common(
    database: Database, store: SqlStore
) -> None:
    put(store, a_memory(1, "a zebra said so"), a_memory(2, "a zebra and a herd"))
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        owner.execute(FILL, (LOCAL_TENANT, OTHERS))

    with store.snapshot(LOCAL_TENANT) as tx:
        size = cast("PostgresIndex", tx.index).sizes.of(tx.work)  # type: ignore[attr-defined]
        assert size.common["usual"] == pytest.approx(1.0, abs=0.01)
        assert "zebra" not in size.common
        found = tx.index.lexical(["zebra", "said", "herd"], look(), limit=5)
        common = tx.index.lexical(["said"], look(), limit=5)

    assert [hit.id for hit in found] == [2, 1]
    # The newest are others' here, and then every match is looked at.
    assert [hit.id for hit in common] == [1]


@pytest.mark.parametrize(
    ("memories", "beside", "is_large"),
    [
        (9_000, 0, False),
        (20_000, 0, True),
        (12_000, 300_000, False),
        (200_000, 100_000, True),
    ],
)
def test_vectors_are_searched_by_index_where_that_is_sooner(
    memories: int, beside: int, *, is_large: bool
) -> None:
    size = Size(memories=memories, average_words=40, beside=beside)

    assert size.is_large is is_large
