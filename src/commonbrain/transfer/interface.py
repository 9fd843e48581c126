"""What the house needs of its own file format: everything out, line by line, and in again."""

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
    """A piece of the source that could not become a draft: where it stands, and why."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One thing read from a source, and how far into the source it ends, 0..1."""

    content: Draft | Unreadable
    progress: float


class Importer(Protocol):
    """Reads one foreign format."""

    @property
    def name(self) -> str:
        """What people call the format on the command line."""
        ...

    def read(self, source: Path, project: str | None) -> Iterator[Piece]:
        """Give what the source holds, in its order, without reading it whole where it is large.

        `project` overrides the project that the source suggests. The same source gives the same
        drafts with the same `source_ref`s, so that reading it twice stores nothing twice.

        Raises:
            InvalidInputError: the source is missing or not of this format; raised before the first
                piece.

        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedRecord:
    """A memory of any state, and the id of what was last done to it: the later state stands."""

    memory: Memory
    changed: int


Record = Thread | ArchivedRecord | Link | Annotation | Change | Receipt | Review | Ack
"""What a store holds beside what can be derived from it, in the order it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One record read, and how far into the file it ends, 0..1."""

    content: Record | Unreadable
    progress: float


class Archive(Protocol):
    """Writes and reads Commonbrain's own format."""

    def write(self, target: Path, records: Iterable[Record]) -> int:
        """Write records to a new file, whole or not at all, for its owner alone; count them.

        Raises:
            InvalidInputError: the file exists already, or its folder does not; nothing was written.
            UnavailableError: the disk is full or refuses; nothing is left behind.

        """
        ...

    def read(self, source: Path) -> Iterator[Line]:
        """Give the records in their order, one in memory at a time.

        Raises:
            InvalidInputError: the file is missing, of another format or of a newer version; raised
                before the first line. Also when the file ends too early: what came before was
                given.

        """
        ...
