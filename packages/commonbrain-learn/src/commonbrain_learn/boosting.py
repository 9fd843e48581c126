"""Rerankers that LightGBM boosts from a weighted sum of features, and their evaluation.

A model learns a correction (LambdaMART; Burges 2010, MSR-TR-2010-82) of a sound order: with little
feedback it grows few trees, which change little. An artifact is JSON with LightGBM's text format:
loading it never executes code.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Final, Literal

import lightgbm
import numpy as np
import pytrec_eval
from pydantic import TypeAdapter, ValidationError

from commonbrain.embeddings.interface import Matrix
from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.limits import FEATURES_MAX, MODEL_BYTES_MAX
from commonbrain_learn.intervals import bootstrap_interval
from commonbrain_learn.outcomes import GOOD_FROM, TrainingExample

_METRICS: Final = {"nDCG@10": "ndcg_cut_10", "MRR": "recip_rank", "R@5": "recall_5"}
"""Reported name to trec_eval's name; R@5 is the share of the marked memories."""
_ASKED: Final = {"ndcg_cut.10", "recip_rank", "recall.5"}
_RESAMPLES: Final = 2000
"""Enough for the bounds of a 95% interval to be stable in the second digit (Efron 1993)."""
_SESSIONS_MIN: Final = 2
"""One session has no variance: the difference of values in 0..1 may be anything in -1..1."""

_ByMetric = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A reranker as bytes, with a description of its training."""

    artifact: bytes
    told: Mapping[str, object]
    """Library and version, candidates, choice and importances, as plain JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityMargin:
    """A metric before and after, and the 95% interval of the difference."""

    before: float
    after: float
    low: float
    high: float


def compare_orders(
    lessons: Sequence[TrainingExample],
    *,
    before: Sequence[Matrix],
    after: Sequence[Matrix],
    seed: int,
) -> Mapping[str, QualityMargin]:
    """Compare two rankings of the same examples, session by session.

    Args:
        lessons: Held-out examples.
        before: Scores of each example's candidates by the first ranking, shape `(candidates,)`.
        after: The same by the second.
        seed: Seed of the bootstrap over sessions.

    Returns:
        Each metric before and after, with the interval of the difference over sessions.

    """
    first, second = (_measured(lessons, scores) for scores in (before, after))
    pairs = [
        (lesson.group, first[key], second[key])
        for lesson in lessons
        if (key := _key(lesson)) in first
    ]
    return {name: _margin(pairs, metric=key, seed=seed) for name, key in _METRICS.items()}


def _key(lesson: TrainingExample) -> str:
    return str(lesson.trace_id)


def _measured(
    lessons: Sequence[TrainingExample], scores: Sequence[Matrix]
) -> Mapping[str, _ByMetric]:
    gold: dict[str, dict[str, int]] = {}
    ranked: dict[str, dict[str, float]] = {}
    for lesson, given in zip(lessons, scores, strict=True):
        if lesson.has_good:
            # trec_eval requires names, and grades above 0 for relevant documents.
            each = list(zip(lesson.shown, given.tolist(), strict=True))
            gold[_key(lesson)] = {
                str(one.memory_id): max(0, one.grade + 1 - GOOD_FROM) for one, _ in each
            }
            ranked[_key(lesson)] = {str(one.memory_id): score for one, score in each}
    judged: Mapping[str, _ByMetric] = pytrec_eval.RelevanceEvaluator(gold, _ASKED).evaluate(ranked)
    return judged


def _margin(
    pairs: Sequence[tuple[str, _ByMetric, _ByMetric]], *, metric: str, seed: int
) -> QualityMargin:
    if not pairs:
        return QualityMargin(before=0.0, after=0.0, low=0.0, high=0.0)
    sums: defaultdict[str, float] = defaultdict(float)
    counts: defaultdict[str, int] = defaultdict(int)
    for group, first, second in pairs:
        sums[group] += second[metric] - first[metric]
        counts[group] += 1
    low, high = _interval(list(sums.values()), list(counts.values()), seed=seed)
    return QualityMargin(
        before=round(float(np.mean([first[metric] for _, first, _ in pairs])), 5),
        after=round(float(np.mean([second[metric] for _, _, second in pairs])), 5),
        low=round(low, 5),
        high=round(high, 5),
    )


def _interval(sums: Sequence[float], counts: Sequence[int], *, seed: int) -> tuple[float, float]:
    """Return the 95% interval of a mean over recalls, resampled by session."""
    if len(sums) < _SESSIONS_MIN:
        return -1.0, 1.0

    def mean(of: Any, over: Any, *, axis: int) -> Any:  # noqa: ANN401 arrays
        return of.sum(axis=axis) / over.sum(axis=axis)

    return bootstrap_interval(
        (np.array(sums), np.array(counts)),
        mean,
        resamples=_RESAMPLES,
        seed=seed,
        is_paired=True,
    )


_LIGHTGBM: Final[Any] = lightgbm
"""It has no type annotations."""
_FORMAT: Final = 1
_SCALES: Final = (10.0, 20.0)
"""Scales of the weighted sum as LambdaMART's initial score, whose unit is logistic."""
_LEAVES: Final = (4, 8)
_TREES_MAX: Final = 100
_FOLDS: Final = 3
_FIXED: Final[Mapping[str, Any]] = {
    "objective": "lambdarank",
    "metric": "ndcg",
    "eval_at": [10],
    # At least 20 memories per leaf and strong regularization.
    "min_data_in_leaf": 20,
    "lambda_l2": 10.0,
    "learning_rate": 0.1,
    "lambdarank_truncation_level": 12,
    # Deterministic: the same examples give the same bytes.
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
_NEVER_AGAINST: Final[Mapping[str, int]] = {
    "trust": 1,
    "confidence": 1,
    "contradicted": -1,
    "needs_review": -1,
}
"""Monotonic features.

Of two candidates that differ only here, training cannot reverse the order.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RerankerArtifact:
    """Contents of an artifact."""

    format: Literal[1]
    role: Literal["reranker"]
    tenant: str = ""
    """Keeps the artifacts of two tenants distinct when their examples are equal."""
    features: tuple[str, ...]
    base: Mapping[str, float]
    scale: float
    booster: str


_ENVELOPES: Final = TypeAdapter(_RerankerArtifact)


class BoostedReranker:
    """A weighted sum corrected by trees."""

    def __init__(self, envelope: _RerankerArtifact, booster: Any) -> None:  # noqa: ANN401 its library has no types
        self._features = envelope.features
        self._weights = _weights(envelope.features, envelope.base) * envelope.scale
        self._booster: Any = booster

    @property
    def features(self) -> tuple[str, ...]:
        """The columns of `rows`."""
        return self._features

    def scores(self, rows: Matrix) -> Matrix:
        """Score candidates in one thread."""
        exact = np.asarray(rows, dtype=np.float64)
        learnt = self._booster.predict(exact, raw_score=True, num_threads=1)
        return (exact @ self._weights + learnt).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hyperparameters:
    """Hyperparameters: scale and size of the trees."""

    scale: float
    leaves: int
    trees: int = _TREES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Training examples in LightGBM's layout."""

    features: tuple[str, ...]
    rows: Any
    grades: Any
    base: Any
    sizes: Any
    """Number of rows of each example, in order."""

    def data(self, lessons: Any, scale: float) -> Any:  # noqa: ANN401 no types
        """Return some of the examples, with the weighted sum as initial score."""
        taken = np.repeat(lessons, self.sizes)
        return _LIGHTGBM.Dataset(
            self.rows[taken],
            self.grades[taken],
            group=self.sizes[lessons],
            init_score=self.base[taken] * scale,
            feature_name=list(self.features),
        )


def fit_reranker(
    lessons: Sequence[TrainingExample],
    *,
    base: Mapping[str, float],
    seed: int,
    tenant: str,
) -> Fitted:
    """Train a correction of a weighted sum of features, so that marked memories rank first.

    Hyperparameters are chosen by three folds of sessions. The same examples, seed and tenant give
    the same bytes, and two tenants never get the same.

    Args:
        lessons: Oldest first.
        base: Weights by feature, which rank candidates without a model.
        seed: Seed of all randomness.
        tenant: Owner; stored in the artifact, so that no two tenants share one.

    """
    table = _table(lessons, base)
    folds = _folds(lessons)
    tried = [_tried(table, folds, choice=one, seed=seed) for one in _choices()]
    # Ties go to the smallest correction.
    gain, chosen = max(tried, key=lambda one: one[0])
    everything = np.ones(len(lessons), dtype=bool)
    booster: Any = _LIGHTGBM.train(
        _parameters(table, chosen, seed=seed),
        table.data(everything, chosen.scale),
        chosen.trees,
    )
    envelope = {
        "format": _FORMAT,
        "role": "reranker",
        "tenant": tenant,
        "features": table.features,
        "base": dict(sorted(base.items())),
        "scale": chosen.scale,
        "booster": booster.model_to_string(),
    }
    return Fitted(
        artifact=json.dumps(envelope, ensure_ascii=True, separators=(",", ":")).encode(),
        told={
            "library": f"lightgbm {_LIGHTGBM.__version__}",
            "seed": seed,
            "chosen": asdict(chosen),
            "gain_in_folds": round(gain, 5),
            "importances": _importances(table.features, booster),
        },
    )


def load_reranker(artifact: bytes) -> BoostedReranker:
    """Load a reranker and check the features of its trees; it never executes code.

    Raises:
        StoreCorruptError: `model_corrupt`: the artifact is invalid or of another format.

    """
    if len(artifact) > MODEL_BYTES_MAX:
        raise _corrupt(f"It has {len(artifact):,} bytes; {MODEL_BYTES_MAX:,} are allowed.")
    try:
        envelope = _ENVELOPES.validate_json(artifact)
        booster = _LIGHTGBM.Booster(model_str=envelope.booster)
    except (ValidationError, _LIGHTGBM.basic.LightGBMError) as error:
        raise _corrupt("It is no reranker of this format.") from error
    if tuple(booster.feature_name()) != envelope.features:
        raise _corrupt("Its trees ask for other features than it names.")
    return BoostedReranker(envelope, booster)


def _corrupt(why: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"A model cannot be read. {why}",
        code="model_corrupt",
        hint="Train another; fixed weights serve meanwhile.",
    )


def _choices() -> Iterator[_Hyperparameters]:
    for leaves, scale in product(_LEAVES, sorted(_SCALES, reverse=True)):
        yield _Hyperparameters(scale=scale, leaves=leaves)


def _table(lessons: Sequence[TrainingExample], base: Mapping[str, float]) -> _Table:
    seen = {name for lesson in lessons for one in lesson.shown for name in one.features}
    features = tuple(sorted({*base, *sorted(seen - set(base))[: FEATURES_MAX - len(base)]}))
    shown = [one for lesson in lessons for one in lesson.shown]
    rows = np.array([[one.features.get(name, 0.0) for name in features] for one in shown])
    return _Table(
        features=features,
        rows=rows,
        grades=np.array([one.grade for one in shown]),
        base=rows @ _weights(features, base),
        sizes=np.array([len(lesson.shown) for lesson in lessons]),
    )


def _weights(features: Sequence[str], base: Mapping[str, float]) -> Any:  # noqa: ANN401 an array
    return np.array([base.get(name, 0.0) for name in features])


def _folds(lessons: Sequence[TrainingExample]) -> Any:  # noqa: ANN401 an array
    """Assign a fold to each example: consecutive in time, and each session in one fold."""
    groups = {lesson.group: None for lesson in lessons}
    fold_of = {group: place * _FOLDS // len(groups) for place, group in enumerate(groups)}
    return np.array([fold_of[lesson.group] for lesson in lessons])


def _parameters(table: _Table, choice: _Hyperparameters, *, seed: int) -> dict[str, Any]:
    constraints = [_NEVER_AGAINST.get(name, 0) for name in table.features]
    own = {"num_leaves": choice.leaves, "seed": seed, "monotone_constraints": constraints}
    return {**_FIXED, **own}


def _tried(
    table: _Table,
    folds: Any,  # noqa: ANN401 an array
    *,
    choice: _Hyperparameters,
    seed: int,
) -> tuple[float, _Hyperparameters]:
    """Return the gain on held-out examples, and the best number of trees."""
    curves = [_curve(table, folds == fold, choice=choice, seed=seed) for fold in np.unique(folds)]
    mean = np.mean(curves, axis=0)
    trees = int(np.argmax(mean)) + 1
    return float(mean[trees - 1]), _Hyperparameters(
        scale=choice.scale, leaves=choice.leaves, trees=trees
    )


def _curve(table: _Table, held: Any, *, choice: _Hyperparameters, seed: int) -> Any:  # noqa: ANN401 arrays
    """Return nDCG@10 on the held-out examples after each tree."""
    history: dict[str, dict[str, list[float]]] = {}
    data = table.data(~held, choice.scale)
    _LIGHTGBM.train(
        _parameters(table, choice, seed=seed),
        data,
        choice.trees,
        valid_sets=[table.data(held, choice.scale).set_reference(data)],
        valid_names=["held"],
        callbacks=[_LIGHTGBM.record_evaluation(history)],
    )
    return np.array(history["held"]["ndcg@10"])


def _importances(features: Sequence[str], booster: Any) -> Mapping[str, float]:  # noqa: ANN401
    """Return the share of each feature in the gain of the trees, highest first."""
    gains = booster.feature_importance("gain")
    whole = float(gains.sum()) or 1.0
    shares = {
        name: round(float(gain) / whole, 4) for name, gain in zip(features, gains, strict=True)
    }
    return dict(sorted(((n, s) for n, s in shares.items() if s), key=lambda one: -one[1]))
