"""Rerankers that are boosted: the same lessons give the same bytes, and none turns trust round."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from random import Random
from typing import Final

import numpy as np
import pytest
from commonbrain_learn.boosting import Fitted, compare_orders, fit_reranker, load_reranker
from commonbrain_learn.outcomes import ShownMemory, TrainingExample
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.limits import MODEL_BYTES_MAX
from commonbrain.testing.builders import NOON

BASE: Final = {"fused": 1.0, "trust": 0.05}
UNIT: Final = st.floats(0, 1, width=32)


def lessons(count: int = 48, *, seed: int = 1) -> list[TrainingExample]:
    """Make recalls in which what replies is what helps, and the trusted misleads."""
    random_source = Random(seed)  # noqa: S311 it is meant to be foreseen
    return [
        TrainingExample(
            trace_id=number,
            asked_at=NOON + number * timedelta(minutes=1),
            group=f"s{number // 2}",
            shown=tuple(
                ShownMemory(
                    memory_id=place,
                    features={
                        "fused": random_source.random(),
                        "replies": float(place == number % 6),
                        "trust": float(place != number % 6),
                    },
                    grade=3 if place == number % 6 else 1,
                )
                for place in range(6)
            ),
        )
        for number in range(count)
    ]


@cache
def fitted() -> Fitted:
    return fit_reranker(lessons(), base=BASE, seed=0, tenant="tea")


def scored(features: Sequence[Mapping[str, float]]) -> list[float]:
    model = load_reranker(fitted().artifact)
    rows = [[one.get(name, 0.0) for name in model.features] for one in features]
    return model.scores(np.array(rows, dtype=np.float32)).tolist()


@pytest.mark.requirement("JB-02")
def test_trained_model_ranks_helpful_memories_first_and_is_deterministic() -> None:
    first, second = scored([{"fused": 0.6, "replies": 1.0}, {"fused": 0.8}])
    assert first > second
    assert fit_reranker(lessons(), base=BASE, seed=0, tenant="tea").artifact == fitted().artifact
    other = fit_reranker(lessons(), base=BASE, seed=0, tenant="coffee")
    assert other.artifact != fitted().artifact
    assert fitted().told["importances"] == {"replies": 1.0}


@given(UNIT, UNIT, UNIT, UNIT)
def test_trained_model_never_ranks_lower_trust_above_higher_trust(
    fused: float, replies: float, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    known = {"fused": fused, "replies": replies}
    less, more = scored([{**known, "trust": low}, {**known, "trust": high}])
    assert less <= more


def artifact(**changed: object) -> bytes:
    return json.dumps({**json.loads(fitted().artifact), **changed}).encode()


def test_invalid_model_artifact_is_refused(subtests: pytest.Subtests) -> None:
    for content in [
        b"",
        b"{}",
        b"\x80\x04pickled",
        fitted().artifact[:-20],
        artifact(format=2),
        artifact(role="salience"),
        artifact(features=["fused", "replies", "other"]),
        artifact(booster="tree"),
        artifact(scale="10 times"),
        b" " * (MODEL_BYTES_MAX + 1),
    ]:
        with subtests.test(content=content):
            with pytest.raises(StoreCorruptError) as caught:
                load_reranker(content)
            assert caught.value.code == "model_corrupt"


def test_two_rankings_are_compared_by_used_memories_per_session() -> None:
    taught = lessons(8)
    worst = [np.array([-float(one.grade) for one in of.shown]) for of in taught]
    best = [np.array([float(one.grade) for one in of.shown]) for of in taught]
    margins = compare_orders(taught, before=worst, after=best, seed=0)
    assert (margins["MRR"].before, margins["MRR"].after) == (round(1 / 6, 5), 1.0)
    assert (margins["R@5"].before, margins["R@5"].after) == (0.0, 1.0)
    assert margins["nDCG@10"].low == margins["nDCG@10"].high > 0.6
    same = compare_orders(taught, before=best, after=best, seed=0)
    assert (same["nDCG@10"].low, same["nDCG@10"].high) == (0.0, 0.0)


def test_comparison_of_a_single_session_has_the_widest_interval() -> None:
    taught = lessons(2)
    grades = [np.array([float(one.grade) for one in of.shown]) for of in taught]
    margin = compare_orders(taught, before=grades, after=grades, seed=0)["nDCG@10"]
    assert (margin.low, margin.high) == (-1.0, 1.0)
