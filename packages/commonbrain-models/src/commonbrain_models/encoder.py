"""Sentence encoders of users: prefixes of queries and passages, and pooling of token vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from commonbrain.embeddings.local import OVERLAP_TOKENS, Encoder, to_unit, truncate
from commonbrain.embeddings.onnx_runtime import encode, open_tokenizer
from commonbrain.model.values import dataclass
from commonbrain_models.pooling import SentenceHead

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Encoding, Tokenizer

    from commonbrain.embeddings.interface import Matrix

_OVERLAP_SHARE: Final = 4
"""Windows overlap by at most a quarter."""


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
        whole = pieces = _open(path, lowers_text=lowers_text)
        # Special tokens that begin a text stay in front of its prefix.
        special = whole.encode("").ids
        added = len(whole.encode(prefix).ids) - len(special) if prefix else 0
        overlap = min(OVERLAP_TOKENS, window_tokens // _OVERLAP_SHARE)
        if added:
            pieces = _open(path, lowers_text=lowers_text)
            left = max(window_tokens - added, len(special) + 2)
            truncate(pieces, left, overlap=min(overlap, (left - len(special)) // 2))
        truncate(whole, window_tokens, overlap=overlap)
        first = whole.encode(prefix).ids
        begins = next((at for at, id_ in enumerate(first) if id_ not in special), len(first))
        return cls(prefix=prefix, whole=whole, pieces=pieces, prefix_tokens=begins + added)

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


def _open(path: Path, *, lowers_text: bool) -> Tokenizer:
    tokenizer = open_tokenizer(path)
    if lowers_text:
        from tokenizers import normalizers  # noqa: PLC0415 it takes long to import

        present = [tokenizer.normalizer] if tokenizer.normalizer else []
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *present])
    return tokenizer


def extent(piece: Encoding) -> tuple[int, int]:
    """Return the span of a text's characters in a window, without its special tokens."""
    ends = [
        ends
        for ends, is_special in zip(piece.offsets, piece.special_tokens_mask, strict=True)
        if not is_special
    ]
    return (ends[0][0], ends[-1][1]) if ends else (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledEncoder(Encoder):
    """A loaded sentence encoder whose output may be a vector per token."""

    head: SentenceHead
    queries: PrefixedTokenizer
    passages: PrefixedTokenizer

    def windows(self, text: str) -> Sequence[Encoding]:
        """Return all windows of a stored text; at least one."""
        return self.passages.windows(text)

    def query_vector(self, text: str) -> Matrix:
        """Embed the first window of a query, shape `(dimensions,)`."""
        return self._pooled(self.queries.first(text), self.queries)

    def vector(self, window: Encoding) -> Matrix:
        """Embed one window of a stored text, shape `(dimensions,)`."""
        return self._pooled(window, self.passages)

    def _pooled(self, window: Encoding, tokenizer: PrefixedTokenizer) -> Matrix:
        output = self.run(window)
        return to_unit(self.head.apply(output, prefix_tokens=tokenizer.prefix_tokens))
