"""Confidence intervals and significance tests of model evaluations, by scipy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import Matrix

_SEED: Final = 0
"""Every process that compares the same figures gets the same result."""
_RESAMPLES: Final = 2000
"""Bootstrap resamples: its bounds at 99% are stable to a hundredth of their width."""


def load_stats() -> Any:  # noqa: ANN401 it has no type annotations
    """Load `scipy.stats`, which takes a second: serving needs none, and most checks end before."""
    return import_module("scipy.stats")


def bootstrap_interval(
    samples: Sequence[Any],
    statistic: Callable[..., Any],
    *,
    resamples: int,
    seed: int,
    confidence: float = 0.95,
    is_paired: bool = False,
) -> tuple[float, float]:
    """Return the confidence interval of a statistic by the percentile bootstrap (Efron 1993).

    Args:
        samples: One array for each argument of the statistic.
        statistic: Vectorized if it has the parameter `axis`.
        resamples: Number of resamples.
        seed: Seed of the resampling; the same seed gives the same interval.
        confidence: Confidence level, 0..1.
        is_paired: Whether the samples are resampled by the same indices.

    """
    bounds = (
        load_stats()
        .bootstrap(
            samples,
            statistic,
            paired=is_paired,
            n_resamples=resamples,
            confidence_level=confidence,
            method="percentile",
            rng=seed,
        )
        .confidence_interval
    )
    return float(bounds.low), float(bounds.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanDifference:
    """A difference and its confidence bounds."""

    value: float
    low: float
    high: float


def difference(
    ones: Sequence[float], others: Sequence[float], *, confidence: float
) -> MeanDifference:
    """Return the interval of the difference of means, by the percentile bootstrap."""
    low, high = bootstrap_interval(
        (ones, others), _mean_difference, resamples=_RESAMPLES, seed=_SEED, confidence=confidence
    )
    return MeanDifference(value=fmean(ones) - fmean(others), low=low, high=high)


def sign_test(more: int, fewer: int) -> float:
    """Return the probability of at least `more` of all pairs by chance."""
    return float(load_stats().binomtest(more, more + fewer, 0.5, alternative="greater").pvalue)


def _mean_difference(ones: Matrix, others: Matrix, *, axis: int = -1) -> Matrix:
    return ones.mean(axis=axis) - others.mean(axis=axis)
