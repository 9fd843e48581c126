"""An embedder that knows the questions asked last, for whoever asks the same again."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Matrix

KEPT: Final = 256
"""Questions whose vectors are kept: half a megabyte of the default embedder's, texts included."""


class CachingEmbedder:
    """Does as the embedder behind it, and answers the same question again at once.

    What failed is not kept. Two threads that ask something new at the same time both embed it.
    """

    def __init__(self, behind: Embedder) -> None:
        self._behind = behind
        # Nothing here refers to this object, so that it goes, connections and all, when its
        # owner does.
        self._query = lru_cache(maxsize=KEPT)(partial(_unchanging, behind))

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the embedder behind it."""
        return self._behind.space

    def query(self, text: str) -> Matrix:
        """Embed what somebody asks, unless it was asked before; the vector cannot be written to."""
        return self._query(text)

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed what is stored; that is done once, so nothing of it is kept."""
        return self._behind.passages(texts)


def _unchanging(behind: Embedder, text: str) -> Matrix:
    vector = behind.query(text)
    # Everyone who asks is given the same array.
    vector.flags.writeable = False
    return vector
