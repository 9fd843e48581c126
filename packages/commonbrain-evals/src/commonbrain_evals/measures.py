"""Precision, recall and F1 of a yes or no, and how far another sample might move them."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
"""One truth value a pair."""
Counts = NDArray[np.int_]
"""One count a resample."""

_SEED: Final = 20_000
"""Any fixed number: two runs print the same."""
_RESAMPLES: Final = 2000
"""Enough for the ends of a 95% interval to stand still in the second digit (Efron 1993)."""
_ENDS: Final = (0.025, 0.975)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How what was said agrees with what is so; each 0..1."""

    predicted: int
    """How often yes was said."""
    expected: int
    """How often it was so."""
    precision: float
    """1 when nothing was said: then nothing was wrong."""
    recall: float
    f1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Where 95 of 100 resamples of the same pairs lie."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAgreement:
    """An agreement with its intervals; one without an error has none to resample."""

    agreement: Agreement
    precision: Interval
    recall: Interval


def agreement(predicted: Flags, expected: Flags) -> Agreement:
    """Compare what was said with what is so."""
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
    """Compare, and resample the pairs with replacement to see how sure the figures are."""
    random_source = np.random.default_rng(_SEED)
    draws = random_source.integers(0, len(expected), size=(_RESAMPLES, len(expected)))
    right = (predicted & expected)[draws].sum(axis=1)
    return CheckedAgreement(
        agreement=agreement(predicted, expected),
        precision=_interval(right, predicted[draws].sum(axis=1)),
        recall=_interval(right, expected[draws].sum(axis=1)),
    )


def _interval(right: Counts, of: Counts) -> Interval:
    # Where nothing was said nothing was wrong, as in `agreement`.
    shares = np.where(of, right / np.maximum(of, 1), 1.0)
    low, high = np.quantile(shares, _ENDS)
    return Interval(low=round(float(low), 4), high=round(float(high), 4))
