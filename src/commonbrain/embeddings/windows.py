"""Split a text into windows for a model whose tokenizer is not available."""

import re
from typing import Final

from commonbrain.text.tokens import estimate

WINDOW_TOKENS: Final = 200
"""As in the default embedder; small models were trained on this length too."""
OVERLAP_TOKENS: Final = 50
"""A quarter of a window, so that a sentence cut at the end of one is whole in the next."""
_BLANK: Final = "-"
"""Replaces an empty text, which some endpoints reject."""
_PIECE: Final = re.compile(r"\s*\S{1,20}")
"""A word, or 20 characters of text without spaces, with preceding space."""


def token_windows(text: str) -> list[str]:
    """Split a text into windows of at most 200 tokens (estimated) that overlap by 50.

    A short text is one window, unchanged except for characters that no endpoint accepts: lone
    surrogates, which have no UTF-8 form, become question marks, and NUL becomes a space.
    """
    sendable = text.encode(errors="replace").decode().replace("\x00", " ")
    # Trailing space begins no piece, and the pattern would be tried at every position.
    pieces = _PIECE.findall(sendable.rstrip())
    costs = [estimate(piece) for piece in pieces]
    cut: list[str] = []
    start = end = 0
    while end < len(pieces):
        end = _end(costs, start)
        cut.append("".join(pieces[start:end]).strip())
        start = _restart(costs, start, end=end)
    return cut or [_BLANK]


def _end(costs: list[int], start: int) -> int:
    """Return where a window that starts at a piece is full; it holds at least one piece."""
    end, spent = start + 1, costs[start]
    while end < len(costs) and spent + costs[end] <= WINDOW_TOKENS:
        spent += costs[end]
        end += 1
    return end


def _restart(costs: list[int], start: int, *, end: int) -> int:
    """Return where the next window starts: after the start of this one, so that it ends."""
    back, shared = end, 0
    while back - 1 > start and shared + costs[back - 1] <= OVERLAP_TOKENS:
        back -= 1
        shared += costs[back]
    return back
