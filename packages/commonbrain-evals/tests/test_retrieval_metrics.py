import math
from statistics import mean

import numpy as np
import pytest
from commonbrain_evals.measures import Estimate, estimate_mean, estimate_means
from commonbrain_evals.retrieval.metrics import METRICS, measure

SECOND = 1 / math.log2(3)
"""What a hit on the second rank adds to a discounted gain; the first adds 1."""


def one(gold: dict[str, int], ranking: list[str]) -> dict[str, float]:
    return measure({"q": gold}, {"q": ranking})["q"]


def test_one_of_two_sources_counts_for_the_any_metrics_but_not_for_the_all_metrics() -> None:
    measured = one({"a": 1, "b": 1}, ["x", "a", "y"])

    assert measured["R@1 any"] == measured["R@5 all"] == 0
    assert measured["R@5 any"] == 1
    assert measured["MRR"] == 0.5
    assert measured["nDCG@10"] == pytest.approx(SECOND / (1 + SECOND), abs=1e-5)


def test_all_evidence_within_rank_k_counts_for_the_all_metrics() -> None:
    ranking = ["a", *[f"x{n}" for n in range(8)], "b"]
    measured = one({"a": 1, "b": 1}, ranking)

    assert measured["R@1 all"] == measured["R@5 all"] == 0
    assert measured["R@10 all"] == measured["R@20 all"] == 1
    assert measured["nDCG@10"] == pytest.approx((1 + 1 / math.log2(11)) / (1 + SECOND), abs=1e-5)


def test_ndcg_weights_sources_by_their_grade() -> None:
    measured = one({"a": 1, "b": 2}, ["a", "b"])

    assert measured["nDCG@10"] == pytest.approx((1 + 2 * SECOND) / (2 + SECOND), abs=1e-5)


def test_result_at_rank_eleven_counts_at_20_but_not_at_10() -> None:
    measured = one({"a": 1}, [*[f"x{n}" for n in range(10)], "a"])

    assert measured["R@10 all"] == measured["nDCG@10"] == 0
    assert measured["R@20 all"] == 1
    assert measured["MRR"] == pytest.approx(1 / 11, abs=1e-5)


def test_question_without_a_ranking_scores_zero() -> None:
    measured = measure({"q": {"a": 1}, "r": {"a": 1}}, {"r": ["a"]})

    assert set(measured["q"].values()) == {0.0}
    assert set(measured["r"].values()) == {1.0}
    assert list(measured["q"]) == list(METRICS)


def test_names_of_sources_do_not_change_the_order_of_a_ranking() -> None:
    names = [f"s{n:02d}" for n in range(20)]

    assert one({"s00": 1}, names[::-1])["MRR"] == pytest.approx(1 / 20)
    assert one({"s00": 1}, names)["MRR"] == 1


def test_interval_contains_its_mean_and_is_the_same_for_the_same_seed() -> None:
    values = [1.0] * 30 + [0.0] * 10

    measured = estimate_mean(values, seed=3)

    assert measured.low < measured.mean == mean(values) < measured.high
    # The normal approximation of a share of 40: 0.75 plus or minus 0.134.
    assert measured.low == pytest.approx(0.616, abs=0.03)
    assert measured.high == pytest.approx(0.884, abs=0.03)
    assert estimate_mean(values, seed=3) == measured


def test_constant_metric_has_an_interval_of_zero_width() -> None:
    row = [1.0, 0.0, 1.0, 1.0, 0.0]
    measured = estimate_means(np.array([row, row, [1.0] * 5]), seed=0)

    assert measured[0] == measured[1]
    assert measured[2] == Estimate(mean=1, low=1, high=1)
    assert estimate_mean([1.0], seed=0) == Estimate(mean=1, low=1, high=1)


def test_difference_is_beyond_noise_when_its_interval_excludes_zero() -> None:
    assert estimate_mean([0.2, 0.1, 0.3, 0.2], seed=0).is_beyond_noise
    assert not estimate_mean([0.2, -0.2, 0.1, -0.1], seed=0).is_beyond_noise
