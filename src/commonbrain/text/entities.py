"""Named entities, found by rule: tags, people, references and topics.

A person is named by a sign, as in `@ann`, by a title, or by a common given name.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

from commonbrain.model.limits import ENTITIES_MAX, NAME_CHARS_MAX
from commonbrain.text.frames import DATES
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.words import (
    ARTICLES,
    FUNCTIONS,
    GROUP_OF,
    NEGATIONS,
    QUANTIFIERS,
    Sort,
    Word,
    read_words,
)

_CODE: Final = lazy_pattern(r"`[^`\n]*`")
_LAYOUT: Final = lazy_pattern(
    r"(?m)^[ \t]*(?:(?:[-*+>]|/[/*])[ \t]"
    r"|@[\w.]+(?:\(.*)?\n(?=[ \t]*(?:@|def |async |class |export |public |function )))"
)
"""The sign of a list or comment, and a decorator above what it decorates."""
_PERSON: Final = lazy_pattern(r"@([^\W\d_][\w-]*(?:\.[\w-]+)*)")
_TAG: Final = lazy_pattern(r"#([^\W\d_][\w-]*)")

_PLAIN_FILES: Final = ("Dockerfile", "Makefile", "justfile")
_REFERENCES: Final = (
    r"#\d{1,9}",  # an issue
    r"@[\w.-]+/[\w.-]+",  # a package with a scope
    r"(?!(?:UTF|SHA|ISO|RFC|TLS|HTTP|AES|RSA|MD|PEP)-)[A-Z][A-Z0-9]{1,9}-\d{1,7}",  # a ticket
    r"[^\W_]+(?:_[^\W_]+)+",  # a variable, table, function or migration
    r"v\d{1,4}(?:\.\d{1,4}){0,3}(?:-[\w.]+)?",  # a version
    r"\d{1,4}\.\d{1,4}\.\d{1,4}(?:-[\w.]+)?",  # a version without its letter
    # A git hash, full or abbreviated: digits alone are a number, letters alone a word.
    r"(?=[a-f]*\d)(?=\d*[a-f])(?:[0-9a-f]{7,12}|[0-9a-f]{40}|[0-9a-f]{64})",
    r"(?:~|\.{1,2})?(?:/[\w.@+-]+)+/?|~/",  # a path from a root
    r"[\w.@+-]+/(?:[\w.@+-]+/)*[\w@+-]*\.[\w.+-]+",  # a file in a folder
    r"[\w.@+-]*[^\W\d][\w.@+-]*(?:/[\w.@+-]+){2,}/?",  # a folder in a folder, and no date
    r"[\w-]+(?:\.[\w-]+)*\.(?:py|pyi|ts|tsx|js|jsx|go|rs|java|kt|rb|php|c|h|cc|cpp|cs|sh|sql|md"
    r"|rst|txt|toml|yaml|yml|json|jsonl|csv|ini|cfg|lock|env|html|css|ipynb|db|log|xml|proto"
    r"|tf)",  # a file
    r"\.[A-Za-z][\w-]*(?:\.[\w-]+)*",  # a hidden file
    "|".join(_PLAIN_FILES),
    r"https?://.+",
)
_REFERENCE: Final = lazy_pattern("|".join(_REFERENCES))

_NOT_PEOPLE: Final = frozenset(
    # Code annotations, mentions of everyone, and Commonbrain's own inline tags.
    "property dataclass staticmethod classmethod override abstractmethod cached_property"
    " contextmanager deprecated param return returns throws see media import test"
    " everyone everybody here channel all team decision insight remember atom".split()
)
_NO_TOPICS: Final = frozenset("may note see".split())
_CLOSING: Final = ",;)]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entities:
    """The distinct entities of a text by type, in order of first mention, at most 50 of each."""

    tags: tuple[str, ...] = ()
    """Hashtags without the sign, case-folded."""
    people: tuple[str, ...] = ()
    """Mentions without the sign, and people that a sentence treats as such, case-folded."""
    references: tuple[str, ...] = ()
    """Paths, tickets, URLs, names with an underscore, versions and commits, as written."""
    topics: tuple[str, ...] = ()
    """Words with a capital that is not due, case-folded, but no days, months and languages."""

    @property
    def count(self) -> int:
        """The number of entities of all types."""
        return sum(len(getattr(self, sort.name)) for sort in fields(self))


def extract_entities(text: str) -> Entities:
    """Find the entities of a text.

    An e-mail address is not a mention, `@property` above a function is a decorator, `@scope/name` a
    package, and `#12` an issue rather than a tag. In code spans, only references are found.
    """
    names_by_type: Mapping[str, dict[str, None]] = {sort.name: {} for sort in fields(Entities)}
    prose = _CODE.sub(" it ", _LAYOUT.sub("", text))
    named = [
        *((sort, name) for word in read_words(prose) for sort, name in _entities(word)),
        *(
            (sort, name)
            for span in _CODE.findall(text)
            for word in read_words(span)
            for sort, name in _entities(word)
            if sort == "references"
        ),
        *(("people", name) for name in people_in(prose)),
    ]
    for sort, name in named:
        if len(name) <= NAME_CHARS_MAX and len(names_by_type[sort]) < ENTITIES_MAX:
            names_by_type[sort].setdefault(name)
    return Entities(**{sort: tuple(names) for sort, names in names_by_type.items()})


def _entities(word: Word) -> Iterator[tuple[str, str]]:
    """Yield type and name of the entity that a word is, if it is one."""
    name = word.written.rstrip(_CLOSING)
    if len(name) > NAME_CHARS_MAX or word.sort is Sort.STOP:
        return
    # Of letters alone, no reference is made but a few files, and no tag.
    if name.isalpha() and name not in _PLAIN_FILES:
        if _is_topic(word):
            yield "topics", word.plain
    elif _REFERENCE.fullmatch(name):
        yield "references", name
    elif _TAG.fullmatch(name):
        yield "tags", name[1:].casefold()
    elif _PERSON.fullmatch(name):
        if name[1:].casefold() not in _NOT_PEOPLE:
            yield "people", name[1:].casefold()
    elif _is_topic(word):
        yield "topics", word.plain


def _is_topic(word: Word) -> bool:
    """Return whether it is a name, or one with a capital inside, which may begin a sentence.

    Words in capitals alone are mostly terms ("API", "TLS") or shouted.
    """
    is_name = word.sort is Sort.NAME or (word.sort is Sort.CODE and word.written[0].isupper())
    is_alone = word.plain.isalpha() and not word.written.isupper()
    return is_name and is_alone and word.plain not in _NO_TOPICS


# People without a sign. Precision comes before recall: a given name that is also a word or a city
# counts only where someone is asked, met or says something, or after a person and a conjunction.

_CHARS_MAX: Final = 20_000
"""Characters of a text that are searched."""
_PEOPLE_MAX: Final = 50
_NAME_CHARS_MAX: Final = 24
_WORDS_MAX: Final = 3
"""Words of one name."""
_CACHED: Final = 256

_TOKEN: Final = lazy_pattern(r"[^\W\d_]+(?:['\u2019-](?!s\b)[^\W\d_]+)*|\n|\S")
_ENDS: Final = frozenset(".!?:;\n")
_TITLES: Final = frozenset(
    "mr mrs ms dr fr prof professor nurse coach sir aunt uncle grandma grandpa herr frau".split()
)
_BEFORE_NAMES: Final = (
    FUNCTIONS
    | QUANTIFIERS
    | NEGATIONS
    | frozenset(
        "yesterday today tomorrow later earlier ask tell ping thank thanks met call hi hello hey"
        " dear cc maybe perhaps finally laut mit von für durch bei bitte frag".split()
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
    " would wants".split()
)
"""Verbs of speech that are neither participles nor nouns: their subject is a person."""
_MEETING: Final = frozenset("meet met meeting speak spoke talk talked lunch paired".split())
"""Words before "with" and a person."""
_JOINTS: Final = frozenset({"and", "or"})
_STROKES: Final = str.maketrans("\u00f8\u0142\u0111\u0131", "oldi")
"""Letters that Unicode does not decompose: o, l and d with a stroke, and i without its dot."""


@cache
def listed_names(sort: str) -> frozenset[str]:
    """Return the listed names: all as `given`, and those that are a `word` or a `place`, too."""
    table = files("commonbrain.text").joinpath("data/given_names.txt").read_text("utf-8")
    names = re.sub("#.*", "", table).partition(f"[{sort}]")[2].partition("[")[0]
    return frozenset(names.split())


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
    is_listed = first in listed_names("given") or first in listed_names("word")
    is_after_title = _has_title(words, start) and words[start].casefold() not in _TITLES
    if not (is_listed or is_after_title):
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
    is_place = name in listed_names("place")
    if not is_place and name not in listed_names("word"):
        return True
    is_met = before == "with" and _folded(words, start - 2) in _MEETING
    is_joined = not is_place and _is_joined(words, start, names=names)
    is_speaking = after in _SPEECH and before not in {*_JOINTS, ","}
    return before in _ASKED or is_met or is_joined or is_speaking


def _is_part_of_name(words: Sequence[str], start: int, *, end: int) -> bool:
    """Return whether another word makes it another name: "Aston Martin", "Ben & Jerry's"."""
    if _is_in_firm(words, start, end=end):
        return True
    if end < len(words) and (words[end][0].isupper() or words[end][0].isdigit()):
        return True
    if start == 0 or not words[start - 1][0].isupper():
        return _folded(words, start - 2) == "st" and words[start - 1] == "."
    opens = start == 1 or words[start - 2] in _ENDS
    before = _folded(words, start - 1)
    # A day, a month or an office is apart: "On Monday Ann leaves", "our CTO Tom".
    is_apart = _is_date(before) or words[start - 1].isupper()
    return not (is_apart or (opens and before in _BEFORE_NAMES))


def _is_in_firm(words: Sequence[str], start: int, *, end: int) -> bool:
    """Return whether "&" joins it to what is no person, or owns: "Ben & Jerry's"."""
    others = [
        *([start - 2] if _folded(words, start - 1) == "&" else []),
        *([end + 1] if _folded(words, end) == "&" else []),
    ]
    people = {"i", "you", "me", *listed_names("given")}
    owns = words[end : end + 2] == ["'", "s"] or words[end + 2 : end + 4] == ["'", "s"]
    return bool(others) and (owns or any(_folded(words, one) not in people for one in others))


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
