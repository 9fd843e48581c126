from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from commonbrain_evals.retrieval.vectors import CachedEmbedder

from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Matrix
from commonbrain.embeddings.local import MiniLmEmbedder

TEXTS = ["The kettle is on.", "Trains leave at noon.", "The kettle is on."]


@dataclass(frozen=True)
class Counting:
    """Counts the passages that are embedded."""

    embedder: Embedder
    texts: list[str] = field(default_factory=list[str])

    @property
    def space(self) -> EmbeddingSpace:
        return self.embedder.space

    def query(self, text: str) -> Matrix:
        return self.embedder.query(text)

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        self.texts.extend(texts)
        return self.embedder.passages(texts)


def test_a_passage_is_embedded_once_for_all_runs(tmp_path: Path) -> None:
    counting = Counting(MiniLmEmbedder())
    first = CachedEmbedder(counting, tmp_path).passages(TEXTS)
    again = CachedEmbedder(counting, tmp_path).passages([*TEXTS, "New."])

    assert sorted(counting.texts) == sorted({*TEXTS, "New."})
    assert all(np.array_equal(*pair) for pair in zip(first, again[:3], strict=True))


def test_cached_vectors_are_those_of_the_embedder(tmp_path: Path) -> None:
    embedder = MiniLmEmbedder()
    long = " ".join(f"Paragraph {number} is about kettles and trains." for number in range(200))
    cached = CachedEmbedder(embedder, tmp_path)
    cached.passages([long])

    [expected] = embedder.passages([long])
    [vectors] = cached.passages([long])
    assert expected.shape[0] > 1
    assert np.allclose(vectors, expected, atol=1e-5)


def test_the_file_of_cached_vectors_holds_no_text(tmp_path: Path) -> None:
    CachedEmbedder(MiniLmEmbedder(), tmp_path).passages(TEXTS)

    [file] = tmp_path.iterdir()
    assert b"kettle" not in file.read_bytes()
