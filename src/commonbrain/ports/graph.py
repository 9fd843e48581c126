"""The shelf of walks: what can be reached from a memory over links, one step at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from commonbrain.domain.cascade import Standing, Support
from commonbrain.domain.links import Link, LinkType
from commonbrain.domain.scope import Caller


class Way(StrEnum):
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
class Reached:
    """A memory that a walk came to: after how many steps, from which one, over what link."""

    id: int
    depth: int
    via_id: int
    type: LinkType


@dataclass(frozen=True, slots=True)
class Walk:
    """What a walk came to, the nearest first; `is_cut` when it met its limit before its end."""

    reached: tuple[Reached, ...]
    is_cut: bool = False

    def path(self, id_: int) -> list[int]:
        """Give the memories from one that was reached back to where the walk began, both in it."""
        via = {one.id: one.via_id for one in self.reached}
        path = [id_]
        while path[-1] in via:
            path.append(via[path[-1]])
        return path


class Graph(Protocol):
    """Walks over the links of one tenant; no walk comes to a memory twice, nor back to a start."""

    def seen_by(self, reader: Reader) -> Graph:
        """Give the graph in which what is hidden from a reader is as if it were not there."""
        ...

    def walk(
        self,
        start: Sequence[int],
        way: Way,
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

    def onward(self, ids: Sequence[int], way: Way, *, types: Sequence[LinkType]) -> set[int]:
        """Say from which of these memories a walk would go on."""
        ...

    def among(self, ids: Sequence[int], *, types: Sequence[LinkType]) -> list[Link]:
        """List the links of some types that join two of these memories, in no order."""
        ...

    def supports(self, ids: Sequence[int]) -> list[Support]:
        """List the links by which these memories rest on others."""
        ...

    def standings(self, ids: Sequence[int]) -> dict[int, Standing]:
        """Give what decides whether memories bear others; unknown ids are absent."""
        ...
