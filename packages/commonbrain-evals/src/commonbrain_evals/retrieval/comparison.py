"""Two runs, compared question by question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from commonbrain.model.errors import InvalidInputError
from commonbrain_evals.measures import Estimate, estimate_mean
from commonbrain_evals.retrieval.record import ALL, Run

ValuesByQuestion = Mapping[str, Mapping[str, float]]
"""By the id of a question, the value of each metric."""


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
    first, second = (_by_question(run, system) for run in (before, after))
    return Comparison(
        system=system,
        questions=len(shared),
        unshared_questions=len(set(before.categories) ^ set(after.categories)),
        unlike=tuple(_unlike(before, after)),
        rows=compare_values(
            {id_: before.categories[id_] for id_ in shared},
            before=first,
            after=second,
            metrics=[metric for metric in before.values[system] if metric in after.values[system]],
            seed=before.setup.seed,
        ),
    )


def compare_values(
    categories: Mapping[str, str],
    *,
    before: ValuesByQuestion,
    after: ValuesByQuestion,
    metrics: Sequence[str],
    seed: int,
) -> tuple[Difference, ...]:
    """Compare metrics over all questions, and over those of each category.

    `categories` has the category of each question by its id, which is also in `before` and `after`.
    """
    groups = {ALL: list(categories)}
    for id_, category in categories.items():
        if category != ALL:
            groups.setdefault(category, []).append(id_)
    return tuple(
        _difference(
            category,
            metric,
            before=[before[id_][metric] for id_ in ids],
            after=[after[id_][metric] for id_ in ids],
            seed=seed,
        )
        for category, ids in groups.items()
        for metric in metrics
    )


def _difference(
    category: str, metric: str, *, before: Sequence[float], after: Sequence[float], seed: int
) -> Difference:
    change = estimate_mean([new - old for old, new in zip(before, after, strict=True)], seed=seed)
    return Difference(
        category=category,
        metric=metric,
        before=round(fmean(before), 5),
        after=round(fmean(after), 5),
        difference=change,
        is_beyond_noise=change.is_beyond_noise,
    )


def _by_question(run: Run, system: str) -> ValuesByQuestion:
    rows = zip(*run.values[system].values(), strict=True)
    metrics = tuple(run.values[system])
    return {
        id_: dict(zip(metrics, row, strict=True))
        for id_, row in zip(run.categories, rows, strict=True)
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
