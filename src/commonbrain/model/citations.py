"""Citations: places in code that a memory is about, and what stood there when it was written."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, cast

from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.values import dataclass

CITATIONS: Final = "citations"
"""Payload key of the code that a memory cites."""
CHECKOUT: Final = "checkout"
"""Payload key of the repository, branch and commit at which a memory was written."""
LINES_MAX: Final = 400
"""Lines of one citation; a longer one says nothing about a place."""
_PLACE: Final = re.compile(
    r"(?P<path>[^\s:#`'\"<>|*?\\]{1,400})"
    r"(?::(?P<line>[1-9]\d{0,6})(?:-(?P<end>[1-9]\d{0,6}))?|#(?P<symbol>[^\W\d][\w.]{0,119}))"
)
_BEGINNING: Final = re.compile(rf"(?<![^\s:#`'\"<>|*?\\]){_PLACE.pattern}")
_PATH: Final = re.compile(r"/?(?:[^/]+/)*[^/]+")


class CitationStatus(StrEnum):
    """What became of cited code in a working tree."""

    SAME = "same"
    MOVED = "moved"
    """It stands unchanged on another line or in another file."""
    CHANGED = "changed"
    MISSING = "gone"
    ABSENT = "absent"
    """It is not on this branch; the memory was written on another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlace:
    """A place in code: lines of a file, or a symbol in it."""

    path: str
    """Relative to the root of the repository, with slashes."""
    line: int | None = None
    end: int | None = None
    symbol: str | None = None

    def __str__(self) -> str:
        """Write the place as it is given."""
        if self.symbol is not None:
            return f"{self.path}#{self.symbol}"
        return f"{self.path}:{self.line}" + (f"-{self.end}" if self.end else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What is needed to find code again, without its text."""

    line: int
    """The first line when it was cited."""
    lines: int
    raw: str
    """A digest of its text as it is, which costs less to compare than the next one."""
    digest: str
    """Of its tokens, so that spacing and line breaks do not count."""
    tokens: int
    head: int
    """A hash of the first word or sign."""
    bag: tuple[int, ...]
    """Short hashes of the tokens that it has, each once."""
    before: int | None = None
    """A hash of the nearest line above that says something; None at the beginning of the file."""
    after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A place in code, with what stood there if it was seen when the memory was written."""

    place: CodePlace
    seen: Fingerprint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCitation:
    """A citation as recall shows it."""

    place: str
    status: CitationStatus | None = None
    """None if it cannot be checked here."""
    now_at: str | None = None
    """Where moved or changed code is now, if that differs."""

    def line(self) -> str:
        """Render it in a few words."""
        match self.status:
            case CitationStatus.MOVED:
                return f"{self.place} (moved to {self._shorter()})"
            case CitationStatus.CHANGED if self.now_at:
                return f"{self.place} (changed, now {self._shorter()})"
            case CitationStatus.ABSENT:
                return f"{self.place} (not on this branch)"
            case CitationStatus.CHANGED | CitationStatus.MISSING:
                return f"{self.place} ({self.status})"
            case _:
                return self.place

    def _shorter(self) -> str:
        """Return the new place, in the same file by its line alone."""
        path = re.split("[:#]", self.place, maxsplit=1)[0]
        return (self.now_at or "").removeprefix(f"{path}:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The branch and the commit of a working tree; what is unknown is None."""

    repository: str | None = None
    """Its name; that of a worktree is the one of the main working tree."""
    branch: str | None = None
    commit: str | None = None
    """The first digits of its hash."""


def parse_place(text: str) -> CodePlace | None:
    """Parse `path:line`, `path:line-line` or `path#symbol`; None if it is none of them."""
    match = _PLACE.fullmatch(text.strip().removeprefix("./"))
    return None if match is None else _place_of(match)


def places_in(text: str) -> Iterator[CodePlace]:
    """Find the places in code that a text names by their line."""
    for match in _BEGINNING.finditer(text):
        place = _place_of(match)
        if place is not None and place.line is not None:
            yield place


def _place_of(match: re.Match[str]) -> CodePlace | None:
    path = match["path"].lstrip("([{").removeprefix("./")
    line, end = (int(match[name]) if match[name] else None for name in ("line", "end"))
    if not _PATH.fullmatch(path) or not path.isprintable() or ".." in path.split("/"):
        return None
    if line is not None and end is not None and not line <= end < line + LINES_MAX:
        return None
    return CodePlace(path=path, line=line, end=None if end == line else end, symbol=match["symbol"])


def citing_topics(payload: Mapping[str, object]) -> Sequence[str]:
    """Return the topic of a memory that cites code which was seen in a repository; mostly none."""
    repository = read_checkout(payload).repository
    is_seen = any(one.seen for one in read_citations(payload))
    return (citing_topic(repository),) if repository and is_seen else ()


def citing_topic(repository: str) -> str:
    """Return the topic under which memories that cite code of a repository are looked up."""
    return f"cites:{repository}"[:NAME_CHARS_MAX]


def stored_citations(citations: Sequence[Citation]) -> list[dict[str, object]]:
    """Convert citations to the JSON that is stored with a memory."""
    return [
        {"place": str(one.place), **({} if one.seen is None else _stored(one.seen))}
        for one in citations
    ]


def _stored(seen: Fingerprint) -> dict[str, object]:
    values = ((name, getattr(seen, name)) for name in seen.__slots__)
    return {
        name: list(cast("Sequence[int]", value)) if name == "bag" else value
        for name, value in values
        if value is not None
    }


def read_citations(payload: Mapping[str, object]) -> tuple[Citation, ...]:
    """Return the citations in the payload of a memory; broken ones are left out."""
    stored = payload.get(CITATIONS)
    if not isinstance(stored, list):
        return ()
    return tuple(
        citation
        for one in cast("list[object]", stored)
        if isinstance(one, dict) and (citation := _read(cast("dict[str, Any]", one))) is not None
    )


def _read(stored: Mapping[str, Any]) -> Citation | None:
    place = parse_place(str(stored.get("place")))
    if place is None:
        return None
    try:
        numbers = {name: int(stored[name]) for name in ("line", "lines", "tokens", "head")}
        around = {name: int(stored[name]) for name in ("before", "after") if name in stored}
        seen = Fingerprint(
            raw=str(stored["raw"]),
            digest=str(stored["digest"]),
            bag=tuple(map(int, stored["bag"])),
            **numbers,
            **around,
        )
    except (KeyError, TypeError, ValueError):
        return Citation(place=place)
    return Citation(place=place, seen=seen)


def read_checkout(payload: Mapping[str, object]) -> Checkout:
    """Return the branch and commit in the payload of a memory."""
    stored = payload.get(CHECKOUT)
    values = cast("dict[str, object]", stored) if isinstance(stored, dict) else {}
    known = ((name, values.get(name)) for name in Checkout.__slots__)
    return Checkout(**{name: value for name, value in known if isinstance(value, str)})


def stored_checkout(checkout: Checkout) -> dict[str, str]:
    """Convert a checkout to the JSON that is stored with a memory."""
    known = ((name, getattr(checkout, name)) for name in Checkout.__slots__)
    return {name: value for name, value in known if value is not None}
