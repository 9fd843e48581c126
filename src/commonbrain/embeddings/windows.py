"""Cutting a text for a model whose tokenizer is elsewhere."""

import re
from typing import Final

from commonbrain.text.tokens import estimate

WINDOW_TOKENS: Final = 200
"""As long as the default embedder's, which small models were trained on too."""
OVERLAP_TOKENS: Final = 50
"""A quarter of a window, so that a sentence cut by one window's end is whole in the next."""
_BLANK: Final = "-"
"""Stands for a text without a word, which some endpoints refuse."""
_PIECE: Final = re.compile(r"\s*\S{1,20}")
"""A word, or 20 characters of what has no spaces, with the space in front of it."""


def token_windows(text: str) -> list[str]:
    """Cut a text into pieces of at most 200 tokens (estimated) that share 50 with the one before.

    A short text is one window, letter by letter but for what no endpoint takes: halves of
    surrogate pairs, which have no UTF-8, become question marks, and NUL becomes a space.
    """
    sendable = text.encode(errors="replace").decode().replace("\x00", " ")
    # Space at the end is no piece's beginning, and would be tried for one at every place.
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
    """Say where a window that begins at a piece is full; it holds one piece at least."""
    end, spent = start + 1, costs[start]
    while end < len(costs) and spent + costs[end] <= WINDOW_TOKENS:
        spent += costs[end]
        end += 1
    return end


def _restart(costs: list[int], start: int, *, end: int) -> int:
    """Say where the next window begins: after this one's beginning, so that there is an end."""
    back, shared = end, 0
    while back - 1 > start and shared + costs[back - 1] <= OVERLAP_TOKENS:
        back -= 1
        shared += costs[back]
    return back
