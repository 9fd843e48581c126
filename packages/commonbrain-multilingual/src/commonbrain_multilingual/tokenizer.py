"""The tokenizer of the model: a unigram language model over words (Kudo 2018).

The `tokenizers` library takes 290 MB and 0.9 s to load this vocabulary; a dict takes 50 MB and
0.1 s, and finds the same tokens.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path

BEGIN, END, UNKNOWN = 0, 2, 3
"""The tokens of the model that are no text, by number; 1 is padding."""
WORD: Final = "▁"
"""What each word begins with, as its pieces have it."""
_UNKNOWN_PENALTY: Final = 10.0
"""By how much a character without a piece is less likely than any piece, as in SentencePiece."""
_CACHED_WORDS_MAX: Final = 20_000
"""Some 5 MB."""
_CACHED_CHARS_MAX: Final = 32
"""What is longer is no word but a sentence without blanks, or data."""
_TILDE: Final = "\uff5e"
"""A dash in Japanese and Chinese, which has a piece of its own; NFKC would replace it."""
# What SentencePiece calls nmt_nfkc, and before NFKC itself.
_CONTROLS: Final = dict.fromkeys([*range(1, 9), 11, *range(14, 32), 127, 143, 159])
_BLANKS: Final = dict.fromkeys(
    [9, 10, 12, 13, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD], " "
)
_CLEANED: Final = _CONTROLS | _BLANKS
_BEYOND_ASCII: Final = re.compile(r"[^ -~]")


@dataclass(frozen=True, slots=True)
class Window:
    """The tokens of one input of the model."""

    ids: Sequence[int]
    overflowing: Sequence[Window] = ()
    """The windows after the first one of a text."""


class UnigramTokenizer:
    """Cuts texts into tokens; has what an encoder uses of `tokenizers.Tokenizer`."""

    def __init__(self, pieces: Sequence[str], scores: Sequence[float]) -> None:
        # Those that mark a beginning or an end have the score 0, and are no text.
        self._ids = {piece: at for at, piece in enumerate(pieces) if scores[at] < 0}
        self._scores = scores
        self._unknown = min(scores) - _UNKNOWN_PENALTY
        self._longest = max(map(len, pieces))
        self._of_word = lru_cache(_CACHED_WORDS_MAX)(self._best_pieces)
        self._question, self._passage = self.ids("query:"), self.ids("passage:")
        self._tokens, self._overlap = 512, 0

    @classmethod
    def read(cls, pieces: Path, scores: Path) -> Self:
        """Read a vocabulary: pieces one a line, and scores as float32, little-endian."""
        numbers = array("f")
        numbers.frombytes(scores.read_bytes())
        if sys.byteorder == "big":
            numbers.byteswap()
        return cls(pieces.read_bytes().decode().split("\n"), numbers)

    def enable_truncation(
        self, tokens: int, *, stride: int, strategy: str = "longest_first"
    ) -> None:
        """Cut texts into windows of at most so many tokens, of which `stride` overlap."""
        del strategy  # There is no pair of texts of which either could be shortened.
        self._tokens, self._overlap = tokens, stride

    def encode(self, text: str, pair: str | None = None) -> Window:
        """Return the windows of a text to store; of a pair, the first of the second, a question."""
        if pair is not None:
            size = self._tokens - len(self._question) - 2
            return Window((BEGIN, *self._question, *self.ids(pair)[:size], END))
        ids = self.ids(text)
        size = self._tokens - len(self._passage) - 2
        starts = range(0, max(len(ids) - self._overlap, 1), size - self._overlap)
        first, *others = (
            Window((BEGIN, *self._passage, *ids[start : start + size], END)) for start in starts
        )
        return Window(first.ids, others)

    def ids(self, text: str) -> list[int]:
        """Return the tokens of a text, without any that mark its beginning or end."""
        words = (f"{WORD}{word}" for word in normalised(text).split(" ") if word)
        return [
            *chain.from_iterable(
                self._of_word(word) if len(word) <= _CACHED_CHARS_MAX else self._best_pieces(word)
                for word in words
            )
        ]

    def _best_pieces(self, word: str) -> Sequence[int]:
        """Find the likeliest pieces that make up a word (Viterbi); time is linear in its length."""
        size, ids, scores = len(word), self._ids, self._scores
        best = [0.0] + [float("-inf")] * size
        # By place: the last piece before it, and where that begins.
        last, begins = [UNKNOWN] * (size + 1), [0] * (size + 1)
        for start in range(size):
            so_far = best[start]
            for end in range(start + 1, min(start + self._longest, size) + 1):
                number = ids.get(word[start:end])
                if number is not None and so_far + scores[number] > best[end]:
                    best[end] = so_far + scores[number]
                    last[end], begins[end] = number, start
            if so_far + self._unknown > best[start + 1]:
                best[start + 1] = so_far + self._unknown
                last[start + 1], begins[start + 1] = UNKNOWN, start
        numbers: list[int] = []
        place = size
        while place:
            # Unknown characters that follow each other are one unknown token.
            if not (last[place] == UNKNOWN and numbers and numbers[-1] == UNKNOWN):
                numbers.append(last[place])
            place = begins[place]
        return tuple(reversed(numbers))


def normalised(text: str) -> str:
    """Return a text with the characters that the model knows: compatibility forms, blanks."""
    if not _BEYOND_ASCII.search(text):
        return text
    cleaned = text.translate(_CLEANED)
    return _TILDE.join(unicodedata.normalize("NFKC", part) for part in cleaned.split(_TILDE))
