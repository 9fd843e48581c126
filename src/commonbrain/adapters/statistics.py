"""What scipy says of samples: it comes with the extra `learn`, and loads when figures are held."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING, Final

from commonbrain.adapters.extra import needed
from commonbrain.domain.guards import Interval, Statistics

if TYPE_CHECKING:
    from commonbrain.ports.models import Matrix

_SEED: Final = 0
"""Every process that judges the same figures says the same."""
_DRAWN: Final = 2000
"""Resamples of a bootstrap: its bounds at 99% are steady to a hundredth of their width."""


class Scipy:
    """Statistics by scipy."""

    def __init__(self) -> None:
        """Load it.

        Raises:
            Invalid: `extra_missing`.

        """
        self._stats = needed("scipy.stats", extra="learn")

    def difference(
        self, ones: Sequence[float], others: Sequence[float], *, confidence: float
    ) -> Interval:
        """Say where the mean of ones lies above that of others, by the percentile bootstrap."""
        found = self._stats.bootstrap(
            (ones, others),
            _apart,
            n_resamples=_DRAWN,
            confidence_level=confidence,
            method="percentile",
            vectorized=True,
            rng=_SEED,
        )
        low, high = found.confidence_interval
        value = fmean(ones) - fmean(others)
        return Interval(value=value, low=float(low), high=float(high))

    def chance(self, more: int, fewer: int) -> float:
        """Say how probable it is that so many of them or more are by chance `more`: a sign test."""
        found = self._stats.binomtest(more, more + fewer, 0.5, alternative="greater")
        return float(found.pvalue)


def _apart(ones: Matrix, others: Matrix, axis: int = -1) -> Matrix:
    return ones.mean(axis=axis) - others.mean(axis=axis)


@cache
def make_statistics() -> Statistics:
    """Load what compares samples.

    Raises:
        Invalid: `extra_missing`.

    """
    return Scipy()
