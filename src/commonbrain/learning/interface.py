"""What the house needs of a library that learns: lessons in, an artifact out, and back again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from commonbrain.embeddings.interface import Matrix, Reranker
from commonbrain.learning.outcomes import TrainingExample
from commonbrain.learning.usefulness import SampleSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A reranker as bytes, with what is told of its making."""

    artifact: bytes
    told: Mapping[str, object]
    """Library and version, what was tried, what was chosen, importances: plain JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityMargin:
    """A figure before and after, and where their difference lies with 95% confidence."""

    before: float
    after: float
    low: float
    high: float


class Trainer(Protocol):
    """Makes rerankers out of lessons, reads them, and holds one against another.

    Laws: the same lessons, seed and tenant give the same bytes, and two tenants never the same;
    nothing in an artifact is ever executed.
    """

    def fit(
        self,
        lessons: Sequence[TrainingExample],
        *,
        base: Mapping[str, float],
        seed: int,
        tenant: str,
    ) -> Fitted:
        """Learn what to add to a weighted sum of features, so that what was marked comes first.

        Args:
            lessons: the oldest first.
            base: weights by feature, which order candidates where nothing was learnt.
            seed: of all chance in it.
            tenant: whose it is; it stands in the artifact, so that nobody else has the same one.

        """
        ...

    def load(self, artifact: bytes) -> Reranker:
        """Read a reranker.

        Raises:
            StoreCorruptError: `model_corrupt`, these are not the bytes of one, or of another
                format.

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
        """Hold two ways of scoring the same lessons against each other, session by session.

        Args:
            lessons: of which neither was made.
            before: the scores of each lesson's candidates, shape `(candidates,)`.
            after: the same by the other way.
            seed: of the chance by which sessions are drawn.

        """
        ...


class Salience(Protocol):
    """Says how much memories matter as they are written; safe to call from any thread.

    Laws: the same rows give the same scores, each a number of 0..1 on the scale of the fixed rule.
    """

    @property
    def features(self) -> tuple[str, ...]:
        """What each column of `rows` is."""
        ...

    @property
    def authors(self) -> Mapping[str, float]:
        """What the memories of authors came to, as far as it was made of any."""
        ...

    def scores(self, rows: Matrix) -> Matrix:
        """Score memories: rows of shape `(memories, len(features))`, scores `(memories,)`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSalience:
    """A model of salience as bytes, how it fared against the rule, and what is told of it."""

    artifact: bytes
    is_better: bool
    """Whether it orders what it was not made of better than the rule does, beyond noise."""
    told: Mapping[str, object]
    """Plain JSON values."""


class SalienceTrainer(Protocol):
    """Makes models of salience out of what memories came to, and reads them.

    Laws: the same samples, seed and tenant give the same bytes, and two tenants never the same;
    nothing in an artifact is ever executed.
    """

    def fit(
        self, parts: SampleSplit, *, authors: Mapping[str, float], seed: int, tenant: str
    ) -> FittedSalience:
        """Learn from one part, and hold what came of it against the rule on the other."""
        ...

    def load(self, artifact: bytes) -> Salience:
        """Read a model.

        Raises:
            StoreCorruptError: `model_corrupt`, these are not the bytes of one, or of another
                format.

        """
        ...
