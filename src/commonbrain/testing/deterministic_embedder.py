"""An embedder without a model, for tests of code that needs vectors but not understanding."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from commonbrain.embeddings.interface import EmbeddingSpace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from commonbrain.embeddings.interface import Matrix

WORD = re.compile(r"\w+")
WINDOW_WORDS = 150
OVERLAP_WORDS = 37
"""The windows of the default embedder, in words: it reads about 4 tokens for 3 of them."""


class WordHashEmbedder:
    """Texts with words in common are near, all others are not: it knows no synonyms.

    Each word adds 1 or -1 to one of 384 places, both chosen by its hash (signed feature hashing,
    Weinberger et al. 2009), so it gives the same vectors everywhere, and quickly.
    """

    space = EmbeddingSpace(
        name="word-hash-1",
        dimensions=384,
        # Cosine is roughly the share of words in common, so these say: three quarters, half, one
        # in five. Chance meetings of two words in one place stay below the last.
        duplicate_threshold=0.75,
        similar_threshold=0.5,
        relevance_threshold=0.2,
    )

    def query(self, text: str) -> Matrix:
        """Embed what somebody asks."""
        return self._vector(_words(text)[:WINDOW_WORDS])

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed what is stored, in windows of 150 words that share 37 with the one before."""
        return [self._windows(_words(text)) for text in texts]

    def _windows(self, words: list[str]) -> Matrix:
        step = WINDOW_WORDS - OVERLAP_WORDS
        starts = range(0, max(len(words) - OVERLAP_WORDS, 1), step)
        return np.stack([self._vector(words[start : start + WINDOW_WORDS]) for start in starts])

    def _vector(self, words: list[str]) -> Matrix:
        vector = np.zeros(self.space.dimensions, np.float32)
        for word in words:
            place, sign = _bucket(word, self.space.dimensions)
            vector[place] += sign
        length = np.linalg.norm(vector)
        if not length:
            # No words, or words that cancel out: still a unit vector, as the port's law demands.
            vector[0] = length = 1.0
        return (vector / length).astype(np.float32)


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold())


def _bucket(word: str, dimensions: int) -> tuple[int, float]:
    # "replace", as a lone surrogate is a legal str that has no UTF-8.
    number = int.from_bytes(blake2b(word.encode(errors="replace"), digest_size=8).digest())
    return (number >> 1) % dimensions, 1.0 if number & 1 else -1.0
