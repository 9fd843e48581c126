"""Which of two spaces is better is said only where the marks tell."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.administration.embedding_spaces import (
    TOP,
    Compared,
    SpaceAnswer,
    compare,
    interval,
    overlap,
    reciprocal_rank,
)

pytestmark = pytest.mark.part("models")

IDS = st.lists(st.integers(1, 30), max_size=15, unique=True)


def compared(before: list[int], after: list[int], *helped: int) -> Compared:
    one, other = (
        SpaceAnswer(ids=tuple(ids), is_answered=bool(ids), took_ms=1.0) for ids in (before, after)
    )
    return Compared(one=one, other=other, helped=frozenset(helped))


def drawn() -> Random:
    return Random(7)  # noqa: S311 it only has to be the same each time


@given(IDS, IDS)
def test_overlap_is_a_symmetric_share(one: list[int], other: list[int]) -> None:
    assert 0 <= overlap(one, other) <= 1
    assert overlap(one, other) == overlap(other, one)
    assert overlap(one, one) == 1


@given(IDS, st.sets(st.integers(1, 30)))
def test_only_the_first_ten_results_have_a_rank(ids: list[int], helped: set[int]) -> None:
    ranks = [rank for rank, id_ in enumerate(ids, 1) if id_ in helped and rank <= TOP]
    assert reciprocal_rank(ids, helped) == (1 / ranks[0] if ranks else 0)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20))
def test_interval_lies_within_the_measured_values(values: list[float]) -> None:
    lowest, highest = interval(values, draw=drawn().randrange)
    assert min(values) - 1e-9 <= lowest <= highest <= max(values) + 1e-9


def test_insignificant_difference_is_not_reported(subtests: pytest.Subtests) -> None:
    cases: list[tuple[list[Compared], str | None]] = [
        ([compared([2, 1], [1, 2], 1)] * 12, "new"),
        ([compared([1, 2], [2, 1], 1)] * 12, "old"),
        ([compared([1, 2], [2, 1], 1), compared([2, 1], [1, 2], 1)] * 6, None),
        ([compared([1], [2])] * 12, None),
    ]
    for asks, better in cases:
        with subtests.test(asks=asks, better=better):
            done = compare(asks, names=("old", "new"), draw=drawn().randrange)
            assert done.better == better
            assert (done.gain is None) == (done.serving.mrr is None)
