"""Interfaces of model training: trainers turn examples into artifacts and load them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from commonbrain.embeddings.interface import Matrix, Reranker
from commonbrain.model.values import dataclass

if TYPE_CHECKING:
    from commonbrain.learning.outcomes import TrainingExample
    from commonbrain.learning.usefulness import SampleSplit


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


class Trainer(Protocol):
    """Trains, loads and compares rerankers.

    Laws: the same examples, seed and tenant give the same bytes, and two tenants never get the
    same; loading an artifact never executes code.
    """

    def fit(
        self,
        lessons: Sequence[TrainingExample],
        *,
        base: Mapping[str, float],
        seed: int,
        tenant: str,
    ) -> Fitted:
        """Train a correction of a weighted sum of features, so that marked memories rank first.

        Args:
            lessons: Oldest first.
            base: Weights by feature, which rank candidates without a model.
            seed: Seed of all randomness.
            tenant: Owner; stored in the artifact, so that no two tenants share one.

        """
        ...

    def load(self, artifact: bytes) -> Reranker:
        """Load a reranker.

        Raises:
            StoreCorruptError: `model_corrupt`: the artifact is invalid or of another format.

        """
        ...

    def judge(
        self,
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

        """
        ...


class Salience(Protocol):
    """Scores the salience of memories when they are written; thread-safe.

    Laws: the same rows give the same scores, each in 0..1 on the scale of the fixed rule.
    """

    @property
    def features(self) -> tuple[str, ...]:
        """The columns of `rows`."""
        ...

    @property
    def authors(self) -> Mapping[str, float]:
        """Usefulness of earlier memories by author, from the training data."""
        ...

    def scores(self, rows: Matrix) -> Matrix:
        """Score rows of shape `(memories, len(features))`; the result has shape `(memories,)`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSalience:
    """A salience model as bytes, its metrics and a description of its training."""

    artifact: bytes
    is_better: bool
    """Whether it ranks held-out memories better than the rule, beyond noise."""
    told: Mapping[str, object]
    """Plain JSON values."""


class SalienceTrainer(Protocol):
    """Trains salience models from the later use of memories, and loads them.

    Laws: the same samples, seed and tenant give the same bytes, and two tenants never get the same;
    loading an artifact never executes code.
    """

    def fit(
        self, parts: SampleSplit, *, authors: Mapping[str, float], seed: int, tenant: str
    ) -> FittedSalience:
        """Train on one part and compare with the rule on the other."""
        ...

    def load(self, artifact: bytes) -> Salience:
        """Load a model.

        Raises:
            StoreCorruptError: `model_corrupt`: the artifact is invalid or of another format.

        """
        ...
