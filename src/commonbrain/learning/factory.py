"""Creates trainers and statistics, or reports that the extra `learn` is missing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING, Final

from commonbrain.extras import load_extra
from commonbrain.learning.interface import SalienceTrainer, Trainer
from commonbrain.learning.rollout import Interval, Statistics

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import Matrix


def make_trainer() -> Trainer:
    """Create the trainer of rerankers.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    for library in ("lightgbm", "pytrec_eval", "scipy.stats"):
        load_extra(library, extra="learn")
    from commonbrain.learning.boosting import BoostingTrainer  # noqa: PLC0415

    return BoostingTrainer()


def make_salience_trainer() -> SalienceTrainer:
    """Create the trainer of salience models.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    for library in ("lightgbm", "scipy.stats"):
        load_extra(library, extra="learn")
    from commonbrain.learning.salience_model import SalienceBoosting  # noqa: PLC0415

    return SalienceBoosting()


_SEED: Final = 0
"""Every process that compares the same figures gets the same result."""
_RESAMPLES: Final = 2000
"""Bootstrap resamples: its bounds at 99% are stable to a hundredth of their width."""


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
        result = self._stats.bootstrap(
            (ones, others),
            _mean_difference,
            n_resamples=_RESAMPLES,
            confidence_level=confidence,
            method="percentile",
            vectorized=True,
            rng=_SEED,
        )
        low, high = result.confidence_interval
        value = fmean(ones) - fmean(others)
        return Interval(value=value, low=float(low), high=float(high))

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
