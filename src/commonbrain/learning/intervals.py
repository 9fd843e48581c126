"""Confidence intervals and significance tests of model evaluations, by scipy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from commonbrain.extras import load_extra
from commonbrain.learning.rollout import Interval, Statistics

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import Matrix

_SEED: Final = 0
"""Every process that compares the same figures gets the same result."""
_RESAMPLES: Final = 2000
"""Bootstrap resamples: its bounds at 99% are stable to a hundredth of their width."""


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

    Raises:
        InvalidInputError: `extra_missing`.

    """
    bounds = (
        load_extra("scipy.stats", extra="learn")
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


class ScipyStatistics:
    """Statistics by scipy."""

    def __init__(self) -> None:
        """Load scipy.

        Raises:
            InvalidInputError: `extra_missing`.

        """
        self._stats = load_extra("scipy.stats", extra="learn")

    def difference(
        self, ones: Sequence[float], others: Sequence[float], *, confidence: float
    ) -> Interval:
        """Return the interval of the difference of means, by the percentile bootstrap."""
        low, high = bootstrap_interval(
            (ones, others),
            _mean_difference,
            resamples=_RESAMPLES,
            seed=_SEED,
            confidence=confidence,
        )
        value = fmean(ones) - fmean(others)
        return Interval(value=value, low=low, high=high)

    def sign_test(self, more: int, fewer: int) -> float:
        """Return the p-value of a one-sided sign test."""
        result = self._stats.binomtest(more, more + fewer, 0.5, alternative="greater")
        return float(result.pvalue)


def _mean_difference(ones: Matrix, others: Matrix, *, axis: int = -1) -> Matrix:
    return ones.mean(axis=axis) - others.mean(axis=axis)


@cache
def make_statistics() -> Statistics:
    """Create the statistics library.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    return ScipyStatistics()
