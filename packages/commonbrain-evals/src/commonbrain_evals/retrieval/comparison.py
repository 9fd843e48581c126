"""Two runs held against each other, question by question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from commonbrain.model.errors import InvalidInputError
from commonbrain_evals.measures import Estimate, estimate_mean
from commonbrain_evals.retrieval.record import ALL, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One metric of one category in both runs, over the questions that both asked."""

    category: str
    metric: str
    before: float
    after: float
    difference: Estimate
    is_beyond_noise: bool
    """Whether the 95% interval of the difference leaves out 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What changed from one run to another."""

    system: str
    questions: int
    unshared_questions: int
    """Questions that only one of the two asked."""
    unlike: tuple[str, ...]
    """What else is not the same in both."""
    rows: tuple[Difference, ...]


def compare(before: Run, after: Run, *, system: str) -> Comparison:
    """Compare one system in two runs on the same data.

    Raises:
        InvalidInputError: they have no question in common, or one does not hold the system.

    """
    for run in (before, after):
        if system not in run.values:
            raise InvalidInputError(
                f"There is no system {system[:40]!r} in both.",
                hint=f"Choose of {', '.join(run.values)}.",
            )
    if before.setup.sha256 != after.setup.sha256:
        raise InvalidInputError(
            f"The runs are on different data: {before.setup.source}, {after.setup.source}.",
            hint="Compare runs on the same file.",
        )
    shared = [id_ for id_ in before.categories if id_ in after.categories]
    if not shared:
        raise InvalidInputError(
            "The runs have no question in common.", hint="Give both the same seed."
        )
    groups = {ALL: shared}
    for id_ in shared:
        groups.setdefault(before.categories[id_], [])
        if before.categories[id_] != ALL:
            groups[before.categories[id_]].append(id_)
    pairs = _Pairs(before=before, after=after, system=system)
    return Comparison(
        system=system,
        questions=len(shared),
        unshared_questions=len(set(before.categories) ^ set(after.categories)),
        unlike=tuple(_unlike(before, after)),
        rows=tuple(row for name, ids in groups.items() for row in pairs.rows(name, ids)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """The values of both runs by question."""

    before: Run
    after: Run
    system: str

    def rows(self, category: str, ids: Sequence[str]) -> list[Difference]:
        """Compare every metric that both have."""
        first, second = (run.values[self.system] for run in (self.before, self.after))
        return [self._row(category, ids, metric=metric) for metric in first if metric in second]

    def _row(self, category: str, ids: Sequence[str], *, metric: str) -> Difference:
        one, other = (_by_id(run, self.system)[metric] for run in (self.before, self.after))
        before = np.array([one[id_] for id_ in ids], dtype=np.float64)
        after = np.array([other[id_] for id_ in ids], dtype=np.float64)
        change = estimate_mean(list(after - before), seed=self.before.setup.seed)
        return Difference(
            category=category,
            metric=metric,
            before=round(float(before.mean()), 5),
            after=round(float(after.mean()), 5),
            difference=change,
            is_beyond_noise=change.is_beyond_noise,
        )


def _by_id(run: Run, system: str) -> Mapping[str, Mapping[str, float]]:
    return {
        metric: dict(zip(run.categories, values, strict=True))
        for metric, values in run.values[system].items()
    }


def _unlike(before: Run, after: Run) -> list[str]:
    differences = {
        "version": (before.version, after.version),
        "commit": (before.commit, after.commit),
        "space": (before.setup.space, after.setup.space),
        "settings": (before.setup.settings, after.setup.settings),
        "without": (", ".join(before.setup.without), ", ".join(after.setup.without)),
        "form": (before.setup.form, after.setup.form),
        "seed": (before.setup.seed, after.setup.seed),
        "processor": (before.machine.processor, after.machine.processor),
    }
    return [
        f"{name}: {one} / {other}" for name, (one, other) in differences.items() if one != other
    ]
