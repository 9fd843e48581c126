"""Texts without what hides a token from patterns, with the place of each character.

Invisible characters are Unicode's Default_Ignorable_Code_Point (DerivedCoreProperties.txt);
compatibility characters are replaced by their NFKC form (Unicode Standard Annex 15).
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from urllib.parse import unquote

from commonbrain.model.values import dataclass
from commonbrain.text.patterns import lazy_pattern

_INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
# Those of the compatibility characters that become ASCII letters, digits and signs: long s,
# superscripts, letterlike, Roman and enclosed forms, ligatures, small and full-width forms,
# mathematical letters, enclosed letters, segmented digits.
_COMPATIBLE: Final = (
    "\u00aa\u00b2\u00b3\u00b9\u00ba\u017f\u02b0-\u02b8\u02e0-\u02e3\u1d2c-\u1d6a\u2070-\u209c"
    "\u2102-\u213a\u2145-\u2149\u2160-\u217f\u2460-\u24ea\u2c7c\u2c7d\ufb00-\ufb06\ufe4d-\ufe6b"
    "\uff01-\uff5e\U0001d400-\U0001d7ff\U0001f100-\U0001f12b\U0001f130-\U0001f149"
    "\U0001fbf0-\U0001fbf9"
)
# Emoji and scripts have invisible characters of their own, but not inside of an ASCII token.
_HIDING: Final = lazy_pattern(rf"[!-~][{_INVISIBLE}]+[!-~]|[{_COMPATIBLE}]")
_HIDDEN: Final = lazy_pattern(rf"(?P<invisible>[{_INVISIBLE}]+)|[{_COMPATIBLE}]")
_ESCAPED: Final = lazy_pattern(r"%(?:2[1-9A-Fa-f]|[3-7][0-9A-Fa-f]|0[ADad]|[C-Fc-f][0-9A-Fa-f])")
_ESCAPES: Final = lazy_pattern(r"%[0-7][0-9A-Fa-f]|(?:%[89A-Fa-f][0-9A-Fa-f])+")
_ROUNDS_MAX: Final = 4
"""An escape may hold another escape, or an invisible character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedText:
    """A text made of pieces of another text."""

    text: str
    at: Sequence[int]
    """Where each piece begins in this text, ascending; the first is 0."""
    origins: Sequence[tuple[int, int]]
    """Start and end of each piece in the other text."""

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the other text from which a span that is not empty was made."""
        first, last = bisect_right(self.at, start) - 1, bisect_right(self.at, end - 1) - 1
        begin, stop = self.origins[first][0], self.origins[last][1]
        if self._is_as_long(first):
            begin += start - self.at[first]
        if self._is_as_long(last):
            stop = self.origins[last][0] + end - self.at[last]
        return begin, stop

    def _is_as_long(self, piece: int) -> bool:
        """Whether the characters of a piece correspond one to one."""
        ends = self.at[piece + 1] if piece + 1 < len(self.at) else len(self.text)
        return ends - self.at[piece] == self.origins[piece][1] - self.origins[piece][0]


def of_pieces(pieces: Sequence[tuple[str, int, int]]) -> FoldedText:
    """Join pieces, each given with its start and end in the other text; empty ones are dropped."""
    at: list[int] = []
    origins: list[tuple[int, int]] = []
    place = 0
    for piece, start, end in pieces:
        if piece:
            at.append(place)
            origins.append((start, end))
            place += len(piece)
    return FoldedText(text="".join(piece for piece, _, _ in pieces), at=at, origins=origins)


def folded(text: str) -> Sequence[FoldedText]:
    """Decode percent escapes, drop invisible characters and replace compatibility characters.

    Each result is made of the one before it, the first of `text`; empty if nothing is hidden.
    """
    results: list[FoldedText] = []
    for _ in range(_ROUNDS_MAX):
        if "%" in text and _ESCAPED.search(text):
            result = _replaced(text, _ESCAPES.finditer(text), by=lambda match: unquote(match[0]))
        elif not text.isascii() and _HIDING.search(text):
            result = _replaced(text, _HIDDEN.finditer(text), by=_plain)
        else:
            break
        results.append(result)
        text = result.text
    return results


def origin(steps: Sequence[FoldedText], start: int, *, end: int) -> tuple[int, int]:
    """Return the span of the first text from which a span of the last one was made."""
    for one in reversed(steps):
        start, end = one.span(start, end)
    return start, end


def _plain(match: re.Match[str]) -> str:
    return "" if match["invisible"] else unicodedata.normalize("NFKC", match[0])


def _replaced(
    text: str, matches: Iterator[re.Match[str]], *, by: Callable[[re.Match[str]], str]
) -> FoldedText:
    pieces: list[tuple[str, int, int]] = []
    done = 0
    for match in matches:
        start, end = match.span()
        pieces += [(text[done:start], done, start), (by(match), start, end)]
        done = end
    return of_pieces([*pieces, (text[done:], done, len(text))])


_EDGES: Final = " \t\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029\\>|"
"""Characters around a break that belong to the layout: indents, continuations and quotes."""
_DIGIT: Final = lazy_pattern(r"[0-9]")
_JOINED_MIN: Final = 16
"""No known format is shorter."""
_PIECE_MAX: Final = 300
_WINDOW_MAX: Final = 4000
_OVERLAP: Final = 600
"""What the next window repeats of a full one: more than the longest format of a random part."""


def joined_lines(text: str) -> Iterator[FoldedText]:
    """Yield tokens joined over line breaks: the last of a line with the first of the next one.

    A line that is a single token is joined to both its neighbours. Without a digit, or too short
    for a key, they are not yielded.
    """
    pieces: list[tuple[str, int, int]] = []
    size = place = 0
    for line in text.splitlines(keepends=True):
        body = line.strip(_EDGES)
        start = place + (line.find(body[0]) if body else 0)
        place += len(line)
        words = body.split(None, 1)
        is_single = len(words) == 1 and len(body) <= _PIECE_MAX
        if pieces and words:
            head = words[0][:_PIECE_MAX]
            pieces.append((head, start, start + len(head)))
            size += len(head)
        if not is_single or size > _WINDOW_MAX:
            if _may_hold_key(pieces, size):
                yield of_pieces(pieces)
            pieces = _last(pieces) if is_single else []
            size = sum(len(piece) for piece, _, _ in pieces)
        if words and not pieces:
            tail = body.rsplit(None, 1)[-1][-_PIECE_MAX:]
            end = start + len(body)
            pieces, size = [(tail, end - len(tail), end)], len(tail)
    if _may_hold_key(pieces, size):
        yield of_pieces(pieces)


def _may_hold_key(pieces: Sequence[tuple[str, int, int]], size: int) -> bool:
    long_enough = len(pieces) > 1 and size >= _JOINED_MIN
    return long_enough and any(_DIGIT.search(piece) for piece, _, _ in pieces)


def _last(pieces: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Return the pieces that the next window repeats."""
    repeated: list[tuple[str, int, int]] = []
    size = 0
    for piece in reversed(pieces):
        size += len(piece[0])
        if size > _OVERLAP:
            break
        repeated.append(piece)
    return repeated[::-1]
