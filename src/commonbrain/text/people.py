"""People that a text names without an @: by a title, or by a common given name.

Precision comes before recall. A given name that is also a word or a city ("Mark", "Paris") counts
only where the sentence treats it as a person's: someone is asked or says something, has a relation
or a post ("my wife Grace"), or is listed with a person.
"""

import unicodedata
from collections.abc import Container, Iterable, Sequence
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
_SURNAMES: Final = frozenset("black brown green grey white".split())
"""Colours that are surnames."""
_RELATIONS: Final = frozenset(
    "ceo cto cfo coo manager boss director engineer developer designer architect intern colleague"
    " teammate friend neighbour neighbor brother sister wife husband mother father mum mom dad son"
    " daughter cousin landlord teacher lawyer plumber accountant tenant chef".split()
)
"""Common posts and relations, written for this; only people have them."""
_ROLES: Final = _RELATIONS | frozenset("lead customer client partner president admin".split())
"""Words before a name; a customer or a partner may be a company."""
_DATES: Final = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june"
    " july august september october november december".split()
)
"""Words before a person whose capital is their own: "On Monday Ann leaves"."""
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
_TO: Final = frozenset("according assigned reassigned delegated escalated belongs".split())
"""Words before "to" and a person."""
_SPEECH: Final = frozenset(
    "said says asks told tells wrote writes thinks thought insists believes remembers"
    " forgot".split()
)
"""Verbs of speech that are neither participles nor nouns: their subject is a person."""
_ACTS: Final = frozenset(
    "agreed approved asked confirmed decided promised proposed rejected reviewed suggested"
    " volunteered".split()
)
"""What people alone do; "summer has ended" as well."""
_HAS: Final = frozenset("has had".split())
_WILLS: Final = frozenset("wants met agrees knows owns".split())
_IS: Final = _WILLS | frozenset("' \u2019 is was will leads left".split())
_MEETING: Final = frozenset("meet met meeting speak spoke talk talked lunch paired".split())
"""Words before "with" and a person."""
_JOINTS: Final = frozenset({"and", "or", "&"})
_MODAL: Final = "will"
_TIME: Final = frozenset("since during until till after before".split())
"""Words before a month or season: "since Jan, Ann and Bob have owned it"."""
_SENTENCE_WORDS: Final = 40
_LISTED_MAX: Final = 8
"""Names of a list that are looked at after one."""
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
        is_joined = end > at and (
            _is_joined(words, at, names=names) or _is_listed(words, at, end=end, names=names)
        )
        if end > at and _is_person(words, at, end=end, is_joined=is_joined):
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
    is_met = before == "with" and _folded(words, start - 2) in _MEETING
    is_certain = is_asked or is_joined or is_met or before in _RELATIONS or _acts(words, end)
    return is_certain or _is_subject(words, start, end=end)


def _acts(words: Sequence[str], at: int) -> bool:
    """Return whether a verb follows whose subject can only be a person: "Grant has confirmed"."""
    verb = _folded(words, at)
    is_act = verb in _HAS and _folded(words, at + 1) in _ACTS
    return is_act or verb in _SPEECH or verb == "would"


def _is_subject(words: Sequence[str], start: int, *, end: int) -> bool:
    """Return whether a name that is also a word is one here, by a capital that is not due."""
    after = _folded(words, end)
    if end - start > 1:
        # "Max Retries is 3" names a setting.
        return after in _ACTS | _WILLS
    if start and words[start - 1] not in _ENDS:
        return after.endswith("ed") or after in _IS
    # The modal has no past after it: "Will approved it".
    is_modal = words[start].casefold() == _MODAL and not _asks(words, end)
    return is_modal and after.endswith("ed")


def _is_part_of_name(words: Sequence[str], start: int, *, end: int) -> bool:
    """Return whether another word with a capital makes it another name: "Aston Martin"."""
    if end < len(words) and (words[end][0].isupper() or words[end][0].isdigit()):
        return True
    if start == 0 or not words[start - 1][0].isupper():
        return _folded(words, start - 2) == "st" and words[start - 1] == "."
    opens = start == 1 or words[start - 2] in _ENDS
    before = _folded(words, start - 1)
    is_apart = before in _ROLES or before in _DATES
    return not (is_apart or (opens and (before in _BEFORE_NAMES or before.endswith("ed"))))


def _is_listed(words: Sequence[str], start: int, *, end: int, names: Iterable[str]) -> bool:
    """Return whether a single name is in a list that goes on, and that has a sure person.

    "Will, Grace and Ann": a list has a conjunction.
    """
    if end - start > 1 or _folded(words, start - 1) in _TIME:
        return False
    has_joint, has_person = False, _is_joined(words, start, names=names, joints={","})
    for _ in range(_LISTED_MAX):
        first = end
        while end - first < _WORDS_MAX and _folded(words, end) in {*_JOINTS, ","}:
            end += 1
        after = _end_of_name(words, end) if first < end < len(words) else end
        if after == end:
            break
        is_sure = _without_accents(words[end].casefold()) not in NAMES_THAT_ARE_WORDS
        has_person = has_person or (is_sure and _is_person(words, end, end=after, is_joined=False))
        has_joint = has_joint or _folded(words, end - 1) in _JOINTS
        end = after
    return has_joint and has_person


def _is_joined(
    words: Sequence[str], start: int, *, names: Iterable[str], joints: Container[str] = _JOINTS
) -> bool:
    """Return whether the name follows a person and a conjunction: "Samir and Grace"."""
    before = _folded(words, start - 2)
    return _folded(words, start - 1) in joints and any(
        one == before or one.endswith(f" {before}") for one in names
    )


def _has_title(words: Sequence[str], start: int) -> bool:
    """Return whether "Dr." or "Mrs" stands before a place."""
    at = start - 2 if start and words[start - 1] == "." else start - 1
    # "MR" is a merge request.
    return _folded(words, at) in _TITLES and words[at].istitle()


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
    ) and folded not in _SURNAMES
    # "Jan" is a name too; as a month it follows a place word or precedes a number.
    return is_written and len(word) <= _NAME_CHARS_MAX and (folded == "jan" or not is_other)
