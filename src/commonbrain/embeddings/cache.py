"""An embedder that caches the vectors of recent queries."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Matrix

CACHED_QUERIES_MAX: Final = 256
"""Cached queries: half a megabyte with the default embedder, texts included."""


class CachingEmbedder:
    """Wraps an embedder and answers repeated queries from a cache.

    Failures are not cached. Two threads with the same new query both embed it.
    """

    def __init__(self, wrapped: Embedder) -> None:
        self._wrapped = wrapped
        # Nothing here refers to this object, so it is collected, with its connections, when unused.
        self._query = lru_cache(maxsize=CACHED_QUERIES_MAX)(partial(_unchanging, wrapped))

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the wrapped embedder."""
        return self._wrapped.space

    def query(self, text: str) -> Matrix:
        """Embed a query, or return its cached, read-only vector."""
        return self._query(text)

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed stored texts, without a cache since that happens once."""
        return self._wrapped.passages(texts)


def _unchanging(wrapped: Embedder, text: str) -> Matrix:
    vector = wrapped.query(text)
    # All callers share the same array.
    vector.flags.writeable = False
    return vector
