import math
from statistics import mean

import numpy as np
import pytest
from commonbrain_evals.retrieval.extra import needed
from commonbrain_evals.retrieval.figures import Figure, figure, figures
from commonbrain_evals.retrieval.metrics import METRICS, measure

from commonbrain.model.errors import InvalidInputError

SECOND = 1 / math.log2(3)
"""What a hit on the second rank adds to a discounted gain; the first adds 1."""


def one(gold: dict[str, int], ranking: list[str]) -> dict[str, float]:
    return measure({"q": gold}, {"q": ranking})["q"]


def test_of_two_sources_one_found_is_any_and_not_all() -> None:
    told = one({"a": 1, "b": 1}, ["x", "a", "y"])

    assert told["R@1 any"] == told["R@5 all"] == 0
    assert told["R@5 any"] == 1
    assert told["MRR"] == 0.5
    assert told["nDCG@10"] == pytest.approx(SECOND / (1 + SECOND), abs=1e-5)


def test_the_whole_evidence_within_k_is_all() -> None:
    ranking = ["a", *[f"x{n}" for n in range(8)], "b"]
    told = one({"a": 1, "b": 1}, ranking)

    assert told["R@1 all"] == told["R@5 all"] == 0
    assert told["R@10 all"] == told["R@20 all"] == 1
    assert told["nDCG@10"] == pytest.approx((1 + 1 / math.log2(11)) / (1 + SECOND), abs=1e-5)


def test_graded_sources_gain_by_their_grade() -> None:
    told = one({"a": 1, "b": 2}, ["a", "b"])

    assert told["nDCG@10"] == pytest.approx((1 + 2 * SECOND) / (2 + SECOND), abs=1e-5)


def test_what_comes_after_the_tenth_counts_for_twenty_only() -> None:
    told = one({"a": 1}, [*[f"x{n}" for n in range(10)], "a"])

    assert told["R@10 all"] == told["nDCG@10"] == 0
    assert told["R@20 all"] == 1
    assert told["MRR"] == pytest.approx(1 / 11, abs=1e-5)


def test_a_question_without_a_ranking_found_nothing() -> None:
    told = measure({"q": {"a": 1}, "r": {"a": 1}}, {"r": ["a"]})

    assert set(told["q"].values()) == {0.0}
    assert set(told["r"].values()) == {1.0}
    assert list(told["q"]) == list(METRICS)


def test_equal_ranks_cannot_be_reordered_by_the_names_of_sources() -> None:
    names = [f"s{n:02d}" for n in range(20)]

    assert one({"s00": 1}, names[::-1])["MRR"] == pytest.approx(1 / 20)
    assert one({"s00": 1}, names)["MRR"] == 1


def test_an_interval_holds_its_mean_and_is_the_same_for_the_same_seed() -> None:
    values = [1.0] * 30 + [0.0] * 10

    told = figure(values, seed=3)

    assert told.low < told.mean == mean(values) < told.high
    # The normal approximation of a share of 40: 0.75 plus or minus 0.134.
    assert told.low == pytest.approx(0.616, abs=0.03)
    assert told.high == pytest.approx(0.884, abs=0.03)
    assert figure(values, seed=3) == told


def test_rows_are_resampled_alike_and_what_never_differs_has_no_width() -> None:
    row = [1.0, 0.0, 1.0, 1.0, 0.0]
    told = figures(np.array([row, row, [1.0] * 5]), seed=0)

    assert told[0] == told[1]
    assert told[2] == Figure(mean=1, low=1, high=1)
    assert figure([1.0], seed=0) == Figure(mean=1, low=1, high=1)


def test_a_difference_is_beyond_noise_when_its_interval_leaves_out_nought() -> None:
    assert figure([0.2, 0.1, 0.3, 0.2], seed=0).is_beyond_noise
    assert not figure([0.2, -0.2, 0.1, -0.1], seed=0).is_beyond_noise


def test_a_library_that_is_missing_is_told_with_what_brings_it() -> None:
    with pytest.raises(InvalidInputError, match=r"needs no_such_library") as caught:
        needed("no_such_library.inside")
    assert "commonbrain[eval]" in caught.value.hint
