"""The shelf of walks: what can be reached from a memory over links, one step at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from commonbrain.model.links import Link, LinkType
from commonbrain.model.scope import Caller
from commonbrain.model.support import Review, Support, SupportStatus
from commonbrain.storage.query_scope import QueryScope


class Direction(StrEnum):
    """In which direction links are followed."""

    ALONG = "along"
    """From the memory that a link leads from to the one that it leads to."""
    AGAINST = "against"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """For whom is walked: only over what this caller may see, trusts enough, and was let in."""

    caller: Caller
    trust_min: float = 0.0


@dataclass(frozen=True, slots=True)
class ReachedMemory:
    """A memory that a walk came to: after how many steps, from which one, over what link."""

    id: int
    depth: int
    via_id: int
    type: LinkType


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk came to, the nearest first; `is_cut` when it met its limit before its end."""

    reached: tuple[ReachedMemory, ...]
    is_cut: bool = False

    def path(self, id_: int) -> list[int]:
        """Give the memories from one that was reached back to where the walk began, both in it."""
        via = {one.id: one.via_id for one in self.reached}
        path = [id_]
        while path[-1] in via:
            path.append(via[path[-1]])
        return path


class GraphRepository(Protocol):
    """Walks over the links of one tenant; no walk comes to a memory twice, nor back to a start."""

    def seen_by(self, reader: Reader) -> GraphRepository:
        """Give the graph in which what is hidden from a reader is as if it were not there."""
        ...

    def walk(
        self,
        start: Sequence[int],
        way: Direction,
        *,
        types: Sequence[LinkType],
        limit: int,
        depth_max: int | None = None,
        stops: Sequence[int] = (),
    ) -> Walk:
        """Follow links of some types breadth first, by shortest paths; ties go to the lesser id.

        At most `limit` memories of any state, `depth_max` steps away; `stops` are come to, and not
        walked past.
        """
        ...

    def onward(self, ids: Sequence[int], way: Direction, *, types: Sequence[LinkType]) -> set[int]:
        """Say from which of these memories a walk would go on."""
        ...

    def among(self, ids: Sequence[int], *, types: Sequence[LinkType]) -> list[Link]:
        """List the links of some types that join two of these memories, in no order."""
        ...

    def supports(self, ids: Sequence[int]) -> list[Support]:
        """List the links by which these memories rest on others."""
        ...

    def standings(self, ids: Sequence[int]) -> dict[int, SupportStatus]:
        """Give what decides whether memories bear others; unknown ids are absent."""
        ...


class ReviewRepository(Protocol):
    """Reviews, and the list of memories whose fall has yet to be followed up."""

    def touch(self, ids: Sequence[int], *, at: datetime) -> None:
        """List what a change of these memories or of their links may unseat, to be looked at then.

        That is: those of them that something rests on or that need review, what they are in
        conflict with, and the causes of their reviews.
        """
        ...

    def listed(self) -> list[int]:
        """Give what this transaction has listed itself and not taken off again, by id."""
        ...

    def disputed(self, ids: Sequence[int]) -> list[int]:
        """Give the memories that are in conflict with any of these, by id."""
        ...

    def due(self, now: datetime, *, limit: int) -> list[int]:
        """Give the memories that are to be looked at by now, the longest due first."""
        ...

    def postpone(self, id_: int, until: datetime | None) -> None:
        """Take a memory off the list, or put it back for later."""
        ...

    def of(self, ids: Sequence[int]) -> dict[int, list[Review]]:
        """Give the reviews of memories, settled ones too, by their causes; others are absent."""
        ...

    def doubtful(self, ids: Sequence[int]) -> list[int]:
        """Give of memories those with an open review for which nobody has vouched."""
        ...

    def unsupported(self, ids: Sequence[int]) -> dict[int, Review]:
        """Give of memories that lost every support the reviews that say so."""
        ...

    def by(self, cause_id: int) -> list[Review]:
        """List what a cause unseated, settled ones too, the nearest first."""
        ...

    def add(self, reviews: Sequence[Review]) -> None:
        """Add reviews that are not there."""
        ...

    def put(self, reviews: Sequence[Review]) -> None:
        """Set reviews to exactly these, whether they were there or not."""
        ...

    def drop(self, reviews: Sequence[Review]) -> None:
        """Take reviews away."""
        ...

    def shaken(self, ids: Sequence[int]) -> list[int]:
        """Give these and, step by step, all that rests on them and has an open review."""
        ...


class ConflictRepository(Protocol):
    """Links of conflict between two memories that a look both allows."""

    def unsettled(self, look: QueryScope, *, limit: int, skip: int = 0) -> list[Link]:
        """List them, the latest first; not those whose sides hold in projects of their own.

        Of two that are linked in both directions the link of the lesser id is given.
        """
        ...
