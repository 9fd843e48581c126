"""Which words of a question are searched for in Postgres, and how common they are said to be."""

import pytest
from commonbrain_server.postgres.statistics import (
    SCORED_MAX,
    SelectedTerms,
    Size,
    select_rare_terms,
)
from commonbrain_server.postgres.vectors import ef_search, wider
from hypothesis import given
from hypothesis import strategies as st

SHARES = st.dictionaries(st.text(min_size=1), st.floats(min_value=1e-6, max_value=1.0), max_size=8)


@given(shares=SHARES, memories=st.integers(min_value=0, max_value=10**7))
def test_every_search_has_ranking_words_and_no_negative_weights(
    shares: dict[str, float], memories: int
) -> None:
    chosen = select_rare_terms(shares, memories=memories)

    assert set(chosen.words) <= set(shares)
    assert bool(chosen.words) == bool(shares)
    assert len(chosen.weights) == len(chosen.words)
    assert all(weight is None or weight > 0 for weight in chosen.weights)


@given(shares=SHARES, memories=st.integers(min_value=SCORED_MAX + 1, max_value=10**7))
def test_known_search_words_match_no_more_memories_than_can_be_scored(
    shares: dict[str, float], memories: int
) -> None:
    chosen = select_rare_terms(shares, memories=memories)

    among = memories if chosen.newest is None else min(chosen.newest, memories)
    matches = min(sum(shares[word] for word in chosen.words[: chosen.sought]), 1) * among
    assert matches <= SCORED_MAX * 1.001


def test_rarest_words_are_searched_for_and_common_ones_only_rank() -> None:
    chosen = select_rare_terms(
        {"now": 0.3, "the": 0.9, "zebra": 0.001, "herd": 0.002}, memories=100_000
    )

    assert chosen.words == ["zebra", "herd", "now"]
    assert chosen.sought == 2
    assert chosen.newest is None


def test_words_missing_from_the_sample_are_all_searched_for() -> None:
    unknown = ["zebra", "quagga", "okapi", "gnu", "eland", "addax"]
    shares = dict.fromkeys(unknown, 0.0005) | {"herd": 0.001, "grass": 0.1}

    chosen = select_rare_terms(shares, memories=1_000_000, rare=0.0005)

    assert chosen.words == [*unknown, "herd", "grass"]
    assert chosen.sought == len(unknown) + 1


def test_search_of_only_common_words_covers_the_newest_memories() -> None:
    chosen = select_rare_terms({"the": 0.9, "of": 0.6}, memories=100_000)

    assert (chosen.sought, chosen.newest) == (2, SCORED_MAX)


def test_search_in_a_small_tenant_uses_every_word() -> None:
    chosen = select_rare_terms({"the": 1.0, "of": 1.0}, memories=SCORED_MAX)

    assert chosen == SelectedTerms(words=["the", "of"], sought=2, weights=[None, None])


def test_large_tenant_is_searched_by_vector_index(subtests: pytest.Subtests) -> None:
    for memories, common_terms, is_large in [
        (9_000, 0, False),
        (20_000, 0, True),
        (12_000, 300_000, False),
        (200_000, 100_000, True),
    ]:
        with subtests.test(memories=memories, common_terms=common_terms):
            size = Size(memories=memories, average_words=40, common_terms=common_terms)

            assert size.is_large is is_large


def test_narrow_scope_widens_the_search_or_reads_everything(subtests: pytest.Subtests) -> None:
    for memories, reach, allowed, wider_reach in [
        (1_000_000, 75, 20, 321),
        (1_000_000, 75, 0, 1000),
        (20_000, 75, 0, None),
        (1_000_000, 1000, 50, 2000),
        (1_000_000, 1000, 0, None),
        (1_000_000, 2000, 59, 4000),
        (1_000_000, 4000, 59, None),
        (8_000, 75, 37, 177),
        (8_000, 75, 5, None),
    ]:
        with subtests.test(memories=memories, reach=reach, allowed=allowed):
            size = Size(memories=memories, average_words=40)

            assert wider_reach == wider(
                reach, allowed=allowed, limit=60, size=size, is_indexed=size.is_large
            )


def test_large_shared_index_is_searched_with_more_candidates() -> None:
    alone = Size(memories=40_000, average_words=40)
    among_others = Size(memories=40_000, average_words=40, common_terms=40_000)

    assert ef_search(alone) < ef_search(among_others)
    assert ef_search(among_others) == ef_search(Size(memories=80_000, average_words=40))
