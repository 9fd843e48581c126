"""What the house needs of a foreign format: a stream of drafts, nothing silent."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from commonbrain.domain.memory import Draft


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
            Invalid: the source is missing or not of this format; raised before the first piece.

        """
        ...
