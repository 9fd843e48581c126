"""Recall without one of its parts: which parts there are, and whether each helps.

Every part costs one more recall for a question, so nothing is asked whose answer is known: a
feature that no candidate has adds nothing to any score, and without it the ranking is the same.

One measure decides for each data set, named here before anything is measured. A part is tried on
every one of them, so that p-values are corrected for the number of tries (Holm 1979).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import numpy as np

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Matrix
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.query import Candidate, RecallTrace
from commonbrain.retrieval.plan import ABLATABLE_STAGES
from commonbrain.retrieval.retrieve import RETRIEVERS
from commonbrain.retrieval.score import FEATURE_WEIGHTS
from commonbrain.retrieval.write_behind import WriteBehindQueue
from commonbrain.services import Services
from commonbrain_evals.measures import Estimate, estimate_mean
from commonbrain_evals.retrieval.record import ALL, Run

_ESSENTIAL: Final = frozenset({"recent", "fused"})
"""Without the one there is no browsing, without the other no relevance: nothing to learn."""
PARTS: Final = tuple(
    name
    for name in dict.fromkeys((*RETRIEVERS, *FEATURE_WEIGHTS, *ABLATABLE_STAGES))
    if name not in _ESSENTIAL and FEATURE_WEIGHTS.get(name) != 0
)
"""Every part of recall that can be left out: retrievers, features, stages."""
GROUPS: Final = tuple(
    "+".join(names)
    for names in (
        ("strength", "trust", "rating", "recency"),
        ("claims", "together", "newer_first"),
        ("contradicted", "needs_review"),
        ("linked", "links"),
        ("thread", "passages"),
        ("names", "speaker"),
        ("date", "dated", "time", "time_alone"),
        ("substance", "asking", "assistant"),
    )
)
"""Parts that serve one purpose, left out together: one may replace another."""
_FEATURES: Final = frozenset(FEATURE_WEIGHTS) - {*RETRIEVERS, *ABLATABLE_STAGES}
"""Those that do nothing but weigh."""


def parts_of(name: str) -> frozenset[str]:
    """Return the parts that a name of `PARTS` or `GROUPS` means."""
    return frozenset(name.split("+"))


class _CapturingQueue(WriteBehindQueue):
    """Keeps what the last recall considered, and writes no trace of it."""

    def __init__(self, services: Services) -> None:
        super().__init__(services.store, services.secret_scanner, clock=services.clock)
        self.considered: Sequence[Candidate] = ()

    def record(self, trace: RecallTrace) -> None:
        """Keep what was considered."""
        self.considered = trace.considered


@dataclass(frozen=True, slots=True)
class _CachingEmbedder:
    """Embeds a question once, however often it is asked."""

    embedder: Embedder
    cache: dict[str, Matrix] = field(default_factory=dict[str, Matrix])

    @property
    def space(self) -> EmbeddingSpace:
        return self.embedder.space

    def query(self, text: str) -> Matrix:
        if text not in self.cache:
            self.cache[text] = self.embedder.query(text)
        return self.cache[text]

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        return self.embedder.passages(texts)


@dataclass(frozen=True, slots=True)
class Ablation:
    """One question that is asked again and again, each time without another part."""

    brain: Brain
    """What is to be asked."""
    journal: _CapturingQueue

    @classmethod
    def of(cls, brain: Brain) -> "Ablation":
        """Take a brain aside, so that nothing of this is written."""
        journal = _CapturingQueue(brain.services)
        embedder = _CachingEmbedder(brain.services.embedder)
        services = replace(brain.services, journal=journal, embedder=embedder)
        return cls(Brain(services, brain.caller), journal)

    def idle(self) -> frozenset[str]:
        """Name the features that nothing of what was last considered has."""
        return frozenset(
            name
            for name in _FEATURES
            if not any(one.features.get(name) for one in self.journal.considered)
        )


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
    """Return the two-sided p-value of a mean other than 0: paired bootstrap over questions.

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
    significant = [trial.difference.mean for trial in trials if trial.is_significant]
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
