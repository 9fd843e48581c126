"""Salience models that LightGBM learns from the later use of memories.

The trees predict how likely a memory is to be useful. The prediction is mapped to the distribution
of the fixed rule: the order changes, but as many memories as before start archived or outlast
others. An artifact is JSON with LightGBM's text format: loading it never executes code.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import lightgbm
import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from commonbrain.embeddings.interface import Matrix
from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.limits import SALIENCE_BYTES_MAX
from commonbrain_learn.intervals import bootstrap_interval, load_stats
from commonbrain_learn.usefulness import FEATURES, SampleSplit, SettledMemory

_BOOSTING: Final[Any] = lightgbm
"""It has no type annotations."""
_TREES_MAX: Final = 150
_FOLDS: Final = 3
_FIXED: Final[Mapping[str, Any]] = {
    "objective": "binary",
    "metric": "binary_logloss",
    # A few hundred memories support only small trees.
    "num_leaves": 5,
    "min_data_in_leaf": 15,
    "lambda_l2": 5.0,
    "learning_rate": 0.05,
    # Deterministic: the same samples give the same bytes.
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
}
_QUANTILES: Final = 21
"""Number of points of the quantile mapping, at steps of 5%."""
_RESAMPLES: Final = 1000
"""Enough for the bounds of a 95% interval to be stable in the second digit (Efron 1993)."""
_GROUPS_MIN: Final = 2
"""One session has no variance."""
_Measure = Callable[[Any, Any], float]
"""How well scores predict uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSalience:
    """A salience model as bytes, its metrics and a description of its training."""

    artifact: bytes
    is_better: bool
    """Whether it ranks held-out memories better than the rule, beyond noise."""
    told: Mapping[str, object]
    """Plain JSON values."""


class _SalienceArtifact(BaseModel):
    """Contents of an artifact."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    role: Literal["salience"] = "salience"
    tenant: str = ""
    """Keeps the artifacts of two tenants distinct when their samples are equal."""
    features: tuple[str, ...]
    authors: dict[str, float]
    likely: tuple[float, ...]
    """Quantiles of the prediction, ascending; each maps to the salience at the same position."""
    salience: tuple[float, ...]
    booster: str


class LearnedSalience:
    """Trees, and the quantile mapping of their prediction; thread-safe."""

    def __init__(self, envelope: _SalienceArtifact, booster: lightgbm.Booster) -> None:
        self._envelope = envelope
        self._booster: Any = booster
        self.features = envelope.features
        """The columns of `rows`."""
        self.authors: Mapping[str, float] = envelope.authors
        """Usefulness of earlier memories by author."""

    def scores(self, rows: Matrix) -> Matrix:
        """Score memories on the scale of the rule."""
        likely = self.likely(np.asarray(rows, dtype=np.float64))
        saliences = _interpolated(likely, self._envelope.likely, values=self._envelope.salience)
        return saliences.astype(np.float32)

    def likely(self, rows: Any) -> Any:  # noqa: ANN401 arrays
        """Return the probability that memories are useful, 0..1."""
        return self._booster.predict(rows, num_threads=1)


def fit_salience(
    parts: SampleSplit, *, authors: Mapping[str, float], seed: int, tenant: str
) -> FittedSalience:
    """Train on one part, with the number of trees chosen by its folds; evaluate on the other.

    The same samples, seed and tenant give the same bytes, and two tenants never get the same.
    """
    rows, useful = _rows(parts.learnt), _useful(parts.learnt)
    parameters = {**_FIXED, "seed": seed}
    trees = _trees(parts.learnt, parameters=parameters)
    booster: Any = _BOOSTING.train(parameters, _data(rows, useful), trees)
    likely, saliences = _scale(booster.predict(rows), rows[:, FEATURES.index("rule")])
    envelope = _SalienceArtifact(
        tenant=tenant,
        features=FEATURES,
        authors=dict(authors),
        likely=likely,
        salience=saliences,
        booster=booster.model_to_string(),
    )
    artifact = json.dumps(
        envelope.model_dump(mode="json"), ensure_ascii=True, separators=(",", ":")
    ).encode()
    judged = _judged(LearnedSalience(envelope, booster), parts.held, seed=seed)
    gains = booster.feature_importance("gain")
    whole = float(gains.sum()) or 1.0
    shares = {name: round(float(g) / whole, 4) for name, g in zip(FEATURES, gains, strict=True)}
    return FittedSalience(
        artifact=artifact,
        is_better=judged["auc"]["low"] > 0,
        told={
            "library": f"lightgbm {lightgbm.__version__}",
            "seed": seed,
            "trees": trees,
            "metrics": judged,
            "importances": dict(
                sorted(((n, s) for n, s in shares.items() if s), key=lambda one: -one[1])
            ),
        },
    )


def load_salience(artifact: bytes) -> LearnedSalience:
    """Load a model and check its features; it never executes code.

    Raises:
        StoreCorruptError: `model_corrupt`: the artifact is invalid or of another format.

    """
    if len(artifact) > SALIENCE_BYTES_MAX:
        raise _corrupt(f"It has {len(artifact):,} bytes; {SALIENCE_BYTES_MAX:,} are allowed.")
    try:
        envelope = _SalienceArtifact.model_validate_json(artifact)
        booster: Any = _BOOSTING.Booster(model_str=envelope.booster)
    except (ValidationError, lightgbm.basic.LightGBMError) as error:
        raise _corrupt("It is no model of salience of this format.") from error
    if not tuple(booster.feature_name()) == envelope.features == FEATURES:
        raise _corrupt("It asks for other features than there are.")
    if not 1 < len(envelope.likely) == len(envelope.salience):
        raise _corrupt("Its scale has no two ends.")
    return LearnedSalience(envelope, booster)


def _interpolated(at: Any, points: Sequence[float], *, values: Sequence[float]) -> Any:  # noqa: ANN401 arrays
    return cast("Any", np).interp(at, points, values)


def _corrupt(why: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"A model cannot be read. {why}",
        code="model_corrupt",
        hint="Train another; the fixed rule serves meanwhile.",
    )


def _rows(samples: Sequence[SettledMemory]) -> Any:  # noqa: ANN401 an array
    return np.array([[one.features[name] for name in FEATURES] for one in samples])


def _useful(samples: Sequence[SettledMemory]) -> Any:  # noqa: ANN401 an array
    return np.array([one.is_useful for one in samples], dtype=np.float64)


def _data(rows: Any, useful: Any) -> lightgbm.Dataset:  # noqa: ANN401 arrays
    return lightgbm.Dataset(rows, useful, feature_name=list(FEATURES), free_raw_data=False)


def _trees(samples: Sequence[SettledMemory], *, parameters: Mapping[str, Any]) -> int:
    """Choose the number of trees by cross-validation over consecutive sessions."""
    groups = {one.group: None for one in samples}
    fold_of = {group: place * _FOLDS // len(groups) for place, group in enumerate(groups)}
    folds = np.array([fold_of[one.group] for one in samples])
    places = [(np.flatnonzero(folds != n), np.flatnonzero(folds == n)) for n in np.unique(folds)]
    result: Any = _BOOSTING.cv(
        dict(parameters),
        _data(_rows(samples), _useful(samples)),
        _TREES_MAX,
        folds=places,
    )
    return int(np.argmin(result["valid binary_logloss-mean"])) + 1


def _scale(likely: Any, saliences: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:  # noqa: ANN401 arrays
    """Map quantiles of the prediction to quantiles of the rule."""
    at = np.linspace(0, 1, _QUANTILES)
    lower, upper = np.quantile(likely, at), np.quantile(saliences, at)
    rising, places = np.unique(lower, return_inverse=True)
    # Equal predictions get the mean salience.
    means = np.bincount(places, weights=upper) / np.bincount(places)
    ends = (rising, means) if len(rising) > 1 else ([0.0, 1.0], [means[0]] * 2)
    first, second = (tuple(round(float(one), 6) for one in end) for end in ends)
    return first, second


def _judged(
    model: LearnedSalience, held: Sequence[SettledMemory], *, seed: int
) -> Mapping[str, Mapping[str, float]]:
    """Compare a model with the rule: how well each predicts use, and the interval of the gain."""
    rows, uses = _rows(held), np.array([one.use for one in held])
    learnt, rule = model.likely(rows), rows[:, FEATURES.index("rule")]
    names = list(dict.fromkeys(one.group for one in held))
    groups = [np.array([n for n, one in enumerate(held) if one.group == name]) for name in names]

    def margin(measure: _Measure) -> Mapping[str, float]:
        def gain(at: Any) -> float:  # noqa: ANN401 an array
            return measure(learnt[at], uses[at]) - measure(rule[at], uses[at])

        low, high = _interval(groups, gain, seed=seed)
        result = {"rule": measure(rule, uses), "learnt": measure(learnt, uses)}
        return {
            name: round(value, 4) for name, value in {**result, "low": low, "high": high}.items()
        }

    return {"auc": margin(_auc), "spearman": margin(_spearman)}


def _auc(scores: Any, uses: Any) -> float:  # noqa: ANN401 arrays
    """Return the area under the ROC curve; 0.5 if one class is missing."""
    useful, useless = scores[uses > 0], scores[uses == 0]
    if not len(useful) or not len(useless):
        return 0.5
    above: Any = load_stats().mannwhitneyu(useful, useless, method="asymptotic").statistic
    return float(above / (len(useful) * len(useless)))


def _spearman(scores: Any, uses: Any) -> float:  # noqa: ANN401 arrays
    """Return Spearman's rank correlation, -1..1; 0 if undefined."""
    if np.ptp(scores) == 0 or np.ptp(uses) == 0:
        return 0.0
    return float(load_stats().spearmanr(scores, uses).statistic)


def _interval(
    groups: Sequence[Any],
    gain: Callable[[Any], float],
    *,
    seed: int,
) -> tuple[float, float]:
    """Return the 95% interval of a gain, resampled by session."""
    if len(groups) < _GROUPS_MIN:
        return -1.0, 1.0

    def drawn(places: Any) -> float:  # noqa: ANN401 an array
        return gain(np.concatenate([groups[place] for place in places]))

    return bootstrap_interval((np.arange(len(groups)),), drawn, resamples=_RESAMPLES, seed=seed)
