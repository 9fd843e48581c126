"""Sentence encoders in this process, and the default one: all-MiniLM-L6-v2 in int8, offline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import commonbrain_minilm

from commonbrain.embeddings.interface import EmbeddingSpace, embed_passages
from commonbrain.embeddings.onnx_runtime import (
    InputFeed,
    LazyModel,
    ModelLabel,
    encode,
    map_in_parallel,
    open_session,
    open_tokenizer,
    usable_cores,
)
from commonbrain.model.errors import UnavailableError
from commonbrain.model.values import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Encoding, Tokenizer

    from commonbrain.embeddings.interface import Matrix

WINDOW_TOKENS: Final = 200
"""About 150 words, within the 256 tokens that all-MiniLM-L6-v2 was trained on.

Recall@10 on half of SciFact is 82.8 with these windows, 79.4 with the first 256 tokens alone.
"""
OVERLAP_TOKENS: Final = 50
"""A quarter of a window, so that a sentence cut at the end of one is whole in the next."""
SPACE: Final = EmbeddingSpace(
    name=commonbrain_minilm.NAME,
    dimensions=commonbrain_minilm.DIMENSIONS,
    # Chosen by `brain eval duplicates`; docs/explanation/decisions.md has the figures.
    similar_threshold=0.63,
    # The 95th percentile of the cosine of questions and chat turns of different conversations
    # (LoCoMo, 60,000 pairs; median 0.06). The 99th, 0.29, would drop half of the turns that answer
    # a question without sharing a word with it.
    relevance_threshold=0.21,
    # Hardly any question loses its answer by it; docs/explanation/decisions.md has the figures.
    answer_threshold=0.44,
)
_LABEL: Final = ModelLabel(
    name="embedder minilm",
    hint="Reinstall commonbrain-minilm, onnxruntime and tokenizers, then retry.",
)
_FEED: Final = InputFeed(types=(("input_ids", "int64"), ("attention_mask", "int64")))
_UNIT_TOLERANCE: Final = 1e-6
"""The length of a vector that the model made a unit vector differs from 1 by rounding alone."""


def truncate(
    tokenizer: Tokenizer, tokens: int, *, overlap: int, strategy: str = "longest_first"
) -> None:
    """Make a tokenizer cut texts into windows of at most so many tokens, special ones included."""
    tokenizer.enable_truncation(  # pyright: ignore[reportUnknownMemberType]
        tokens, stride=overlap, strategy=strategy
    )


def to_unit(vector: Matrix) -> Matrix:
    """Scale a vector to length 1; one of length 1 stays as it is, bit by bit.

    Raises:
        UnavailableError: `embedder_down`, it has no direction.

    """
    import numpy as np  # noqa: PLC0415 counting memories needs neither it nor the model

    length = float(np.linalg.norm(vector))
    if abs(length - 1) <= _UNIT_TOLERANCE:
        return vector
    if not 0 < length < float("inf"):
        raise UnavailableError(
            "The embedding model gave a text no vector: its numbers are zero or not finite.",
            code="embedder_down",
            hint="The model's file may be damaged or quantized badly; try another export.",
        )
    return (vector / np.float32(length)).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """A loaded sentence encoder, whose output is one vector per text."""

    session: Any
    """An `onnxruntime.InferenceSession`."""
    feed: InputFeed
    output: str
    """The name of the output that holds the vectors."""
    tokenizer: Tokenizer
    """Truncates to one window."""

    def windows(self, text: str) -> Sequence[Encoding]:
        """Return all windows of a text; at least one."""
        first = encode(self.tokenizer, text)
        return first, *first.overflowing

    def query_vector(self, text: str) -> Matrix:
        """Embed the first window of a query, shape `(dimensions,)`."""
        return self.vector(encode(self.tokenizer, text))

    def vector(self, window: Encoding) -> Matrix:
        """Embed one window of a stored text, shape `(dimensions,)`."""
        return to_unit(self.run(window))

    def run(self, window: Encoding) -> Matrix:
        """Return the model's output for one window."""
        # One window per run. The runtime scales activations over its whole input, so a batch would
        # change its members' vectors (by up to 0.04 of cosine), and it is no faster on one core.
        (outputs,) = self.session.run([self.output], self.feed.feed(window))
        return outputs[0]


class LocalEmbedder:
    """Embeds texts in this process, in windows that run on all cores."""

    def __init__(
        self, read: Callable[[], Encoder], *, label: ModelLabel, threads: int | None = None
    ) -> None:
        self._threads = threads or usable_cores()
        self._label = label
        self._model = LazyModel(partial(_read, read, label))

    @property
    def is_loaded(self) -> bool:
        """Whether the model is loaded."""
        return self._model.is_loaded

    def load(self) -> None:
        """Load the model, which takes some 0.2 s for the default one."""
        self._model.get()

    def query(self, text: str) -> Matrix:
        """Embed a query; only its first window counts."""
        encoder = self._model.get()
        with self._label.attempting("embed a text"):
            return encoder.query_vector(text)

    @property
    def windows_at_once(self) -> int:
        """How many windows it embeds in parallel."""
        return self._threads

    def windows(self, text: str) -> Sequence[Encoding]:
        """Cut a text into all of its windows, which overlap by a quarter."""
        encoder = self._model.get()
        with self._label.attempting("embed a text"):
            return encoder.windows(text)

    def vectors(self, windows: Sequence[Encoding]) -> Matrix:
        """Embed windows, shape `(len(windows), dimensions)`."""
        encoder = self._model.get()
        import numpy as np  # noqa: PLC0415 counting memories needs neither it nor the model

        with self._label.attempting("embed a text"):
            return np.stack([*map_in_parallel(encoder.vector, windows, threads=self._threads)])

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed stored texts in windows that overlap by a quarter."""
        return embed_passages(texts, cut=self.windows, embed=self.vectors)


def _read(read: Callable[[], Encoder], label: ModelLabel) -> Encoder:
    with label.attempting("load the embedding model"):
        return read()


class MiniLmEmbedder(LocalEmbedder):
    """Embeds English best, 1 ms a query; equal texts give equal vectors on all x86 machines.

    Processors without VNNI compute the 8-bit sums in a slower, exact way, because their fast way
    saturates and moves the vectors by about 0.01 of cosine.
    """

    space = SPACE

    def __init__(
        self,
        *,
        threads: int | None = None,
        model_path: Path = commonbrain_minilm.MODEL_PATH,
        tokenizer_path: Path = commonbrain_minilm.TOKENIZER_PATH,
    ) -> None:
        is_shipped = model_path == commonbrain_minilm.MODEL_PATH
        unsigned = commonbrain_minilm.UNSIGNED_PATH if is_shipped else None

        def read() -> Encoder:
            tokenizer = open_tokenizer(tokenizer_path)
            truncate(tokenizer, WINDOW_TOKENS, overlap=OVERLAP_TOKENS)
            return Encoder(
                session=open_session(model_path, unsigned=unsigned),
                feed=_FEED,
                output="embedding",
                tokenizer=tokenizer,
            )

        super().__init__(read, label=_LABEL, threads=threads)
