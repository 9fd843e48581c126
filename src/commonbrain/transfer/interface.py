"""Interfaces of importers and of the archive format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from commonbrain.model.links import Link
from commonbrain.model.memory import Draft, Memory, Thread
from commonbrain.model.messages import Receipt
from commonbrain.model.revision import Change
from commonbrain.model.support import Review
from commonbrain.model.tasks import Ack
from commonbrain.storage.interface import Annotation


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A piece of the source that could not become a draft: its place, and the reason."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece read from a source, and the progress at its end, 0..1."""

    content: Draft | Unreadable
    progress: float


class Importer(Protocol):
    """Reads one foreign format."""

    @property
    def name(self) -> str:
        """The name of the format on the command line."""
        ...

    def read(self, source: Path, project: str | None) -> Iterator[Piece]:
        """Yield the pieces of a source in order, without reading a large one as a whole.

        `project` overrides the project that the source suggests. The same source gives the same
        drafts with the same `source_ref`s, so that reading it twice stores nothing twice.

        Raises:
            InvalidInputError: the source is missing or does not have this format; raised before the
                first piece.

        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRecord:
    """A memory in any state, and the id of its last change: the later state wins."""

    memory: Memory
    changed: int


Record = Thread | ArchivedRecord | Link | Annotation | Change | Receipt | Review | Ack
"""Everything in a store that cannot be derived, in the order in which it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A record, and the progress at its end, 0..1."""

    content: Record | Unreadable
    progress: float


class Archive(Protocol):
    """Writes and reads Commonbrain's own format."""

    def write(self, target: Path, records: Iterable[Record]) -> int:
        """Write all records to a new file or none, readable by its owner only; return their number.

        Raises:
            InvalidInputError: the file exists already, or its folder does not; nothing was written.
            UnavailableError: the disk is full or fails; no file is left.

        """
        ...

    def read(self, source: Path) -> Iterator[Line]:
        """Read the records in order, one in memory at a time.

        Raises:
            InvalidInputError: the file is missing, of another format or a newer version; raised
                before the first record. Also if the file ends too early, after the records before
                that.

        """
        ...
