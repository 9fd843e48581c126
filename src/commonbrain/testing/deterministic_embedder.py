"""An embedder without a model, for tests that need vectors but not meaning."""

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
"""Overlap of the default embedder's windows, in words: about 4 tokens for 3 words."""


class WordHashEmbedder:
    """Embeds texts by their words: shared words make vectors similar; synonyms do not.

    Each word adds 1 or -1 to one of 384 dimensions, both chosen by its hash (signed feature
    hashing, Weinberger et al. 2009): fast, and identical on every machine.
    """

    space = EmbeddingSpace(
        name="word-hash-1",
        dimensions=384,
        # Cosine is roughly the share of common words: three quarters, half, one in five. Hash
        # collisions of two words stay below the last.
        duplicate_threshold=0.75,
        similar_threshold=0.5,
        relevance_threshold=0.2,
    )

    def query(self, text: str) -> Matrix:
        """Embed a query."""
        return self._vector(_words(text)[:WINDOW_WORDS])

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed stored texts, in windows of 150 words that overlap by 37."""
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
            # No words, or words that cancel out: still a unit vector, as the interface requires.
            vector[0] = length = 1.0
        return (vector / length).astype(np.float32)


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold())


def _bucket(word: str, dimensions: int) -> tuple[int, float]:
    # "replace": a lone surrogate is a legal str without a UTF-8 encoding.
    number = int.from_bytes(blake2b(word.encode(errors="replace"), digest_size=8).digest())
    return (number >> 1) % dimensions, 1.0 if number & 1 else -1.0
