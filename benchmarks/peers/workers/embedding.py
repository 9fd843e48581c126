"""Commonbrain's default embedder, in the forms that other memories take."""

from __future__ import annotations

from collections.abc import Sequence

from commonbrain.embeddings.local import MiniLmEmbedder

DIMENSIONS = MiniLmEmbedder.space.dimensions
_EMBEDDER = MiniLmEmbedder()


def vector(text: str) -> list[float]:
    """Embed one text; of a long one, its first 200 tokens."""
    return _EMBEDDER.query(text).tolist()


def vectors(texts: Sequence[str]) -> list[list[float]]:
    """Embed texts one by one, as Commonbrain does."""
    return [vector(text) for text in texts]


# No memory pays for loading the model in its first write.
vector("ready")
