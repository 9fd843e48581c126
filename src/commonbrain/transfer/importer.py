"""The interface of importers: a foreign source in, drafts and their relations out."""

from __future__ import annotations

import hashlib
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from commonbrain.extras import IMPORT_FORMATS, extra_missing
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import NAME_CHARS_MAX, SOURCE_REF_CHARS_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A piece of the source that could not become a draft: its place, and the reason."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRelation:
    """A relation between two memories of the source, named by their `source_ref`s.

    `type` is the relation of the first to the second. Without one, the first supersedes the second.
    It follows the drafts of both; of several that supersede in a chain, the oldest comes first.
    """

    first: str
    second: str
    type: LinkType | None
    strength: float | None = None
    """How strong the link is, 0..1; None uses the default."""
    reason: str | None = None
    """Why, as the source says."""
    at: datetime | None = None
    """When it was made, as the source says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnnotation:
    """A note that the source keeps on a memory, which comes before it."""

    about: str
    """The `source_ref` of the memory."""
    text: str
    author: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReceipt:
    """That an agent read or acknowledged a message, which comes before it."""

    message: str
    """The `source_ref` of the message."""
    agent: str
    read_at: datetime | None = None
    acked_at: datetime | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceThread:
    """The status and tags of a thread, whose messages come before it."""

    key: str
    is_closed: bool = False
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OmittedContent:
    """What the source holds and Commonbrain does not take over, such as `tool results`."""

    what: str
    count: int = 1


Content = (
    Draft
    | Unreadable
    | SourceRelation
    | SourceAnnotation
    | SourceReceipt
    | SourceThread
    | OmittedContent
)
"""What an importer yields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportItem:
    """A piece read from a source, and the progress at its end, 0..1."""

    content: Content
    progress: float
    size: int = field(default=0, compare=False)
    """Its bytes, if another process read it; 0 of one that was read here."""


@dataclass(slots=True, kw_only=True)
class Meter:
    """How much of a source has been read, in bytes, rows or what else its importer counts."""

    total: int
    done: int = 0

    def piece(self, content: Content) -> ImportItem:
        """Make a piece that ends here."""
        return ImportItem(content=content, progress=min(self.done / max(self.total, 1), 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedSource:
    """A source where programs usually keep it; counted without reading it."""

    path: Path
    count: int
    """Files, or 1."""
    size_bytes: int


class Importer(ABC):
    """Reads one foreign format."""

    name: str
    """The name of the format on the command line."""
    purpose: str
    """What it reads, in a few words for a list: `Notes in Markdown: MEMORY.md, CLAUDE.md`."""
    has_relations: bool = False
    """Whether it yields relations, notes, receipts or threads.

    A continued import then looks up earlier memories.
    """
    places: tuple[str, ...] = ()
    """Patterns of the files where such sources usually are, below a home folder."""
    reads_database: bool = False
    """Whether a source may be the address of a database."""
    reads_part: bool = False
    """Whether several tenants may share a file; the source then names one: `file.db#tenant`."""
    reads_zip: bool = False
    """Whether it reads a folder in a zip file by file, without unpacking all to disk."""
    hidden_files: frozenset[str] = frozenset()
    """Names that begin with a dot, of files that it reads in a folder."""

    def find(self, home: Path) -> Iterator[DetectedSource]:
        """Return the sources below a home folder at their usual places, without reading them."""
        for place in self.places:
            for path in sorted(home.glob(place)):
                yield from file_found(path)

    def projects_in(self, source: Path) -> Mapping[str, str] | None:
        """Return the projects of a source on this machine by folder, to be sent with a copy.

        None of an importer that takes no projects from folders around a source, or in sessions.
        """
        del source

    def for_copy(self, projects: Mapping[str, str]) -> Importer:
        """Return an importer that takes projects from these and from what paths say.

        It looks at nothing on this machine except the copy.
        """
        del projects
        return self

    @abstractmethod
    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the pieces of a source in order, without reading a large one as a whole.

        The same source gives the same drafts with the same `source_ref`s, so that reading it twice
        stores nothing twice.

        Raises:
            InvalidInputError: the source is missing or does not have this format; raised before the
                first piece.

        """


def find_importer(importers: Mapping[str, Importer], name: str) -> Importer:
    """Return the importer of a format.

    Raises:
        InvalidInputError: the format is unknown; `extra_missing`, its package is not installed.

    """
    importer = importers.get(name)
    if importer is not None:
        return importer
    if name in IMPORT_FORMATS:
        raise extra_missing("commonbrain-import", extra="import")
    raise InvalidInputError(
        f"There is no importer for {name[:40]!r}.",
        hint=f"Choose one of {', '.join((*importers, *missing_formats(importers)))}.",
    )


def missing_formats(importers: Mapping[str, Importer]) -> tuple[str, ...]:
    """Return the formats that the extra `import` adds, unless it is installed."""
    known = set(importers)
    return tuple(name for name in IMPORT_FORMATS if name not in known)


def split_part(source: Path) -> tuple[Path, str | None]:
    """Split `file#part`; a source without a part is the file itself."""
    file, marked, part = source.name.rpartition("#")
    return (source.with_name(file), part) if marked and file else (source, None)


def join_part(file: Path, part: str | None) -> Path:
    """Return the source for a part of a file."""
    return file if part is None else file.with_name(f"{file.name}#{part}")


def files_found(folder: Path, pattern: str) -> Iterator[DetectedSource]:
    """Return a folder as one source if files below it match a pattern, such as `**/*.jsonl`."""
    sizes = [one.stat().st_size for one in folder.glob(pattern) if one.is_file()]
    if sizes:
        yield DetectedSource(path=folder, count=len(sizes), size_bytes=sum(sizes))


def file_found(path: Path) -> Iterator[DetectedSource]:
    """Return a file as a source if it is there."""
    if path.is_file():
        yield DetectedSource(path=path, count=1, size_bytes=path.stat().st_size)


_DIGEST_CHARS: Final = 16
"""Enough of a digest to distinguish two long names with the same beginning."""


def source_reference(source: str, place: str) -> str:
    """Join a source and a place in it as `source#place`, shortened if too long."""
    return _shortened(f"{source}#{place}" if place else source, SOURCE_REF_CHARS_MAX)


def name_or_none(text: str | None) -> str | None:
    """Return a text as a name of an agent, project or label; None without one."""
    return shorten_name(text) if text else None


def shorten_name(text: str) -> str:
    """Shorten a project, tag or speaker to the maximum length of names."""
    return _shortened(text, NAME_CHARS_MAX)


def _shortened(text: str, chars_max: int) -> str:
    """Truncate a text and append a digest of the whole, because truncation alone is ambiguous."""
    if len(text) <= chars_max:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]
    return f"{text[: chars_max - _DIGEST_CHARS - 1]}~{digest}"


_ADDRESS: Final = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*:)*[A-Za-z][A-Za-z0-9+.-]+):/+")
"""How a URL begins; a path has lost one of its slashes."""
_DATABASE: Final = re.compile(r"postgres(?:ql)?://")
_CONNINFO: Final = re.compile(r"(?:^|\s)(?:host|hostaddr|dbname|user|password|service)\s*=")
"""A database in the other notation of libpq: `host=... password=...`."""


def _address(source: str | Path) -> str | None:
    """Return a source that is a URL or addresses a database; None for a path."""
    # Unlike `Path.exists`, this raises for no name, whose error would repeat it.
    if Path(source).is_absolute() or os.path.exists(source):  # noqa: PTH110
        return None  # Such as a file that was sent here, by whatever name.
    text = (source.as_posix() if isinstance(source, Path) else source).strip(" '\"")
    if _ADDRESS.match(text):
        return _ADDRESS.sub(r"\1://", text, count=1)
    # Without a scheme: `user:password@host`, whatever the password has.
    has_account = ":" in text.rpartition("@")[0]
    return text if has_account or _CONNINFO.search(text) else None


def database_url(source: str | Path) -> str | None:
    """Return the address of a Postgres database that is given as a source, else None."""
    address = _address(source) or ""
    is_url = _ADDRESS.match(address) is not None
    is_database = (_DATABASE.match if is_url else _CONNINFO.search)(address)
    return address if is_database else None


def check_is_path(source: str | Path) -> None:
    """Refuse an address, for an importer that reads files; its password is not repeated.

    Raises:
        InvalidInputError: the source is a URL, or addresses a database.

    """
    if _address(source) is not None:
        raise InvalidInputError(
            f"{shown_source(source)} is an address; this format is read from a file or a folder.",
            hint="Give the path of a file or a folder. brain import --formats lists what is read.",
        )


def shown_source(source: str | Path) -> str:
    """Return a source as it may be shown and logged: an address without password and options."""
    url = _address(source)
    if url is None:
        return str(source)
    scheme, is_url, _ = url.partition("://")
    hidden = f"{scheme}://" if is_url else "postgresql://"
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return hidden
    rest = f"{parts.path}?{parts.query}#{parts.fragment}"
    # A password with one of these characters ends the part in which it belongs.
    is_cut = "@" not in parts.netloc and not parts.path.strip("/")
    if not parts.scheme or "@" in rest or is_cut:
        return hidden
    # Where others have a user, a token may stand.
    user = f"{parts.username}@" if parts.username and _DATABASE.match(url) else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"
