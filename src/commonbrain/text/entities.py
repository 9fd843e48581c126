"""Named entities, found by rule: tags, people, references and topics."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

from commonbrain.model.limits import ENTITIES_MAX, NAME_CHARS_MAX
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.people import people_in
from commonbrain.text.words import Sort, Word, read_words

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
