"""Figures of self-evaluations: means with their intervals, and what changed between two results."""

from collections.abc import Sequence
from math import hypot, log2, sqrt
from statistics import fmean, stdev
from typing import Final

from commonbrain.model.values import dataclass
from commonbrain.storage.repositories.learning import Figure, StoredEvaluation

DEPTH: Final = 10
"""Number of top results that count."""
_Z: Final = 1.96
"""Standard deviations of a 95% interval of a normal distribution."""
_DIGITS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """The change of one figure between two evaluations."""

    name: str
    before: float
    after: float
    is_beyond_noise: bool
    """Whether the change is larger than sampling noise."""

    @property
    def is_worse(self) -> bool:
        """Whether the figure fell beyond noise; higher is better for every figure."""
        return self.is_beyond_noise and self.after < self.before


def figure(values: Sequence[float]) -> Figure:
    """Compute the mean and its interval; for shares Wilson's (1927), valid near 0 and 1 too."""
    count = len(values)
    if not count:
        return Figure(mean=0.0, low=0.0, high=1.0, count=0)
    mean = fmean(values)
    if all(value in {0, 1} for value in values):
        middle, half = _wilson(mean, count)
    else:
        middle, half = mean, _Z * stdev(values) / sqrt(count) if count > 1 else 1.0
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Figure(
        mean=round(mean, _DIGITS), low=round(low, _DIGITS), high=round(high, _DIGITS), count=count
    )


def _wilson(share: float, count: int) -> tuple[float, float]:
    """Return the centre and half the width of the score interval of a share."""
    square = _Z * _Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    inner = share * (1 - share) / count + square / (4 * count * count)
    return middle, _Z * sqrt(inner) / (1 + square / count)


def gain(ranks: Sequence[int], *, of: int) -> float:
    """Compute nDCG at `DEPTH` from the ranks, from 1, of relevant results; `of` exist."""
    best = sum(1 / log2(rank + 1) for rank in range(1, min(of, DEPTH) + 1))
    return sum(1 / log2(rank + 1) for rank in ranks if rank <= DEPTH) / best


def compare_figures(before: StoredEvaluation, after: StoredEvaluation) -> list[FigureChange]:
    """Compare the common figures; the variances of a difference add up."""
    return [
        FigureChange(
            name=name,
            before=known.mean,
            after=now.mean,
            is_beyond_noise=abs(now.mean - known.mean) > hypot(known.spread, now.spread),
        )
        for name, now in after.figures.items()
        if (known := before.figures.get(name)) is not None and known.count and now.count
    ]


def compare_setups(
    before: StoredEvaluation, after: StoredEvaluation
) -> dict[str, tuple[object, object]]:
    """Map each differing setup entry to its earlier and later value."""
    names = dict.fromkeys([*before.setup, *after.setup])
    pairs = {name: (before.setup.get(name), after.setup.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
