"""Excerpts: the sentences of a long text around what a question asks, and nothing of our own."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

GAP: Final = "[...]"
"""Stands where something was left out."""
# Not within a number, a name or an abbreviation: only before a space or after a full-width mark;
# nor after a colon, which leads to what must not stand alone. A run of blanks is tried once.
_BREAK: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])\s*|(?<!\s)\s*\n\s*")  # noqa: RUF001 full-width marks
_PIECE_CHARS_MAX: Final = 240
"""A longer stretch without the end of a sentence is cut between words."""
_STEM_CHARS_MIN: Final = 4
"""Words that share so many first letters, less an ending, are held to be one word."""
_ENDING_CHARS: Final = 2
_NEXT: Final = 0.4
"""What a sentence gains from what the one before it matches: answers follow what is asked."""
_BEFORE: Final = 0.2
_TERMS_MAX: Final = 24


@dataclass(slots=True)
class Sought:
    """The words of a question to be found in texts; made ready with the first that is too long."""

    terms: Sequence[str] = ()
    """In lower case."""
    _stems: "re.Pattern[str] | None" = field(default=None, init=False)

    def places(self, text: str) -> Iterator[tuple[int, str]]:
        """Give where in a text each word stands, and the word in lower case."""
        if not self.terms:
            return
        if self._stems is None:
            self._stems = _any_of(self.terms[:_TERMS_MAX])
        yield from ((match.start(), match[0].lower()) for match in self._stems.finditer(text))


def _any_of(terms: Iterable[str]) -> "re.Pattern[str]":
    longest = sorted(dict.fromkeys(map(_stem, terms)), key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest))})", re.IGNORECASE)


def _stem(term: str) -> str:
    return term[: max(_STEM_CHARS_MIN, len(term) - _ENDING_CHARS)]


def excerpt(text: str, sought: Sought, *, chars: int) -> str:
    """Give the sentences that tell most of what is sought, in their order, in so many characters.

    What is left out is marked. Empty where not even one piece of the text fits; a text in which
    nothing is sought gives its opening.
    """
    places = pieces(text)
    worth = _worth(text, places, sought=sought)
    best = sorted(range(len(places)), key=lambda place: (-worth[place], place))
    kept: set[int] = set()
    # A mark may stand before all of it, and one after each piece that stands alone.
    room = chars - (len(GAP) + 1 if len(places) > 1 else 0)
    for place in best:
        start, end = places[place]
        room_after = room - (end - start) - len(GAP) - 2
        if room_after >= 0:
            kept.add(place)
            room = room_after
    return _joined(text, places, kept=kept) if kept else ""


def pieces(text: str) -> list[tuple[int, int]]:
    """Cut a text into sentences, lines, and runs of words where those are too long."""
    places: list[tuple[int, int]] = []
    start = 0
    for found in _BREAK.finditer(text):
        places += _short(text, start=start, end=found.start())
        start = found.end()
    return [*places, *_short(text, start=start, end=len(text))]


def _short(text: str, *, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > _PIECE_CHARS_MAX:
        cut = text.rfind(" ", start + 1, start + _PIECE_CHARS_MAX)
        if cut < 0:
            break
        yield start, cut
        start = cut + 1
    if start < end:
        yield start, end


def _worth(text: str, pieces: Sequence[tuple[int, int]], *, sought: Sought) -> Sequence[float]:
    """Weigh pieces by the words they hold, the rarer the more, and by what is near."""
    starts = [start for start, _ in pieces]
    holding: dict[str, set[int]] = {}
    for place, word in sought.places(text):
        holding.setdefault(word, set()).add(max(0, bisect_right(starts, place) - 1))
    own = [0.0] * len(pieces)
    for places in holding.values():
        for place in places:
            own[place] += 1 / len(places)
    padded = [0.0, *own, 0.0]
    return [
        mine + _NEXT * earlier + _BEFORE * later
        for earlier, mine, later in zip(padded, own, padded[2:], strict=False)
    ]


def _joined(text: str, pieces: Sequence[tuple[int, int]], *, kept: set[int]) -> str:
    """Give the kept pieces as they stand in the text, with a mark for each gap."""
    told = [] if 0 in kept else [GAP]
    first: int | None = None
    for place in sorted(kept):
        first = place if first is None else first
        if place + 1 in kept:
            continue
        told.append(text[pieces[first][0] : pieces[place][1]])
        first = None
        if place + 1 < len(pieces):
            told.append(GAP)
    return " ".join(told)
