"""Stores of any size in minutes: the first notes are embedded, the rest borrow their vectors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.corpus import WORDS_MAX, drafts
from commonbrain.client import Brain
from commonbrain.ingestion.batch import WriteOptions
from commonbrain.ingestion.service import Remember
from commonbrain.model import ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Matrix
    from commonbrain.model.memory import Draft

EMBEDDED: Final = 4000
"""Notes that are embedded before vectors are borrowed."""
_BATCH: Final = 64
_NOISE: Final = 0.025
"""Added to each of 384 places: a borrowed vector has a cosine of about .9 to its owner's."""
_WINDOW_WORDS: Final = 150
_WINDOW_STEP_WORDS: Final = 112
"""Of English, about what the embedder's windows hold, and how far apart they begin."""


@dataclass(slots=True)
class Lending:
    """An embedder that lends the vectors of its first texts to all later ones, with some noise.

    So a borrowed vector lies where real ones lie, but says nothing about its text: what is
    recalled from such a store shows how long it takes and not how good it is.
    """

    embedder: Embedder
    random_source: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))
    owned: list[Matrix] = field(default_factory=list["Matrix"])

    @property
    def space(self) -> EmbeddingSpace:
        """The space of what is lent."""
        return self.embedder.space

    def query(self, text: str) -> Matrix:
        """Embed a query."""
        return self.embedder.query(text)

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed the first texts; give each later one a vector drawn from theirs."""
        if len(self.owned) < EMBEDDED:
            embedded = self.embedder.passages(texts)
            self.owned += [windows[0] for windows in embedded]
            return embedded
        return [self._lent(text) for text in texts]

    def _lent(self, text: str) -> Matrix:
        """Return as many vectors as a text of this length has windows."""
        beyond = max(0, len(text.split()) - _WINDOW_WORDS)
        windows = 1 - (-beyond // _WINDOW_STEP_WORDS)
        owner = self.owned[self.random_source.integers(len(self.owned))]
        moved = owner + self.random_source.normal(0, _NOISE, (windows, *owner.shape))
        return (moved / np.linalg.norm(moved, axis=1, keepdims=True)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Filling:
    """Puts ever more made-up notes into one store, through the public interface."""

    brain: Brain

    @classmethod
    def of(cls, brain: Brain, lending: Lending | None = None) -> Filling:
        """Fill the store of a brain; what the brain itself remembers is embedded for real."""
        embedder = lending or Lending(brain.services.embedder)
        return cls(Brain(replace(brain.services, embedder=embedder), brain.caller))

    def __call__(self, held: int, *, until: int, words: int = WORDS_MAX) -> None:
        """Add the notes from number `held` on, of at most so many words each."""
        for batch in self.batches(held, until=until, words=words):
            self.write(batch)

    def batches(
        self, held: int, *, until: int, words: int = WORDS_MAX
    ) -> Iterator[Sequence[Draft]]:
        """Yield the notes from number `held` on, as many at a time as are stored at once."""
        rest = islice(drafts(until, words=words), held, None)
        while batch := list(islice(rest, _BATCH)):
            yield batch

    def write(self, batch: Sequence[Draft]) -> list[int]:
        """Store notes in one transaction, and return their ids.

        Raises:
            ValueError: the store did not take one of them.

        """
        options = WriteOptions(checks_similarity=False)
        items = Remember(self.brain.services, self.brain.caller).write(batch, options).items
        refused = next((item.reason for item in items if not item.status.is_new), None)
        if refused is not None:
            raise ValueError(refused)
        return [ids.parse(ids.MEMORY, item.id) for item in items if item.id is not None]
