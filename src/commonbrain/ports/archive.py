"""What the house needs of its own file format: everything out, line by line, and in again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from commonbrain.domain.action_items import Ack
from commonbrain.domain.cascade import Review
from commonbrain.domain.links import Link
from commonbrain.domain.memory import Memory, Thread
from commonbrain.domain.message import Receipt
from commonbrain.domain.revision import Change
from commonbrain.ports.history import Annotation
from commonbrain.ports.importing import Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A memory of any state, and the id of what was last done to it: the later state stands."""

    memory: Memory
    changed: int


Record = Thread | Kept | Link | Annotation | Change | Receipt | Review | Ack
"""What a store holds beside what can be derived from it, in the order it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One record read, and how far into the file it ends, 0..1."""

    content: Record | Unreadable
    progress: float


class Archive(Protocol):
    """Writes and reads the house's own format."""

    def write(self, target: Path, records: Iterable[Record]) -> int:
        """Write records to a new file, whole or not at all, for its owner alone; count them.

        Raises:
            Invalid: the file exists already, or its folder does not; nothing was written.
            Unavailable: the disk is full or refuses; nothing is left behind.

        """
        ...

    def read(self, source: Path) -> Iterator[Line]:
        """Give the records in their order, one in memory at a time.

        Raises:
            Invalid: the file is missing, of another format or of a newer version; raised before
                the first line. Also when the file ends too early: what came before was given.

        """
        ...
