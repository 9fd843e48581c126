"""A mean, and between which bounds it would lie on another sample of such questions.

Percentile bootstrap over questions (Efron and Tibshirani 1993), seeded; two systems are compared
by the differences of the same questions, which leaves out how hard the questions are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_RESAMPLES: Final = 2000
"""Enough for the ends of a 95% interval to stand still in the second digit (Efron 1993)."""
_AT_ONCE: Final = 250
"""Resamples held in memory together."""

Values = NDArray[np.float64]
"""`(metrics, questions)`."""


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
    """Give the mean and the interval of every row."""
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
    """Give the mean and the interval of one row."""
    return estimate_means(np.array([values], dtype=np.float64), seed=seed)[0]
