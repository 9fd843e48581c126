"""Things that texts name, under one form: services, hosts, files, tickets, commits, products.

"PaymentsDb", "payments-db" and "the payments database" name one thing. Two memories that name the
same thing are related; this is computed when it is needed, so that no link per pair is stored and
everything stored before is related too.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from commonbrain.text.entities import extract_entities
from commonbrain.text.generic_names import HEADS, is_column, is_generic, is_of_product, is_server
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.products import ALIASES, COMMON_WORDS, PRODUCTS

_NAMES_MAX: Final = 50
_CHARS_MAX: Final = 8_000
"""Characters of a text that are searched; what a memory is about is named early."""
_CACHED: Final = 512

_NO_MODIFIERS: Final = frozenset(
    # Determiners and function words.
    "a an the this that these those our my your their its his her any each every all some no one"
    " two three both either and or but of in on at to for with without from by as is was are were"
    " be it we they you i if when while than then so not what which whose who how why where"
    # Qualities, which many things have.
    " new old next last first second other another same whole main single full empty slow fast"
    " broken down big small large good bad great local remote public private available internal"
    " external own more most many few several different entire only dead whole real right wrong"
    " running using existing missing pending incoming outgoing following remaining healthy"
    " primary secondary standby healthy per via"
    # Deeds.
    " restart use clear flush fix check run start stop add move drop delete create build deploy"
    " scale upgrade monitor call keep make put set see open close purge drain ping reach hit get"
    " let need has have had can will must should did does do".split()
)
_NO_IDENTIFIERS: Final = frozenset(
    "mid pre post top step phase part tier level utf sha md day week month line page build option"
    " round late early covid ipv int uint float base http oauth ec mp py python x q p chapter"
    " section version rev item figure table test run win rfc iso"
    " port code status error err attempt try".split()
)
"""Letters before a number that count or classify, and name nothing."""
_NO_TICKETS: Final = _NO_IDENTIFIERS | frozenset("err error code us eu ap gpt status port".split())
"""Letters before a number that is no ticket: "ERR-500"."""

_IDENTIFIER: Final = lazy_pattern(
    r"(?<![\w./@#-])(?:"
    r"(?P<parts>[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+)"
    r"|(?P<numbered>[a-z]{2,}\d{1,4})"
    r"|(?P<camel>[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+)"
    r")(?![\w/@]|-\w|\.\w)"
)
_DOMAIN: Final = lazy_pattern(
    r"(?<![\w./@-])(?:[a-z0-9][a-z0-9-]{0,62}\.){1,5}[a-z]{2,12}(?![\w/@-]|\.\w)"
)
_PHRASE: Final = lazy_pattern(
    # Looks ahead, as a head may itself modify another: "the cache server".
    rf"(?<![\w.-])(?=(?P<kind>[^\W\d_][\w-]*)[ ](?P<head>{'|'.join(sorted(HEADS))})(?![\w-]))",
    re.IGNORECASE,
)
_PART: Final = lazy_pattern(r"[^\W_]+")
_HUMP: Final = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_PRODUCT: Final = lazy_pattern(r"(?<![\w./@-])[A-Za-z][\w.]*\w(?![\w/@-])")
_TICKET: Final = lazy_pattern(r"#\d+|[A-Z][A-Z0-9]*-\d+")
_NUMBER: Final = lazy_pattern(r"#\d+")
_NUMBERED: Final = lazy_pattern(
    r"\b(?P<kind>PR|pull request|MR|merge request|issue|bug|ticket|incident) (?P<number>#\d+)",
    re.IGNORECASE,
)
_KINDS: Final = {"pull request": "pr", "merge request": "mr", "bug": "issue", "ticket": "issue"}
_COMMIT: Final = lazy_pattern(r"[0-9a-f]{7,64}")
_VERSION: Final = lazy_pattern(r"v?\d+(?:\.\d+)*(?:-[\w.]+)?")
_VARIABLE: Final = lazy_pattern(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_COMMIT_CHARS: Final = 7
"""A commit is known by its first characters."""
# How surely two texts that have the name speak of the same thing. Set by hand: a ticket exists
# once, a phrase names whatever has that role, and a product has many installations. "kafka-3" may
# be a version, and "#12" is a number in whichever repository or tracker the text is about.
_SURE: Final = 0.9
_PROPER: Final = 0.8
_ROLE: Final = 0.6
_SHARED: Final = 0.4
_VAGUE: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A name in a text; names of one thing have the same key."""

    key: str
    written: str
    confidence: float
    """How surely two texts that have it speak of the same thing, 0..1."""


@lru_cache(maxsize=_CACHED)
def names_in(text: str) -> Mapping[str, Name]:
    """Map the keys of the things that a text names to their names, in order of type."""
    beginning = text[:_CHARS_MAX]
    names: dict[str, Name] = {}
    for key, written, confidence in _named(beginning):
        if len(names) < _NAMES_MAX:
            most = min(confidence, _confidence_max(key, written))
            names.setdefault(key, Name(key=key, written=written, confidence=most))
    return names


def shared_names(one: str, other: str) -> tuple[Name, ...]:
    """List the names of things that two texts share, surest first, as the first writes them.

    A path and the name of the same file count as the same, and so do "PR #12" and "#12".
    """
    here, there = names_in(one), names_in(other)
    both = list[Name]()
    for key, name in here.items():
        if match := there.get(key) or _same_file(key, there):
            both.append(replace(name, confidence=max(name.confidence, match.confidence)))
        elif "#" in key and _has_number(key, there):
            both.append(replace(name, confidence=_SHARED))
    return tuple(sorted(both, key=lambda name: (-name.confidence, name.key)))


def name_terms(text: str) -> tuple[str, ...]:
    """List the words by which a search finds texts with the same names, in any of their forms."""
    terms: dict[str, None] = {}
    for key in names_in(text):
        parts = _PART.findall(key)
        terms |= dict.fromkeys(parts)
        if len(parts) > 1 and "-" in key:
            terms.setdefault("".join(parts))
    return tuple(terms)


def without_names(text: str) -> str:
    """Return a text without the names in it."""
    for name in names_in(text).values():
        text = text.replace(name.written, " ")
    return text


def basis_of_names(names: tuple[Name, ...]) -> str:
    """Say what relates two texts: their surest common names."""
    return f"both name {', '.join(name.written for name in names[:2])}"


def _same_file(key: str, there: Mapping[str, Name]) -> Name | None:
    """Find the same file named from another folder."""
    for other, name in there.items():
        for longer, shorter in ((key, other), (other, key)):
            if "." in shorter and longer.endswith(f"/{shorter}"):
                return name
    return None


def _has_number(key: str, there: Mapping[str, Name]) -> bool:
    """Return whether one side says what has the number, and the other only gives the number."""
    kind, _, number = key.partition("#")
    return any(
        bool(kind) != bool(other_kind) and number == other_number
        for other_kind, mark, other_number in (other.partition("#") for other in there)
        if mark
    )


def _confidence_max(key: str, written: str) -> float:
    """Limit the confidence of a name that many things have; tickets and commits have their own."""
    if _TICKET.fullmatch(written):
        prefix = key.partition("-")[0]
        return _VAGUE if prefix in _NO_TICKETS else _SURE
    if _COMMIT.fullmatch(written):
        return _SURE
    if is_generic(key) or is_column(written):
        return _VAGUE
    if is_server(key):
        return _ROLE
    return _SHARED if is_of_product(key) else _PROPER


def _named(text: str) -> Iterator[tuple[str, str, float]]:
    yield from _references(text)
    for match in _DOMAIN.finditer(text):
        yield match[0], match[0], _PROPER
    for match in _IDENTIFIER.finditer(text):
        if key := _identifier(match):
            yield key, match[0], _PROPER
    for match in _PHRASE.finditer(text):
        kind, head = match["kind"].casefold(), HEADS[match["head"].casefold()]
        if kind not in _NO_MODIFIERS and not kind.endswith("ed"):
            yield f"{kind}-{head}", f"{match['kind']} {match['head']}", _ROLE
    for match in _PRODUCT.finditer(text):
        folded = match[0].casefold()
        key = ALIASES.get(folded, folded)
        if key in PRODUCTS and (folded not in COMMON_WORDS or _is_within(match)):
            yield key, match[0], _SHARED


def _is_within(match: re.Match[str]) -> bool:
    """Return whether a word has a capital although it does not begin a sentence."""
    before = match.string[: match.start()].rstrip()
    return match[0][0].isupper() and before != "" and before[-1] not in ".!?:"


def _identifier(match: re.Match[str]) -> str | None:
    """Return the key of an identifier; None for a word that only looks like one."""
    if match["camel"]:
        parts = [part.casefold() for part in _HUMP.split(match[0])]
        return "-".join((*parts[:-1], HEADS[parts[-1]])) if parts[-1] in HEADS else None
    if match["numbered"]:
        return None if match[0].rstrip("0123456789") in _NO_IDENTIFIERS else match[0]
    parts = re.split("[-_]", match[0])
    if parts[0] in _NO_IDENTIFIERS:
        return None
    if parts[-1] in HEADS:
        return "-".join((*parts[:-1], HEADS[parts[-1]]))
    is_name = "_" in match[0] or any(map(str.isdigit, match[0]))
    return "-".join(parts) if is_name else None


def _references(text: str) -> Iterator[tuple[str, str, float]]:
    numbered = list(_NUMBERED.finditer(text))
    for match in numbered:
        kind = match["kind"].casefold()
        yield f"{_KINDS.get(kind, kind)}{match['number']}", match[0], _ROLE
    numbers = {match["number"] for match in numbered}
    for written in extract_entities(text).references:
        if written not in numbers:
            yield _reference(written)


def _reference(written: str) -> tuple[str, str, float]:
    folded = written.casefold()
    if _NUMBER.fullmatch(written):
        return folded, written, _SHARED
    if _TICKET.fullmatch(written):
        return folded, written, _SURE
    if _COMMIT.fullmatch(written):
        return folded[:_COMMIT_CHARS], written, _SURE
    if _VERSION.fullmatch(written):
        return folded.removeprefix("v"), written, _VAGUE
    if _VARIABLE.fullmatch(written) or "://" in written:
        return folded, written, _PROPER
    # A file or folder, from whichever folder it is named.
    path = folded.removeprefix("./").removeprefix("~/").strip("/")
    return path or folded, written, _PROPER
