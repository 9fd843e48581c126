"""Renders pages: the templates, the filters that they use, and the addresses of static files."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import SequenceMatcher
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

import commonbrain_assets
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from commonbrain.model import ids
from commonbrain.model.escaping import inert
from commonbrain.model.timestamps import show_instant

STATIC: Final = Path(__file__).with_name("static")
STATIC_FOLDERS: Final[Mapping[str, Path]] = {"own": STATIC, "lib": commonbrain_assets.FOLDER}
"""The folders of static files by the first part of their address."""
_DIGEST_CHARS: Final = 12
_PAIRS_MAX: Final = 10_000
"""Equal pairs of words up to which two texts are compared, which bounds its time to some 20 ms.

A text that repeats a word is the worst: comparing takes time with the cube of its length.
"""
_COMMON_SHARE_MIN: Final = 0.4
"""Of the words and spaces of a text; with less in common, marks would hide the text."""
_WORDS: Final = re.compile(r"\s+|\w+\s*|[^\w\s]\s*")


@cache
def asset_url(name: str) -> str:
    """Return the address of a static file, which changes with its content."""
    folder, _, file = name.partition("/")
    digest = sha256((STATIC_FOLDERS[folder] / file).read_bytes()).hexdigest()
    return f"/static/{name}?v={digest[:_DIGEST_CHARS]}"


@cache
def make_environment(packages: tuple[str, ...] = ()) -> Environment:
    """Make the environment of the templates, also those of packages, which escapes every value.

    All pages of a process share it, since it compiles each template once.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("commonbrain.web"), *map(PackageLoader, packages)]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names: dict[str, Any] = {
        "asset_url": asset_url,
        "diff": diff,
        "link": link,
        "marked": marked,
        "relation": relation,
    }
    filters: dict[str, Any] = {
        "age_class": age_class,
        "ago": ago,
        "exact": exact,
        "instant": show_instant,
        "linked": linked,
        "number": number,
        "words": words_of,
    }
    environment.globals.update(names)
    environment.filters.update(filters)
    return environment


def _finalize(value: object) -> object:
    """Remove characters that reorder or hide text; markup is our own."""
    if value is None:
        return ""
    return inert(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def exact(value: object) -> Markup:
    """Escape a value of a form without a change: what is sent back must be what was stored."""
    return escape("" if value is None else value)


def link(path: str, **parameters: object) -> str:
    """Return an address with those parameters that have a value; a list gives several."""
    given: list[tuple[str, str]] = []
    for name, value in parameters.items():
        values = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
        given += [(name, str(one)) for one in values if one not in (None, "", False)]
    return f"{quote(path)}?{urlencode(given)}" if given else quote(path)


def number(value: float) -> str:
    """Format a number with separators between thousands."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def words_of(name: str) -> str:
    """Return a name of the code as words."""
    return str(name).replace("_", " ")


_RELATIONS: Final = {
    "derived_from": ("derived from", "source of"),
    "depends_on": ("depends on", "needed by"),
    "supports": ("supports", "supported by"),
    "conflicts_with": ("conflicts with", "conflicts with"),
    "changes": ("changes", "changed by"),
    "causes": ("causes", "caused by"),
    "enables": ("enables", "enabled by"),
    "precedes": ("precedes", "follows"),
    "correlates": ("correlates with", "correlates with"),
    "relates_to": ("relates to", "relates to"),
    "about": ("about", "subject of"),
    "supersedes": ("supersedes", "superseded by"),
}
"""How a link reads from its first memory, and from its second."""


def relation(type_: str, *, is_outgoing: bool) -> str:
    """Return a type of link as words, from one of its two ends."""
    outgoing, incoming = _RELATIONS[type_]
    return outgoing if is_outgoing else incoming


_ID: Final = re.compile(rf"\b({ids.MEMORY}|{ids.THREAD})_[0-9A-Z]{{10,16}}\b")
_PAGES: Final = {ids.MEMORY: "memory", ids.THREAD: "thread"}


def linked(text: str) -> Markup:
    """Return a text in which ids of memories and threads are links."""
    safe = inert(text)
    parts: list[Markup] = []
    start = 0
    for match in _ID.finditer(safe):
        anchor = Markup('<a href="/{}/{}">{}</a>').format(_PAGES[match[1]], match[0], match[0])
        parts += [escape(safe[start : match.start()]), anchor]
        start = match.end()
    return Markup("").join([*parts, escape(safe[start:])])


_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_UNITS: Final = (
    (365 * _DAY, "year"),
    (30 * _DAY, "month"),
    (7 * _DAY, "week"),
    (_DAY, "day"),
    (_HOUR, "hour"),
    (_MINUTE, "minute"),
)


def ago(time: datetime, now: datetime) -> str:
    """Return how long ago, or in how long, a time is, in its largest unit."""
    seconds = (now - time).total_seconds()
    for size, unit in _UNITS:
        count = int(abs(seconds) // size)
        if count:
            text = f"{count} {unit}{'s' * (count > 1)}"
            return f"{text} ago" if seconds > 0 else f"in {text}"
    return "just now"


_AGES: Final = (
    (timedelta(days=1), "today"),
    (timedelta(days=7), "week"),
    (timedelta(days=31), "month"),
    (timedelta(days=366), "year"),
)


def age_class(time: datetime, now: datetime) -> str:
    """Return the class of a row by its age, which colours it."""
    return next((f"age-{name}" for most, name in _AGES if now - time < most), "age-old")


def diff(before: str, after: str) -> Markup:
    """Return a text with what was removed and inserted marked, by word."""
    return Markup("").join(_marked(before, after))


def marked(text: str, other: str) -> Markup:
    """Return a text in which the words that another text lacks are marked.

    Of two texts that have little in common, or are too long to compare, nothing is marked.
    """
    compared = _compare(other, text)
    if compared is None:
        return escape(inert(text))
    _, new, opcodes = compared
    same = sum(to - from_ for tag, _, _, from_, to in opcodes if tag == "equal")
    if same < _COMMON_SHARE_MIN * len(new):
        return escape(inert(text))
    parts = ((tag, inert("".join(new[from_:to]))) for tag, _, _, from_, to in opcodes)
    return Markup("").join(
        escape(part) if tag == "equal" else _wrap("mark", part) for tag, part in parts if part
    )


def _wrap(element: str, text: str) -> Markup:
    """Mark a text without the space after it."""
    words = text.rstrip()
    return Markup("<{0}>{1}</{0}>{2}").format(Markup(element), words, text[len(words) :])  # noqa: S704 our own names


_Opcode = tuple[str, int, int, int, int]


def _compare(before: str, after: str) -> tuple[list[str], list[str], Sequence[_Opcode]] | None:
    """Compare two texts by word; None if that would take too long."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    counts = Counter(old)
    if sum(counts[word] for word in new) > _PAIRS_MAX:
        return None
    return old, new, SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def _marked(before: str, after: str) -> Iterator[Markup]:
    compared = _compare(before, after)
    if compared is None:
        yield Markup("<del>{}</del><ins>{}</ins>").format(inert(before), inert(after))
        return
    old, new, opcodes = compared
    for tag, old_from, old_to, new_from, new_to in opcodes:
        removed, added = inert("".join(old[old_from:old_to])), inert("".join(new[new_from:new_to]))
        if tag == "equal":
            yield Markup("{}").format(added)
            continue
        if removed:
            yield _wrap("del", removed)
        if added:
            yield _wrap("ins", added)
