"""Named entities, found by rule: tags, people, references and topics.

The text is split at spaces and brackets, and no pattern can match one stretch in two ways, so the
time is linear in the text's length.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

from commonbrain.model.limits import ENTITIES_MAX, NAME_CHARS_MAX
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.people import people_in

_CODE: Final = lazy_pattern(r"(`[^`\n]*`)")
_URL: Final = lazy_pattern(r"https?://[^\s<>\"'`|]+")
_CUT: Final = lazy_pattern(r"[\s,;()\[\]{}<>\"'`|=*!?\u2019]+")
_CLOSING: Final = ".,;:!?)]}'\""
_DECORATOR: Final = lazy_pattern(r"[ \t]*@[\w.]+(?:\(.*)?")
_DECORATED: Final = lazy_pattern(r"[ \t]*(?:@|def |async |class |export |public |function )")

_PERSON: Final = lazy_pattern(r"@([^\W\d_][\w-]*(?:\.[\w-]+)*)")
_TAG: Final = lazy_pattern(r"#([^\W\d_][\w-]*)")
_WORD: Final = lazy_pattern(r"[^\W\d_]{2,}(?:-[^\W\d_]+)*")

_REFERENCES: Final = (
    r"#\d{1,9}",  # an issue
    r"@[\w.-]+/[\w.-]+",  # a package with a scope
    r"(?!(?:UTF|SHA|ISO|RFC|TLS|HTTP|AES|RSA|MD|PEP)-)[A-Z][A-Z0-9]{1,9}-\d{1,7}",  # a ticket
    r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+",  # an environment variable
    r"v\d{1,4}(?:\.\d{1,4}){0,3}(?:-[\w.]+)?",  # a version
    r"\d{1,4}\.\d{1,4}\.\d{1,4}(?:-[\w.]+)?",  # a version without its letter
    r"(?:v?\d{4,14}|[0-9a-f]{12})_[a-z][a-z0-9_]*",  # a migration
    # A git hash, full or abbreviated: digits alone are a number, letters alone a word.
    r"(?=[a-f]*\d)(?=\d*[a-f])(?:[0-9a-f]{7,12}|[0-9a-f]{40}|[0-9a-f]{64})",
    r"(?:~|\.{1,2})?(?:/[\w.@+-]+)+/?|~/",  # a path from a root
    r"[\w.@+-]+/(?:[\w.@+-]+/)*[\w@+-]*\.[\w.+-]+",  # a file in a folder
    r"[\w.@+-]*[^\W\d][\w.@+-]*(?:/[\w.@+-]+){2,}/?",  # a folder in a folder, and no date
    r"[\w-]+(?:\.[\w-]+)*\.(?:py|pyi|ts|tsx|js|jsx|go|rs|java|kt|rb|php|c|h|cc|cpp|cs|sh|sql|md"
    r"|rst|txt|toml|yaml|yml|json|jsonl|csv|ini|cfg|lock|env|html|css|ipynb|db|log|xml|proto"
    r"|tf)",  # a file
    r"\.(?:env|gitignore|dockerignore|bashrc|zshrc|npmrc)|Dockerfile|Makefile|justfile",
)
_REFERENCE: Final = lazy_pattern("|".join(_REFERENCES))

_NOT_PEOPLE: Final = frozenset(
    # Code annotations, mentions of everyone, and Commonbrain's own inline tags.
    "property dataclass staticmethod classmethod override abstractmethod cached_property"
    " contextmanager deprecated param return returns throws see media import test"
    " everyone everybody here channel all team decision insight remember atom".split()
)
_NO_TOPICS: Final = frozenset(
    "ok yes no the an and or but if then else so we he she it you they is are was not of in on to"
    " pm am utc todo note see".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entities:
    """The distinct entities of a text by type, in order of first mention, at most 50 of each."""

    tags: tuple[str, ...] = ()
    """Hashtags without the sign, case-folded."""
    people: tuple[str, ...] = ()
    """Mentions without the sign, and people that a sentence treats as such, case-folded."""
    references: tuple[str, ...] = ()
    """Paths, tickets, URLs, variables, versions, migrations and commits, as written."""
    topics: tuple[str, ...] = ()
    """Capitalized words within a sentence, case-folded."""

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
    for sort, name in _named(text):
        if len(name) <= NAME_CHARS_MAX and len(names_by_type[sort]) < ENTITIES_MAX:
            names_by_type[sort].setdefault(name)
    for name in people_in(_CODE.sub(" ", text)):
        if len(names_by_type["people"]) < ENTITIES_MAX:
            names_by_type["people"].setdefault(name)
    return Entities(**{sort: tuple(names) for sort, names in names_by_type.items()})


def _named(text: str) -> Iterator[tuple[str, str]]:
    """Return type and name of each entity in order, treating code and prose separately."""
    lines = text.split("\n")
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if _DECORATOR.fullmatch(line) and _DECORATED.match(below):
            continue
        for place, part in enumerate(_CODE.split(line)):
            is_code = place % 2 == 1
            yield from _named_in(part, opens=place == 0, is_code=is_code)


def _named_in(part: str, *, opens: bool, is_code: bool) -> Iterator[tuple[str, str]]:
    for url in _URL.findall(part):
        yield "references", url.rstrip(_CLOSING)
    for chunk in _URL.sub(" ", part).split():
        for piece in _CUT.split(chunk):
            name = piece.rstrip(".:")
            sort = _sort_of(name, opens=opens) if name else None
            if sort and (sort == "references" or not is_code):
                yield sort, _WRITTEN[sort](name)
            opens = opens and not any(map(str.isalnum, name))
        # A word after a full stop or colon is capitalized anyway.
        opens = opens or chunk.rstrip("'\")]}*").endswith((".", "!", "?", ":"))


def _sort_of(name: str, *, opens: bool) -> str | None:
    """Return the type of an entity, or None; `opens` is true if it begins a sentence."""
    if len(name) > NAME_CHARS_MAX:
        return None
    if _REFERENCE.fullmatch(name):
        return "references"
    if _TAG.fullmatch(name):
        return "tags"
    if _PERSON.fullmatch(name):
        return None if name[1:].casefold() in _NOT_PEOPLE else "people"
    is_topic = not opens and name[0].isupper() and _WORD.fullmatch(name)
    return "topics" if is_topic and name.casefold() not in _NO_TOPICS else None


def _without_sign(name: str) -> str:
    return name[1:].casefold()


_WRITTEN: Final[Mapping[str, Callable[[str], str]]] = {
    "tags": _without_sign,
    "people": _without_sign,
    "references": str,
    "topics": str.casefold,
}
