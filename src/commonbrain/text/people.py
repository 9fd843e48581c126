"""People that a text names without an @: by a title, or by a common given name.

Precision comes before recall. A given name that is also a word or a city ("Mark", "Paris") counts
only where someone is asked, met or says something, or after a person and a conjunction.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from commonbrain.text.frames import DATES
from commonbrain.text.given_names import GIVEN_NAMES, NAMES_OF_PLACES, NAMES_THAT_ARE_WORDS
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.words import ARTICLES, FUNCTIONS, GROUP_OF, QUANTIFIERS

_CHARS_MAX: Final = 20_000
"""Characters of a text that are searched."""
_PEOPLE_MAX: Final = 50
_NAME_CHARS_MAX: Final = 24
_WORDS_MAX: Final = 3
"""Words of one name."""
_CACHED: Final = 256

_TOKEN: Final = lazy_pattern(r"[^\W\d_]+(?:['\u2019-](?!s\b)[^\W\d_]+)*|\n|\S")
_ENDS: Final = frozenset(".!?:;\n")
_TITLES: Final = frozenset("mr mrs ms dr prof professor nurse coach sir aunt uncle".split())
_BEFORE_NAMES: Final = (
    FUNCTIONS
    | QUANTIFIERS
    | frozenset(
        "yesterday today tomorrow later earlier ask tell ping thank thanks met call hi hello hey"
        " dear cc maybe perhaps finally".split()
    )
)
"""Words that may have a capital before a person, because they begin the sentence."""
_NO_PERSON_AFTER: Final = ARTICLES | frozenset("@ # / in at near around across within".split())
"""Articles, the signs of other names, and words before a place."""
_ASKED: Final = frozenset(
    "by ask asked tell told ping pinged thank thanked remind reminded said met".split()
)
"""Words before someone who did something or was asked."""
_SPEECH: Final = frozenset(
    "said says asks told tells wrote writes thinks thought insists believes remembers forgot"
    " would".split()
)
"""Verbs of speech that are neither participles nor nouns: their subject is a person."""
_MEETING: Final = frozenset("meet met meeting speak spoke talk talked lunch paired".split())
"""Words before "with" and a person."""
_JOINTS: Final = frozenset({"and", "or", "&"})
_STROKES: Final = str.maketrans("\u00f8\u0142\u0111\u0131", "oldi")
"""Letters that Unicode does not decompose: o, l and d with a stroke, and i without its dot."""


@lru_cache(maxsize=_CACHED)
def people_in(text: str) -> tuple[str, ...]:
    """List the people that a text names, case-folded, in order of first mention.

    A first name is left out if the text has one full name that begins with it.
    """
    words = _TOKEN.findall(unicodedata.normalize("NFC", text[:_CHARS_MAX]))
    names: dict[str, None] = {}
    at = 0
    while at < len(words) and len(names) < _PEOPLE_MAX:
        end = _end_of_name(words, at)
        if end > at and _is_person(words, at, end=end, names=names):
            names.setdefault(" ".join(words[at:end]).casefold())
        at = max(end, at + 1)
    return tuple(name for name in names if sum(one.startswith(f"{name} ") for one in names) != 1)


def _end_of_name(words: Sequence[str], start: int) -> int:
    """Return the end of the name that begins at a place; the place itself if none does."""
    first = _without_accents(words[start].casefold().split("-")[0])
    is_listed = first in GIVEN_NAMES or first in NAMES_THAT_ARE_WORDS
    if not (is_listed or _has_title(words, start)):
        return start
    end = start
    while end < len(words) and end - start < _WORDS_MAX and _is_name_word(words[end]):
        end += 1
    return end


def _is_person(words: Sequence[str], start: int, *, end: int, names: Iterable[str]) -> bool:
    """Return whether words with capitals that begin with a given name are a person here."""
    if _has_title(words, start):
        return True
    before, after = _folded(words, start - 1), _folded(words, end)
    if _is_part_of_name(words, start, end=end) or before in _NO_PERSON_AFTER:
        return False
    name = _without_accents(words[start].casefold().split("-")[0])
    if name not in NAMES_THAT_ARE_WORDS | NAMES_OF_PLACES:
        return True
    is_met = before == "with" and _folded(words, start - 2) in _MEETING
    is_joined = name not in NAMES_OF_PLACES and _is_joined(words, start, names=names)
    is_speaking = after in _SPEECH and before not in {*_JOINTS, ","}
    return before in _ASKED or is_met or is_joined or is_speaking


def _is_part_of_name(words: Sequence[str], start: int, *, end: int) -> bool:
    """Return whether another word with a capital makes it another name: "Aston Martin"."""
    if end < len(words) and (words[end][0].isupper() or words[end][0].isdigit()):
        return True
    if start == 0 or not words[start - 1][0].isupper():
        return _folded(words, start - 2) == "st" and words[start - 1] == "."
    opens = start == 1 or words[start - 2] in _ENDS
    before = _folded(words, start - 1)
    # A day, a month or an office is apart: "On Monday Ann leaves", "our CTO Tom".
    is_apart = _is_date(before) or words[start - 1].isupper()
    return not (is_apart or (opens and before in _BEFORE_NAMES))


def _is_joined(words: Sequence[str], start: int, *, names: Iterable[str]) -> bool:
    """Return whether the name follows a person and a conjunction: "Samir and Grace"."""
    before = _folded(words, start - 2)
    return _folded(words, start - 1) in _JOINTS and any(
        one == before or one.endswith(f" {before}") for one in names
    )


def _has_title(words: Sequence[str], start: int) -> bool:
    """Return whether "Dr." or "Mrs" stands before a place."""
    at = start - 2 if start and words[start - 1] == "." else start - 1
    # "MR" is a merge request.
    return _folded(words, at) in _TITLES and words[at].istitle()


def _folded(words: Sequence[str], at: int) -> str:
    return words[at].casefold() if 0 <= at < len(words) else ""


def _without_accents(word: str) -> str:
    """Return a name as it is listed: José as "jose", Søren as "soren"."""
    if word.isascii():
        return word
    letters = unicodedata.normalize("NFKD", word.translate(_STROKES))
    return "".join(one for one in letters if not unicodedata.combining(one))


def _is_name_word(word: str) -> bool:
    """Return whether a word is written like a part of a name, and is no day or month."""
    is_written = all(part[:1].isupper() for part in word.split("-")) and not word.isupper()
    return is_written and len(word) <= _NAME_CHARS_MAX and not _is_date(word.casefold())


def _is_date(word: str) -> bool:
    return GROUP_OF.get(word, DATES) < DATES
