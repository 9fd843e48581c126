"""Sentence encoders on onnxruntime: windows of long texts, prefixes, pooling, unit vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from commonbrain.embeddings.onnx_runtime import (
    InputFeed,
    LazyModel,
    ModelLabel,
    encode,
    map_in_parallel,
    open_tokenizer,
    usable_cores,
)
from commonbrain.embeddings.pooling import SentenceHead, to_unit
from commonbrain.embeddings.windows import embed_passages
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixedTokenizer:
    """Cuts texts into windows of tokens that each begin with a prefix, such as `passage: `."""

    prefix: str
    whole: Tokenizer
    """Truncates to one window, prefix included."""
    pieces: Tokenizer
    """Truncates to what a prefix leaves of a window."""
    prefix_tokens: int
    """Tokens before the first one of the text, special tokens included."""

    @classmethod
    def open(
        cls, path: Path, *, prefix: str, window_tokens: int, lowers_text: bool = False
    ) -> PrefixedTokenizer:
        """Read a tokenizer for windows of at most so many tokens."""
        whole = pieces = open_tokenizer(path, lowers_text=lowers_text)
        # Special tokens that begin a text stay in front of its prefix.
        special = whole.encode("").ids
        own = len(whole.encode(prefix).ids) - len(special) if prefix else 0
        overlap = min(OVERLAP_TOKENS, window_tokens // 4)
        if own:
            pieces = open_tokenizer(path, lowers_text=lowers_text)
            left = max(window_tokens - own, len(special) + 2)
            truncate(pieces, left, overlap=min(overlap, (left - len(special)) // 2))
        truncate(whole, window_tokens, overlap=overlap)
        first = whole.encode(prefix).ids
        begins = next((at for at, id_ in enumerate(first) if id_ not in special), len(first))
        return cls(prefix=prefix, whole=whole, pieces=pieces, prefix_tokens=begins + own)

    def first(self, text: str) -> Encoding:
        """Return the first window."""
        return encode(self.whole, self.prefix + text)

    def windows(self, text: str) -> Sequence[Encoding]:
        """Return all windows of a text; at least one."""
        first = self.first(text)
        if not first.overflowing:
            return (first,)
        if not self.prefix:
            return first, *first.overflowing
        cut = encode(self.pieces, text)
        return [
            encode(self.whole, self.prefix + text[slice(*extent(piece))])
            for piece in (cut, *cut.overflowing)
        ]


def truncate(
    tokenizer: Tokenizer, tokens: int, *, overlap: int, strategy: str = "longest_first"
) -> None:
    """Make a tokenizer cut texts into windows of at most so many tokens, special ones included."""
    tokenizer.enable_truncation(  # pyright: ignore[reportUnknownMemberType]
        tokens, stride=overlap, strategy=strategy
    )


def extent(piece: Encoding) -> tuple[int, int]:
    """Return the span of a text's characters in a window, without its special tokens."""
    ends = [
        ends
        for ends, is_special in zip(piece.offsets, piece.special_tokens_mask, strict=True)
        if not is_special
    ]
    return (ends[0][0], ends[-1][1]) if ends else (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """A loaded sentence encoder."""

    session: Any
    """An `onnxruntime.InferenceSession`."""
    feed: InputFeed
    output: str
    """The name of the output that holds a vector per token or per text."""
    head: SentenceHead
    queries: PrefixedTokenizer
    passages: PrefixedTokenizer

    def query_vector(self, text: str) -> Matrix:
        """Embed the first window of a query."""
        return self.vector(self.queries.first(text), tokenizer=self.queries)

    def vector(self, window: Encoding, *, tokenizer: PrefixedTokenizer) -> Matrix:
        """Embed one window, shape `(dimensions,)`."""
        # One window per run. The runtime scales activations over its whole input, so a batch would
        # change its members' vectors (by up to 0.04 of cosine), and it is no faster on one core.
        (made,) = self.session.run([self.output], self.feed.feed(window))
        return to_unit(self.head.apply(made[0], prefix_tokens=tokenizer.prefix_tokens))


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
            return encoder.passages.windows(text)

    def vectors(self, windows: Sequence[Encoding]) -> Matrix:
        """Embed windows, shape `(len(windows), dimensions)`."""
        encoder = self._model.get()
        import numpy as np  # noqa: PLC0415 counting memories needs neither it nor the model

        with self._label.attempting("embed a text"):
            embed = partial(encoder.vector, tokenizer=encoder.passages)
            return np.stack([*map_in_parallel(embed, windows, threads=self._threads)])

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Embed stored texts in windows that overlap by a quarter."""
        return embed_passages(texts, cut=self.windows, embed=self.vectors)


def _read(read: Callable[[], Encoder], label: ModelLabel) -> Encoder:
    with label.attempting("load the embedding model"):
        return read()
