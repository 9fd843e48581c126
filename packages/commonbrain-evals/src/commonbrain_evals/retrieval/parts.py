"""Which parts of recall help: what leaving each out changes, on all data sets together.

Of each data set one measure decides, named here before anything is measured. A part is tried on
every one of them, so that p-values are corrected for the number of tries (Holm 1979).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from commonbrain.model.errors import InvalidInputError
from commonbrain_evals.retrieval.intervals import Estimate, estimate_mean
from commonbrain_evals.retrieval.record import ALL, Run

PRIMARY: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "locomo": (("R@10 all", ALL), ("R@10 all", "multi-hop")),
    "beam": (("R@10 all", ALL),),
    "beir": (("nDCG@10", ALL),),
    "longmemeval": (("R@10 all", ALL),),
    "own": (("R@1 any", ALL),),
    "workdays": (("R@1 any", ALL),),
}
"""Metric and category that decide, by data set. Of StateBench `current_first` does."""
SIGNIFICANT: Final = 0.05
_RESAMPLES: Final = 100_000
"""The smallest p-value is 2e-5, which is significant among up to 2,500 tries."""
_AT_ONCE: Final = 5_000
"""Resamples held in memory together."""


class Worth(StrEnum):
    """What a part is worth."""

    HELPS = "helps"
    """Without it a data set is significantly worse, and none significantly better."""
    HURTS = "hurts"
    """Without it a data set is significantly better."""
    NOTHING = "nothing seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One part left out on one data set, measured by one metric."""

    part: str
    measure: str
    """Data set, metric and category."""
    difference: Estimate
    changed: int
    """Questions whose value changes."""
    p: float
    adjusted: float
    """The p-value corrected for all trials."""

    @property
    def is_significant(self) -> bool:
        """Whether the corrected p-value is below the level."""
        return self.adjusted < SIGNIFICANT


Differences = Mapping[tuple[str, str], Sequence[float]]
"""By part and measure: without the part less with it, one number a question."""


def judge(differences: Differences, *, seed: int = 0) -> tuple[Trial, ...]:
    """Test every part on every measure, and correct for the number of tries.

    What changes no question is no try: whatever the correction, it is not significant.
    """
    changed = {key: sum(map(bool, values)) for key, values in differences.items()}
    p_values = {key: p_value(values, seed=seed) for key, values in differences.items()}
    tried = [key for key in differences if changed[key]]
    corrected = dict(zip(tried, holm([p_values[key] for key in tried]), strict=True))
    return tuple(
        Trial(
            part=part,
            measure=measure,
            difference=estimate_mean(values, seed=seed),
            changed=changed[part, measure],
            p=p_values[part, measure],
            adjusted=corrected.get((part, measure), 1.0),
        )
        for (part, measure), values in differences.items()
    )


def p_value(differences: Sequence[float], *, seed: int) -> float:
    """Give the two-sided p-value of a mean other than 0: paired bootstrap over questions.

    Twice the share of resamples whose mean is 0 or on the other side, counting the sample itself
    as one (Davison and Hinkley 1997, 4.2), at most 1.
    """
    values, counts = np.unique(np.array(differences, dtype=np.float64), return_counts=True)
    random = np.random.default_rng(seed)
    above = below = 0
    for _ in range(_RESAMPLES // _AT_ONCE):
        # A resample of the questions is a draw of how often each distinct difference occurs.
        drawn = random.multinomial(counts.sum(), counts / counts.sum(), size=_AT_ONCE)
        sums = (drawn @ values).round(6)
        above += int((sums >= 0).sum())
        below += int((sums <= 0).sum())
    return min(1.0, 2 * (min(above, below) + 1) / (_RESAMPLES + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number, in their order; none becomes smaller (Holm 1979)."""
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, p_values[place] * (len(p_values) - rank)))
        corrected[place] = highest
    return corrected


def worth(trials: Sequence[Trial]) -> Worth:
    """Say what a part is worth by its trials on all measures."""
    significant = [one.difference.mean for one in trials if one.is_significant]
    if any(mean > 0 for mean in significant):
        return Worth.HURTS
    return Worth.HELPS if significant else Worth.NOTHING


def differences_of(runs: Sequence[Run]) -> Differences:
    """Read the differences of the measures that decide.

    Raises:
        InvalidInputError: no run left out each part.

    """
    differences = {key: values for run in runs for key, values in _of_run(run)}
    if not differences:
        raise InvalidInputError(
            "No record tells what parts are worth.", hint="Run it with --ablate."
        )
    return differences


def _of_run(run: Run) -> Iterator[tuple[tuple[str, str], Sequence[float]]]:
    dataset = run.setup.dataset
    for metric, category in PRIMARY.get(dataset, (("R@10 all", ALL),)):
        places = [
            place for place, name in enumerate(run.categories.values()) if category in {ALL, name}
        ]
        measure = " ".join((dataset, metric, *([] if category == ALL else [category])))
        for part, by_metric in run.left_out.items():
            if places and metric in by_metric:
                yield (part, measure), [by_metric[metric][place] for place in places]
