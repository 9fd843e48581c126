"""Agreement with labels, and means, each with the interval in which another sample would lie.

Intervals are of 95%, by percentile bootstrap (Efron and Tibshirani 1993), seeded. Two systems are
compared by the differences of the same questions, which leaves out how hard the questions are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
"""One truth value a pair."""
Counts = NDArray[np.int_]
"""One count a resample."""
Values = NDArray[np.float64]
"""`(metrics, questions)`."""

_SEED: Final = 20_000
"""Any fixed number: two runs print the same."""
_RESAMPLES: Final = 2000
"""Enough for stable ends of a 95% interval in the second digit (Efron 1993)."""
_ENDS: Final = (0.025, 0.975)
_AT_ONCE: Final = 250
"""Resamples held in memory together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The agreement of predictions with labels; each figure is 0..1."""

    predicted: int
    """Number of predicted positives."""
    expected: int
    """Number of labelled positives."""
    precision: float
    """1 without predicted positives: then none is wrong."""
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The range of 95 of 100 resamples of the same pairs."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAgreement:
    """An agreement with its intervals; one without an error has none to resample."""

    agreement: Agreement
    precision: Interval
    recall: Interval


def agreement(predicted: Flags, expected: Flags) -> Agreement:
    """Compare predictions with labels."""
    right = int((predicted & expected).sum())
    precision = right / int(predicted.sum()) if predicted.any() else 1.0
    recall = right / int(expected.sum()) if expected.any() else 1.0
    both = precision + recall
    return Agreement(
        predicted=int(predicted.sum()),
        expected=int(expected.sum()),
        precision=round(precision, 4),
        recall=round(recall, 4),
        f1=round(2 * precision * recall / both, 4) if both else 0.0,
    )


def checked(predicted: Flags, expected: Flags) -> CheckedAgreement:
    """Compare, and resample the pairs with replacement to estimate the intervals."""
    random_source = np.random.default_rng(_SEED)
    draws = random_source.integers(0, len(expected), size=(_RESAMPLES, len(expected)))
    right = (predicted & expected)[draws].sum(axis=1)
    return CheckedAgreement(
        agreement=agreement(predicted, expected),
        precision=_interval(right, predicted[draws].sum(axis=1)),
        recall=_interval(right, expected[draws].sum(axis=1)),
    )


def _interval(right: Counts, of: Counts) -> Interval:
    # Without predicted positives none is wrong, as in `agreement`.
    shares = np.where(of, right / np.maximum(of, 1), 1.0)
    low, high = np.quantile(shares, _ENDS)
    return Interval(low=round(float(low), 4), high=round(float(high), 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over questions, with the ends of its 95% interval."""

    mean: float
    low: float
    high: float

    @property
    def is_beyond_noise(self) -> bool:
        """Whether a difference is significant: its interval does not hold 0."""
        return self.low > 0 or self.high < 0


def estimate_means(values: Values, *, seed: int) -> list[Estimate]:
    """Return the mean and the interval of every row."""
    means = values.mean(axis=1)
    if values.shape[1] < 2:  # noqa: PLR2004 one question has no spread
        ends = means, means
    else:
        stats: Any = import_module("scipy.stats")
        figures_list = stats.bootstrap(
            (values,),
            np.mean,
            axis=1,
            n_resamples=_RESAMPLES,
            batch=_AT_ONCE,
            method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
        ends = figures_list.low, figures_list.high
    return [
        Estimate(mean=round(float(mean), 5), low=round(float(low), 5), high=round(float(high), 5))
        for mean, low, high in zip(means, *ends, strict=True)
    ]


def estimate_mean(values: Sequence[float], *, seed: int) -> Estimate:
    """Return the mean and the interval of one row."""
    return estimate_means(np.array([values], dtype=np.float64), seed=seed)[0]
