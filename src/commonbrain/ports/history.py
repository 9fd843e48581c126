"""The shelves of what stands beside a memory and of what was done to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from commonbrain.domain.links import Link, LinkType
from commonbrain.domain.revision import Change, Span
from commonbrain.domain.trust import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """What somebody noted beside a memory, under an authority of their own."""

    id: int = 0
    """Drawn by the shelf."""
    memory_id: int
    text: str
    agent: str
    trust: Trust
    at: datetime


class Links(Protocol):
    """The shelf of links between memories."""

    def put(self, link: Link) -> Link:
        """Make a link, or strengthen the one that is there; give it as it is now."""
        ...

    def replace(self, link: Link) -> None:
        """Set a link to exactly this, whether it was there or not."""
        ...

    def drop(self, from_id: int, to_id: int, *, type_: LinkType) -> Link | None:
        """Take a link away and give it back; None when there was none."""
        ...

    def touching(
        self, ids: Sequence[int], *, types: Sequence[LinkType] = (), limit: int | None = None
    ) -> list[Link]:
        """List the links from or to any of these memories, strongest first; no types means all."""
        ...


class Changes(Protocol):
    """The shelf of before-images: what undo, restore and questions about the past read."""

    def add(self, change: Change) -> None:
        """Append one change; its id is drawn here."""
        ...

    def add_alike(self, change: Change, ids: Sequence[int]) -> None:
        """Append the same change of many memories, in their order; it may hold no `detail`."""
        ...

    def of(self, ids: Sequence[int]) -> list[Change]:
        """List what was done to memories, oldest first."""
        ...

    def latest(self, ids: Sequence[int]) -> dict[int, int]:
        """Give the id of the latest change of each memory; unchanged ones are absent."""
        ...

    def versions(self, ids: Sequence[int]) -> dict[int, int]:
        """Count the changes of each memory but those beside it; unchanged ones are absent."""
        ...

    def merge(self, change: Change) -> bool:
        """Take in a change of another store under its own id; False when it is known."""
        ...

    def by(
        self,
        *,
        agent: str | None,
        session: str | None,
        since: datetime | None,
        until: datetime | None,
        limit: int,
    ) -> list[Change]:
        """List what an agent or session did in a time, newest first; None leaves a side open.

        What merely followed from a deed is none, and is left out.
        """
        ...

    def believed(self, ids: Sequence[int]) -> dict[int, list[Span]]:
        """Give the ended spans in which memories were believed, oldest first."""
        ...


class Annotations(Protocol):
    """The shelf of what was noted beside memories."""

    def add(self, annotation: Annotation) -> int:
        """Append one; give its id."""
        ...

    def drop(self, annotation_id: int) -> None:
        """Take one away."""
        ...

    def merge(self, annotation: Annotation) -> bool:
        """Take in an annotation of another store under its own id; False when it is known."""
        ...

    def of(self, ids: Sequence[int]) -> dict[int, list[Annotation]]:
        """Give the annotations of memories, oldest first; memories without any are absent."""
        ...
