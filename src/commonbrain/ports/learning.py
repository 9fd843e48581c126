"""What the house needs of a library that learns: lessons in, an artifact out, and back again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from commonbrain.domain.lessons import Lesson
from commonbrain.ports.models import Matrix, Reranker


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A reranker as bytes, with what is told of its making."""

    artifact: bytes
    told: Mapping[str, object]
    """Library and version, what was tried, what was chosen, importances: plain JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Margin:
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
        self, lessons: Sequence[Lesson], *, base: Mapping[str, float], seed: int, tenant: str
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
            Corrupt: `model_corrupt`, these are not the bytes of one, or of another format.

        """
        ...

    def judge(
        self,
        lessons: Sequence[Lesson],
        *,
        before: Sequence[Matrix],
        after: Sequence[Matrix],
        seed: int,
    ) -> Mapping[str, Margin]:
        """Hold two ways of scoring the same lessons against each other, session by session.

        Args:
            lessons: of which neither was made.
            before: the scores of each lesson's candidates, shape `(candidates,)`.
            after: the same by the other way.
            seed: of the chance by which sessions are drawn.

        """
        ...
