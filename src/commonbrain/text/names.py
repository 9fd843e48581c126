"""Things that texts name, under one form: services, hosts, files, tickets, commits.

"PaymentsDb", "payments-db" and "the payments database" name one thing. Two memories that name the
same thing are related; this is computed when it is needed, so that no link per pair is stored and
everything stored before is related too. Products relate nothing: two texts on Postgres are seldom
about one installation. Nor do names of which all words are generic: two texts about "us-east-1",
`user_id` or "the web server" need not be about the same thing. The lists were written for this.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from commonbrain.text.code_names import COMMON_IN_CODE
from commonbrain.text.entities import extract_entities
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.words import GROUP_OF, Sort, Word, read_words

_NAMES_MAX: Final = 50
_CHARS_MAX: Final = 8_000
"""Characters of a text that are searched; what a memory is about is named early."""
_CACHED: Final = 512

_HEADS: Final[Mapping[str, str]] = {
    form: words.split()[0]
    for words in (
        "service svc services,server servers,node nodes,host hosts,cluster clusters"
        ",db database databases dbs,queue queues,cache caches,broker brokers,bus"
        ",gateway gateways,proxy proxies,api apis,worker workers,scheduler schedulers,cron"
        ",job jobs,pipeline pipelines,bucket buckets,volume volumes"
        ",app apps application applications,portal portals,frontend frontends ui"
        ",backend backends,endpoint endpoints,webhook webhooks,daemon daemons"
        ",registry registries,replica replicas,shard shards,controller controllers"
        ",balancer balancers"
    ).split(",")
    for form in words.split()
}
"""Nouns for running things; the first form of each is used for all."""
_GENERIC: Final = COMMON_IN_CODE | frozenset(
    # Regions, environments, times, roles, parts of settings and URLs, extensions.
    "us eu ap ca uk asia europe australia canada eastus westus north south east west central"
    " northeast northwest southeast southwest region zone global prod production preprod stage"
    " staging dev develop development qa demo sandbox preview ci cd local localhost env"
    " environment daily nightly weekly monthly hourly today cron web www rest graphql rpc grpc"
    " http https tcp udp ip tls ssl dns post patch frontend backend application worker workers"
    " queue job jobs host cluster gateway ui front back mobile cloud platform system shared root"
    " sql storage messages events task batch background async deploy release backup reverse"
    " ingress container compose pod vm private generic simple monitoring metrics logging log"
    " logs debug health healthz site source temp share mnt script tool contributing makefile"
    " dockerfile lock route id key url dir port level size max min limit timeout secret token"
    " password date time flag configuration com net io by from use str all html css js ts tsx py"
    " rb go rs java php sh md txt toml yaml yml json csv github v x rc alpha beta one two first"
    " second".split()
)
_COLUMN: Final = lazy_pattern(
    r"(?:is|has|was|num|created|updated|deleted|started|finished|expires)_\w+"
    r"|\w+_(?:ids?|uuid|keys?|at|on|by|ts|date|time|timestamp|names?|types?|status|state|code"
    r"|count|number|flag|url|email|hash|values?|version|path|total|amount|price|size|address)"
)
"""Columns and fields, of which many tables have one of the same name."""
_NO_MODIFIERS: Final = frozenset(
    "one new old next last second other another same whole full empty slow long big good bad great"
    " nice own more main real wrong invalid running existing primary standby restart build create"
    " deploy make set start stop".split()
)
"""Words before a service or host that name none: those that stood there most often in notes."""
_COUNTED: Final = frozenset(
    "mid pre post step phase part level utf sha md day week month line page build option round base"
    " http ipv oauth py python java php p q x version item table test run iso port code status"
    " error err attempt us eu ap gpt".split()
)
"""Letters before a number that count or classify, and name nothing: "ERR-500", "python-3"."""

_IDENTIFIER: Final = lazy_pattern(r"[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*")
_DOMAIN: Final = lazy_pattern(r"(?:[a-z0-9][a-z0-9-]{0,62}\.){1,5}[a-z]{2,12}")
_LETTERS: Final = lazy_pattern(r"[^\W\d_]+")
_MACHINE: Final = lazy_pattern(r"(?:[a-z0-9]+-)*(?P<role>[a-z]+)-?\d+")
_PART: Final = lazy_pattern(r"[^\W_]+")
_HUMP: Final = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_NUMBERED: Final = lazy_pattern(
    r"\b(?P<kind>PR|pull request|MR|merge request|issue|bug|ticket|incident) (?P<number>#\d+)",
    re.IGNORECASE,
)
_KINDS: Final = {"pull request": "pr", "merge request": "mr", "bug": "issue", "ticket": "issue"}
_TICKET: Final = lazy_pattern(r"[A-Z][A-Z0-9]*-\d+")
_COMMIT: Final = lazy_pattern(r"[0-9a-f]{7,64}")
_COMMIT_CHARS: Final = 7
"""A commit is known by its first characters."""
# How surely two texts that have the name speak of the same thing. Set by hand: a ticket exists
# once, a phrase names whatever has that role, and "#12" is a number in whichever repository or
# tracker the text is about.
_SURE: Final = 0.9
_PROPER: Final = 0.8
_ROLE: Final = 0.6
_SHARED: Final = 0.4


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
    names: dict[str, Name] = {}
    for key, written, confidence in _named(text[:_CHARS_MAX]):
        if len(names) < _NAMES_MAX:
            names.setdefault(key, Name(key=key, written=written, confidence=confidence))
    return names


def shared_names(one: str, other: str) -> tuple[Name, ...]:
    """List the names of things that two texts share, surest first, as the first writes them.

    A path and the name of the same file count as the same.
    """
    here, there = names_in(one), names_in(other)
    both = [
        replace(name, confidence=max(name.confidence, match.confidence))
        for key, name in here.items()
        if (match := there.get(key) or _same_file(key, there))
    ]
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


def _named(text: str) -> Iterator[tuple[str, str, float]]:
    numbered = {match["number"]: match for match in _NUMBERED.finditer(text)}
    for number, match in numbered.items():
        kind = match["kind"].casefold()
        yield f"{_KINDS.get(kind, kind)}{number}", match[0], _ROLE
    for written in extract_entities(text).references:
        if written not in numbered and (reference := _reference(written)):
            yield reference
    before = None
    for word in read_words(text):
        if word.sort is Sort.CODE and (key := _identifier(word.written)):
            yield key, word.written, _PROPER
        elif before and word.plain in _HEADS and (key := _role(before, word)):
            hyphened = f"{before.written}-{word.written}"
            if hyphened in text:
                yield key, hyphened, _PROPER
            else:
                # "The Redis cache" is that of any installation.
                confidence = _SHARED if before.sort is Sort.NAME else _ROLE
                yield key, f"{before.written} {word.written}", confidence
        before = word


def _role(modifier: Word, head: Word) -> str | None:
    """Return the key of a service or host with a word of its own: "the payments database"."""
    key = f"{modifier.plain}-{_HEADS[head.plain]}"
    is_own = modifier.sort in {Sort.WORD, Sort.NAME} and not modifier.plain.endswith("ed")
    return key if is_own and modifier.plain not in _NO_MODIFIERS and not _is_generic(key) else None


def _identifier(written: str) -> str | None:
    """Return the key of an identifier or domain; None for a word that only looks like one."""
    if _DOMAIN.fullmatch(written):
        return None if _is_generic(written) else written
    if written.isupper() or not _IDENTIFIER.fullmatch(written) or _COMMIT.fullmatch(written):
        return None
    parts = _HUMP.sub("_", written).casefold().replace("-", "_").split("_")
    key = "-".join((*parts[:-1], _HEADS.get(parts[-1], parts[-1])))
    # "db-7" and "web01" are one thing, "int32" and "vue3" are kinds.
    is_numbered = any(map(str.isdigit, written)) and ("-" in written or _is_machine(key))
    is_name = parts[-1] in _HEADS or "_" in written or is_numbered
    if not is_name or parts[0].rstrip("0123456789") in _COUNTED:
        return None
    return None if _is_generic(written) and not _is_machine(key) else key


def _reference(written: str) -> tuple[str, str, float] | None:
    """Return key, form and confidence of a reference; None for a version or a usual name."""
    folded = written.casefold()
    if written[0] == "#":
        return folded, written, _SHARED
    if _TICKET.fullmatch(written):
        return None if folded.partition("-")[0] in _COUNTED else (folded, written, _SURE)
    if _COMMIT.fullmatch(written):
        return folded[:_COMMIT_CHARS], written, _SURE
    if (key := _identifier(written)) or _is_generic(written):
        return (key, written, _PROPER) if key else None
    # A file or folder, from whichever folder it is named.
    path = folded.removeprefix("./").removeprefix("~/").strip("/")
    return (folded if "://" in written else path or folded), written, _PROPER


def _is_generic(name: str) -> bool:
    """Return whether a name consists of words that many unrelated names have."""
    words = [word.casefold() for word in _LETTERS.findall(_HUMP.sub("_", name))]
    if words and words[-1] in _HEADS:
        words.pop()
    return _COLUMN.fullmatch(name) is not None or all(
        word in _GENERIC or word in GROUP_OF or len(word) == 1 for word in words
    )


def _is_machine(name: str) -> bool:
    """Return whether a name is a role with a number: "db1", "prod-web-2"."""
    match = _MACHINE.fullmatch(name)
    return match is not None and (match["role"] in _HEADS or match["role"] in {"web", "vm"})
