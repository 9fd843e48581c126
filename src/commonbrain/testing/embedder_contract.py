"""The laws of the Embedder interface as tests; subclass them for a new embedder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import Embedder, Matrix

TOLERANCE = 1e-5
"""Tolerance of lengths and cosines that the interface guarantees."""
THREADS = 8

TEXTS = (
    "The cat sat on the mat.",
    "Deploys need two approvals since the outage in March; ask the release team first.",
    "Ann moved to Lisbon.",
    "",
    "Postgres refuses connections when max_connections is reached, so pool them in the gateway. "
    * 4,
    "Ann moved to Lisbon.",
)
"""Short and long texts, an empty one and a repeated one."""

WEIRD = {
    "empty": "",
    "blank": " \t\r\n ",
    "emoji": "🧠🔥👩‍👩‍👧‍👦",
    "right to left": "القطة على السجادة \u202e שלום",
    "control characters": "a\x00b\x07c\x1b[31md\u200b\ufeff",
    "combining marks": "z̸̢̛a̶͇͝l̷̰͘g̶̳͐o̵͖͝",
    "no spaces": "漢字仮名交じり文" * 40,
    "one endless word": "a" * 10_000,
    "one word over and over": "again " * 1_700,
    "lone surrogate": "half \ud83d a pair",
}


class EmbedderContract:
    """Subclass it in a test module and provide the fixture `embedder`, which returns a new one."""

    understands_meaning: ClassVar[bool] = True
    """Whether the embedder recognizes paraphrases."""

    def test_a_query_is_one_unit_vector_of_its_space(self, embedder: Embedder) -> None:
        vector = embedder.query(TEXTS[0])

        assert vector.shape == (embedder.space.dimensions,)
        _assert_units(vector[np.newaxis])

    def test_passages_are_matrices_of_unit_rows(self, embedder: Embedder) -> None:
        matrices = embedder.passages(TEXTS)

        assert len(matrices) == len(TEXTS)
        for matrix in matrices:
            assert matrix.ndim == 2
            assert matrix.shape[0] >= 1
            assert matrix.shape[1] == embedder.space.dimensions
            _assert_units(matrix)

    def test_no_texts_give_no_matrices(self, embedder: Embedder) -> None:
        assert embedder.passages([]) == []

    def test_the_same_query_gives_the_same_vector(self, embedder: Embedder) -> None:
        _assert_same(embedder.query(TEXTS[1]), embedder.query(TEXTS[1]))

    def test_a_text_has_the_same_vectors_alone_and_in_a_batch(self, embedder: Embedder) -> None:
        for text, matrix in zip(TEXTS, embedder.passages(TEXTS), strict=True):
            _assert_same(matrix, embedder.passages([text])[0])

    def test_vectors_are_in_the_order_of_texts(self, embedder: Embedder) -> None:
        matrices = embedder.passages(TEXTS)
        backwards = embedder.passages(TEXTS[::-1])

        for matrix, mirrored in zip(matrices, reversed(backwards), strict=True):
            _assert_same(matrix, mirrored)

    def test_a_fact_at_the_end_of_a_long_text_is_found_by_its_last_window(
        self, embedder: Embedder
    ) -> None:
        long = "The weather stayed mild and there was not much to say. " * 100
        (windows,) = embedder.passages([f"{long}The vault code is kept by Miriam Okafor."])

        nearness = windows @ embedder.query("Who keeps the vault code? Miriam Okafor?")

        assert len(windows) > 1
        assert nearness.argmax() == len(windows) - 1

    def test_a_short_text_is_one_window(self, embedder: Embedder) -> None:
        assert [len(matrix) for matrix in embedder.passages(["Ann moved to Lisbon.", ""])] == [1, 1]

    def test_threads_get_the_vectors_one_thread_gets(self, embedder: Embedder) -> None:
        # The threads come first, so that a lazy embedder is loaded by all at once.
        with ThreadPoolExecutor(THREADS) as pool:
            passages = list(pool.map(embedder.passages, [TEXTS] * THREADS))
            queries = list(pool.map(embedder.query, TEXTS * THREADS))

        alone = embedder.passages(TEXTS)
        for matrices in passages:
            for matrix, expected in zip(matrices, alone, strict=True):
                _assert_same(matrix, expected)
        for vector, text in zip(queries, TEXTS * THREADS, strict=True):
            _assert_same(vector, embedder.query(text))

    def test_equal_words_are_nearer_than_other_words(self, embedder: Embedder) -> None:
        fact, other = (
            m[0] for m in embedder.passages(["Ann lives in Lisbon.", "The build broke."])
        )
        query = embedder.query("Ann lives in Lisbon")

        assert query @ fact >= embedder.space.similar_threshold
        assert query @ other < embedder.space.relevance_threshold

    def test_a_paraphrase_is_nearer_than_unrelated_text(self, embedder: Embedder) -> None:
        if not self.understands_meaning:
            pytest.skip("this embedder compares words, not meanings")
        query = embedder.query("Where does she keep her automobile?")
        paraphrase, unrelated = embedder.passages(
            [
                "Her car is parked in the garage.",
                "The recipe calls for two eggs and a lemon.",
            ]
        )

        assert query @ paraphrase[0] > query @ unrelated[0] + 0.1

    @pytest.mark.parametrize("text", WEIRD.values(), ids=WEIRD.keys())
    def test_weird_text_gives_unit_vectors(self, embedder: Embedder, text: str) -> None:
        (matrix,) = embedder.passages([text])

        _assert_units(matrix)
        _assert_units(embedder.query(text)[np.newaxis])

    def test_the_thresholds_are_cosines_in_order(self, embedder: Embedder) -> None:
        space = embedder.space

        assert space.name
        assert -1 < space.relevance_threshold < space.similar_threshold < 1


def _assert_units(matrix: Matrix) -> None:
    assert matrix.dtype == np.float32
    assert np.abs(np.linalg.norm(matrix, axis=1) - 1).max() <= TOLERANCE


def _assert_same(vectors: Matrix, expected: Matrix) -> None:
    assert vectors.shape == expected.shape
    assert (vectors * expected).sum(axis=-1).min() >= 1 - TOLERANCE
