"""Made-up tenants of very unequal size: texts by Zipf's law, vectors in clusters of real ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.corpus import drafts
from commonbrain.ingestion.validation import derive_headline
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.memory import Memory, semantic_hash
from commonbrain.model.scope import Trust

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from commonbrain.embeddings.interface import Embedder, Matrix

OWNERS: Final = 4000
"""Notes whose vectors are real; every other vector lies near one of theirs."""
_NOISE: Final = 0.025
"""Added to each of 384 places: such a vector has a cosine of about .9 to its owner's."""
_APART_MS: Final = 1000
"""A memory a second, so that a million are of eleven days."""


def sizes(memories: int, tenants: int) -> list[int]:
    """Share memories among tenants by Zipf's law with exponent .8: the first has about a fifth."""
    weights = [1 / (rank + 1) ** 0.8 for rank in range(tenants)]
    return [max(1, round(memories * weight / sum(weights))) for weight in weights]


@dataclass(frozen=True, slots=True)
class Clusters:
    """Vectors near those of real notes."""

    owners: Matrix

    @classmethod
    def of(cls, embedder: Embedder) -> Clusters:
        """Embed the first notes of the corpus."""
        bodies = [draft.body for draft in drafts(OWNERS)]
        return cls(np.stack([windows[0] for windows in embedder.passages(bodies)]))

    def draw(self, count: int, *, random_source: np.random.Generator) -> Matrix:
        """Draw unit vectors, (count, dimensions) in half precision."""
        chosen = self.owners[random_source.integers(len(self.owners), size=count)]
        noise = random_source.standard_normal(chosen.shape, dtype=np.float32) * _NOISE
        moved = chosen + noise
        return (moved / np.linalg.norm(moved, axis=1, keepdims=True)).astype(np.float16)


def made(ids: Sequence[int], *, seed: int, agents: int, at: datetime) -> Iterator[Memory]:
    """Make the memories of one tenant as the gate would have let them in."""
    policy = KINDS[Kind.FACT]
    for number, (id_, draft) in enumerate(zip(ids, drafts(len(ids), seed=seed), strict=True)):
        yield Memory(
            id=id_,
            kind=Kind.FACT,
            headline=derive_headline(draft.body),
            body=draft.body,
            detail=policy.detail(),
            agent=f"agent-{number % agents}",
            project=draft.project,
            trust=Trust.USER_CLAIM,
            confidence=0.6,
            salience=policy.salience,
            semantic_hash=semantic_hash(Kind.FACT, draft.body),
            recorded_at=at,
            occurred_at=at,
        )
