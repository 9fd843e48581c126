"""Split raw text into chunks that can each be one memory, in order and without loss."""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from commonbrain.model.values import dataclass, field
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.search_words import (
    CHARACTERS,
    LETTERS,
    NOT_LATIN,
    UNSPACED,
    count_words,
    folded,
)

CHUNK_WORDS_MAX: Final = 300
"""A longer paragraph states several things; validation accepts at most 400 words."""
CHUNK_WORDS_MIN: Final = 5
"""Fewer words are no statement of their own."""

_FENCE: Final = lazy_pattern(r"[ \t]*(?P<sign>```|~~~)")
_INDENTED: Final = ("    ", "\t")
"""The begin of a line of code."""
NOT_ABBREVIATED: Final = r"(?<!\b(?:Dr|Mr|Ms|vs)\.)(?<!\bMrs\.)(?<!\bProf\.)(?<!\b(?:e\.g|i\.e)\.)"
"""A pattern that fails after an abbreviation that a sentence continues: "Dr. Vance"."""
_SENTENCE_END: Final = lazy_pattern(
    rf"(?<=[.!?]){NOT_ABBREVIATED}\s+|(?<=[。！？])\s*|\n+"  # noqa: RUF001 full-width marks
)
_STATEMENT_END: Final = lazy_pattern(rf"{_SENTENCE_END.pattern}|(?<=[;；])\s+")  # noqa: RUF001

_TITLE_WORDS_MAX: Final = 12
_TITLE_CHARS_MAX: Final = 120
"""A longer heading is a statement."""
_LEVELS: Final = 6
_RULE: Final = frozenset("-*_= \t\n")
"""The signs of a line drawn between passages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One chunk of a text, and the titles above it: "Postmortem 12 > Cause", or empty."""

    text: str
    section: str = ""


@dataclass(slots=True)
class _Passage:
    parts: list[str]
    words: int
    section: str

    def join(self, other: "_Passage") -> bool:
        """Append another passage, unless both are too long for one chunk."""
        if self.words + other.words > CHUNK_WORDS_MAX:
            return False
        self.parts += other.parts
        self.words += other.words
        return True


def split(text: str) -> list[Chunk]:
    """Split at blank lines, and long paragraphs at line ends, sentences and words.

    Titles and what ends in a colon stay with the passage after them, and every passage below a
    title has it as its section. A passage of fewer than five words joins the one before it in its
    section, or else the next. Every word is in some chunk.
    """
    done: list[_Passage] = []
    titles: dict[int, str] = {}
    waiting: _Passage | None = None
    for part in passages(text):
        level, title = _title(part)
        if level:
            titles = {above: one for above, one in titles.items() if above < level} | {level: title}
        new = _Passage([part], count_words(part), " > ".join(titles.values()))
        is_short = new.words < CHUNK_WORDS_MIN and waiting is None
        has_before = bool(done) and done[-1].section == new.section
        if is_short and not level and has_before and done[-1].join(new):
            continue
        if waiting is not None and not waiting.join(new):
            done.append(waiting)
            waiting = None
        passage = waiting or new
        passage.section = new.section
        is_open = bool(level) or is_short or part.endswith(":")
        waiting = passage if is_open else None
        if not is_open:
            done.append(passage)
    if waiting is not None and not (done and done[-1].join(waiting)):
        done.append(waiting)
    return [Chunk(text="\n\n".join(one.parts), section=one.section) for one in done]


def passages(text: str) -> list[str]:
    """Split at blank lines, and long paragraphs at line ends, sentences and words, and no more."""
    return [part for paragraph in _paragraphs(text) for part in _cut(paragraph)]


def _title(line: str) -> tuple[int, str]:
    """Return level and text of a title such as "## Cause" or "**Cause**"; level 0 if it is none."""
    bare = "" if line.startswith(_INDENTED) else line.strip()
    level = len(bare) - len(bare.lstrip("#"))
    text = bare[level:].strip("# \t")
    if bare.startswith("**") and bare.rstrip(":").endswith("**"):
        level, text = _LEVELS + 1, bare.strip("*: \t")
    elif not (level <= _LEVELS and bare[level : level + 1].isspace()):
        level = 0
    is_short = len(text) <= _TITLE_CHARS_MAX and count_words(text) <= _TITLE_WORDS_MAX
    return (level, text) if text and is_short and not {"*", "\n"} & set(text) else (0, "")


def split_sentences(text: str, *, at_semicolons: bool = False) -> list[str]:
    """Split a text into its sentences and lines, each with its final mark and without outer blanks.

    Takes time linear in the length of the text.
    """
    ends = _STATEMENT_END if at_semicolons else _SENTENCE_END
    return [sentence for part in ends.split(text) if (sentence := part.strip())]


def _paragraphs(text: str) -> Iterator[str]:
    """Return titles, and the text between blank lines unless it is only a drawn line.

    Fenced code blocks are not split.
    """
    lines: list[str] = []
    fence = ""
    for line in [*text.split("\n"), ""]:
        mark = _FENCE.match(line)
        if mark is not None and fence in {"", mark["sign"]}:
            fence = "" if fence else mark["sign"]
        is_fenced = bool(fence)
        is_title = not is_fenced and _title(line)[0] > 0
        if not is_fenced and (is_title or not line.strip()):
            yield from _undrawn("\n".join(lines))
            lines = []
        if is_title:
            yield line
        elif is_fenced or line.strip():
            lines.append(line)
    yield from _undrawn("\n".join(lines))


def _undrawn(paragraph: str) -> Iterator[str]:
    if not _RULE.issuperset(paragraph):
        yield paragraph


def _cut(paragraph: str) -> Iterator[str]:
    if count_words(paragraph) <= CHUNK_WORDS_MAX:
        yield paragraph.strip("\n")
        return
    lines: list[str] = []
    for line in paragraph.split("\n"):
        if count_words(line) <= CHUNK_WORDS_MAX:
            lines += [line.rstrip()] if line.strip() else []
            continue
        yield from _fill(lines, by="\n")
        lines = []
        yield from _fill(
            " ".join(words[start : start + CHUNK_WORDS_MAX])
            for words in map(str.split, split_sentences(line))
            for start in range(0, len(words), CHUNK_WORDS_MAX)
        )
    yield from _fill(lines, by="\n")


def _fill(pieces: Iterable[str], *, by: str = " ") -> Iterator[str]:
    """Join pieces again as long as they fit."""
    held: list[str] = []
    words = 0
    for piece in pieces:
        more = count_words(piece)
        if held and words + more > CHUNK_WORDS_MAX:
            yield by.join(held)
            held, words = [], 0
        held.append(piece)
        words += more
    if held:
        yield by.join(held)


GAP: Final = "[...]"
"""Marks an omission."""
# Not within a number, name or abbreviation: only before a space or after a full-width mark; nor
# after a colon, because what follows needs its introduction. A run of blanks is tried once.
_BREAK: Final = lazy_pattern(r"(?<=[.!?])\s+|(?<=[。！？；])\s*|(?<!\s)\s*\n\s*")  # noqa: RUF001 full-width marks
_PIECE_CHARS_MAX: Final = 240
"""A longer stretch without a sentence end is cut between words."""
_STEM_CHARS_MIN: Final = 4
"""Words with this many initial letters in common before an ending count as one word."""
_ENDING_CHARS: Final = 2
_NEXT: Final = 0.4
"""Share of the previous sentence's score that a sentence gains: answers follow questions."""
_BEFORE: Final = 0.2
_TERMS_MAX: Final = 24
_CACHED: Final = 64
"""Patterns of the latest queries, compiled when the first long text needs them."""


@dataclass(slots=True)
class Sought:
    """The terms of a query to find in texts."""

    terms: Sequence[str] = ()
    """In lower case."""
    _stems: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Take the stems: the terms without their last letters, which may be an ending."""
        self._stems = frozenset(
            term[: max(_STEM_CHARS_MIN, len(term) - _ENDING_CHARS)]
            for term in self.terms[:_TERMS_MAX]
        )

    def stems_in(self, text: str) -> set[str]:
        """Return the stems with which a word of a text begins."""
        lower = folded(text).lower()
        return {stem for stem in self._stems if begins_word(lower, stem)}

    def places(self, text: str) -> Iterator[tuple[int, str]]:
        """Return the position of each matching word, and the word in lower case."""
        if self.terms:
            is_foreign = not text.isascii() and NOT_LATIN.search(text) is not None
            matches = _pattern_of(self._stems, is_foreign=is_foreign).finditer(text)
            yield from ((match.start(), match[0].lower()) for match in matches)


@lru_cache(_CACHED)
def _pattern_of(stems: Collection[str], *, is_foreign: bool) -> "re.Pattern[str]":
    longest = sorted(stems, key=len, reverse=True)
    source = "|".join(map(_spelt if is_foreign else re.escape, longest))
    return re.compile(source if is_foreign else rf"\b(?:{source})", re.IGNORECASE)


_UNJOINED: Final = lazy_pattern(rf"[{UNSPACED}]|[^\x00-\u03ff][\x00-\x7f]")
"""Two letters that are in no word together: of scripts without blanks, or before a Latin name."""


def begins_word(text: str, stem: str) -> bool:
    """Return whether a word of a text begins with a stem; both in lower case."""
    at = text.find(stem)
    while at > 0 and text[at - 1].isalnum() and not _UNJOINED.search(text[at - 1 : at + 1]):
        at = text.find(stem, at + 1)
    return at >= 0


def _spelt(stem: str) -> str:
    """Return the pattern of a stem where a word begins; its marks are left out."""
    apart = r"\u0400-\U0010ffff" if stem.isascii() else UNSPACED
    is_marked = NOT_LATIN.match(stem) is not None
    spelt = (r"[^\w\s]{0,3}" if is_marked else "").join(map(re.escape, stem))
    return spelt if CHARACTERS.match(stem) or LETTERS.match(stem) else rf"(?<![^\W{apart}]){spelt}"


def excerpt(text: str, sought: Sought, *, chars: int) -> str:
    """Return the best matching sentences in their order, within a number of characters.

    Omissions are marked. Returns the opening if nothing matches, and an empty text if not even one
    piece fits.
    """
    places = pieces(text)
    worth = _worth(text, places, sought=sought)
    best = sorted(range(len(places)), key=lambda place: (-worth[place], place))
    chosen: set[int] = set()
    # An omission may be marked at the start and after each isolated piece.
    budget = chars - (len(GAP) + 1 if len(places) > 1 else 0)
    for place in best:
        start, end = places[place]
        budget_after = budget - (end - start) - len(GAP) - 2
        if budget_after >= 0:
            chosen.add(place)
            budget = budget_after
    return _joined(text, places, chosen=chosen) if chosen else ""


def pieces(text: str) -> list[tuple[int, int]]:
    """Split a text into sentences and lines, and long ones between words."""
    places: list[tuple[int, int]] = []
    start = 0
    for match in _BREAK.finditer(text):
        places += _split_long(text, start=start, end=match.start())
        start = match.end()
    return [*places, *_split_long(text, start=start, end=len(text))]


def _split_long(text: str, *, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > _PIECE_CHARS_MAX:
        cut = max(text.rfind(mark, start + 1, start + _PIECE_CHARS_MAX) for mark in " \uff0c\u3001")
        if cut < 0:
            break
        yield start, cut
        start = cut + 1
    if start < end:
        yield start, end


def _worth(text: str, pieces: Sequence[tuple[int, int]], *, sought: Sought) -> Sequence[float]:
    """Score pieces by the words they contain, rare ones higher, and by their neighbours."""
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


def _joined(text: str, pieces: Sequence[tuple[int, int]], *, chosen: set[int]) -> str:
    """Join the chosen pieces in order, with a mark for each gap."""
    parts = [] if 0 in chosen else [GAP]
    first: int | None = None
    for place in sorted(chosen):
        first = place if first is None else first
        if place + 1 in chosen:
            continue
        parts.append(text[pieces[first][0] : pieces[place][1]])
        first = None
        if place + 1 < len(pieces):
            parts.append(GAP)
    return " ".join(parts)
