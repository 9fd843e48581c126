"""People that a text names without an @: by a title, or by a common given name.

Precision comes before recall. A given name that is also a word or a city ("Mark", "Paris") counts
only where the sentence treats it as a person's: someone is asked, says or has something.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from commonbrain.text.given_names import GIVEN_NAMES, NAMES_OF_PLACES, NAMES_THAT_ARE_WORDS
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.products import ALIASES, PRODUCTS
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
_NO_SURNAMES: Final = frozenset(
    "street st avenue road lane square park station airport bridge river island city county"
    " church school university college hospital hotel house hall tower building office center"
    " centre cluster region team group inc corp ltd gmbh llc labs support legal finance"
    " jan feb mar apr may jun jul aug sep sept oct nov dec today tomorrow".split()
)
"""Words after a given name that make it another name: "Victoria Station"."""
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
    "by ask asked tell told ping pinged thank thanked remind reminded said".split()
)
"""Words before someone who did something or was asked."""
_TO: Final = frozenset("according assigned reassigned delegated escalated belongs".split())
"""Words before "to" and a person."""
_SPEECH: Final = frozenset(
    "said says asks told tells wrote writes thinks thought insists believes remembers"
    " forgot".split()
)
"""Verbs of speech that are neither participles nor nouns: their subject is a person."""
_HAS: Final = frozenset("has had would".split())
_IS: Final = frozenset("' \u2019 is was will knows leads left wants met agrees owns".split())
_JOINTS: Final = frozenset({"and", "or", "&"})
_MODAL: Final = "will"
_SENTENCE_WORDS: Final = 40
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
        if end > at and _is_person(
            words, at, end=end, is_joined=_is_joined(words, at, names=names)
        ):
            names.setdefault(" ".join(words[at:end]).casefold())
        at = max(end, at + 1)
    return tuple(name for name in names if not _is_shortened(name, names))


def _is_shortened(name: str, names: Iterable[str]) -> bool:
    return sum(one.startswith(f"{name} ") for one in names) == 1


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


def _is_person(words: Sequence[str], start: int, *, end: int, is_joined: bool) -> bool:
    """Return whether words with capitals that begin with a given name are a person here."""
    if _has_title(words, start):
        return True
    before, after = _folded(words, start - 1), _folded(words, end)
    if _is_part_of_name(words, start, end=end) or before in _NO_PERSON_AFTER:
        return False
    name = _without_accents(words[start].casefold().split("-")[0])
    is_asked = before in _ASKED or (before == "to" and _folded(words, start - 2) in _TO)
    if name in NAMES_OF_PLACES:
        is_listing = before in _JOINTS or before == ","
        has_spoken = after in _SPEECH or (end - start > 1 and after.endswith("ed"))
        return is_asked or (has_spoken and not is_listing)
    if name not in NAMES_THAT_ARE_WORDS:
        # "Alice in Wonderland" is a title.
        is_title = after == "in" and words[end + 1 : end + 2] and words[end + 1][0].isupper()
        return is_asked or not is_title
    is_certain = is_asked or is_joined or after in _SPEECH | _HAS or before == "with"
    return is_certain or _is_subject(words, start, end=end)


def _is_subject(words: Sequence[str], start: int, *, end: int) -> bool:
    """Return whether a name that is also a word is one here, by a capital that is not due."""
    after = _folded(words, end)
    has_verb, is_full = after.endswith("ed") or after in _IS, end - start > 1
    if start and words[start - 1] not in _ENDS:
        return has_verb or is_full
    # The modal has no past after it: "Will approved it".
    is_modal = words[start].casefold() == _MODAL and not _asks(words, end)
    return has_verb and (is_full or (is_modal and after.endswith("ed")))


def _is_part_of_name(words: Sequence[str], start: int, *, end: int) -> bool:
    """Return whether another word with a capital makes it another name: "Aston Martin"."""
    if end < len(words) and (words[end][0].isupper() or words[end][0].isdigit()):
        return True
    if start == 0 or not words[start - 1][0].isupper():
        return _folded(words, start - 2) == "st" and words[start - 1] == "."
    opens = start == 1 or words[start - 2] in _ENDS
    before = _folded(words, start - 1)
    return not (opens and (before in _BEFORE_NAMES or before.endswith("ed")))


def _is_joined(words: Sequence[str], start: int, *, names: Iterable[str]) -> bool:
    """Return whether the name follows a person and a conjunction: "Samir and Grace"."""
    before = _folded(words, start - 2)
    return _folded(words, start - 1) in _JOINTS and any(
        one == before or one.endswith(f" {before}") for one in names
    )


def _has_title(words: Sequence[str], start: int) -> bool:
    """Return whether "Dr." or "Mrs" stands before a place."""
    at = start - 2 if start and words[start - 1] == "." else start - 1
    return _folded(words, at) in _TITLES and words[at][0].isupper()


def _folded(words: Sequence[str], at: int) -> str:
    return words[at].casefold() if 0 <= at < len(words) else ""


def _asks(words: Sequence[str], at: int) -> bool:
    """Return whether the sentence is a question: "Will merged branches be deleted?"."""
    return next((word for word in words[at : at + _SENTENCE_WORDS] if word in _ENDS), "") == "?"


def _without_accents(word: str) -> str:
    """Return a name as it is listed: José as "jose", Søren as "soren"."""
    letters = unicodedata.normalize("NFKD", word.translate(_STROKES))
    return "".join(one for one in letters if not unicodedata.combining(one))


def _is_name_word(word: str) -> bool:
    """Return whether a word is written like a part of a name, and is not known as another."""
    folded = word.casefold()
    is_written = all(part[:1].isupper() for part in word.split("-")) and not word.isupper()
    is_other = (
        folded in _NO_SURNAMES or folded in GROUP_OF or ALIASES.get(folded, folded) in PRODUCTS
    )
    # "Jan" is a name too; as a month it follows a place word or precedes a number.
    return is_written and len(word) <= _NAME_CHARS_MAX and (folded == "jan" or not is_other)
