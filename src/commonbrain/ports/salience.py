"""What the house needs of what foretells whether a memory will be of use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from commonbrain.domain.usefulness import Parts
from commonbrain.ports.models import Matrix


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
        self, parts: Parts, *, authors: Mapping[str, float], seed: int, tenant: str
    ) -> FittedSalience:
        """Learn from one part, and hold what came of it against the rule on the other."""
        ...

    def load(self, artifact: bytes) -> Salience:
        """Read a model.

        Raises:
            Corrupt: `model_corrupt`, these are not the bytes of one, or of another format.

        """
        ...
