"""What is still to be reflected on, and which of it belongs together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from commonbrain.domain.clusters import Occurrence, clusters
from commonbrain.domain.kinds import Kind, MessageDetail
from commonbrain.domain.limits import REFLECT_PAGE
from commonbrain.domain.links import LinkType
from commonbrain.domain.memory import Memory, State
from commonbrain.domain.reflection import COMPACTED
from commonbrain.domain.scope import Caller, Scope, hold_apart, is_visible
from commonbrain.domain.space import Space
from commonbrain.ports.store import Transaction

RAW: Final = frozenset({Kind.EVENT, Kind.MESSAGE})
"""Kinds that tell of what happened, one thing at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some of the memories of a span: which of them belong together, and where to go on."""

    clusters: tuple[tuple[Memory, ...], ...]
    """Each in the order in which it occurred."""
    read: int
    """How many of them tell of what happened."""
    last: int | None
    """The last id that was looked at; None where there are no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """For whom is gathered, of which project, and at which moment."""

    caller: Caller
    project: str | None
    now: datetime
    space: Space

    def takes(self, memory: Memory) -> bool:
        """Say whether a memory may be a source.

        What is private is so for its author alone, whoever else it went to. What is trusted more
        than the caller may claim is left to who may: their episode would not be believed as much.
        """
        caller = self.caller
        is_own = memory.scope is not Scope.PRIVATE or memory.agent == caller.agent
        is_claimed = memory.trust.weight <= caller.trust_ceiling.weight
        is_here = not (self.project and hold_apart(self.project, memory.project))
        holds = memory.state is State.ACTIVE and not memory.is_over(self.now)
        is_raw = memory.kind in RAW and holds and is_visible(caller, memory)
        return is_raw and is_own and is_claimed and is_here


def gather(tx: Transaction, wanted: Wanted, *, after: int, until: int) -> Page:
    """Read the next page of a span of ids, and put together what belongs together.

    What an episode is made of already is passed over: done again, it gives what was not kept yet.
    """
    there = tx.memories.page(after=after, limit=REFLECT_PAGE)
    listed = [id_ for id_ in there if id_ <= until]
    raw = [one for one in tx.memories.get(listed).values() if wanted.takes(one)]
    known = told_of(tx, [one.id for one in raw])
    fresh = sorted(
        (one for one in raw if one.id not in known), key=lambda one: (one.occurred_at, one.id)
    )
    return Page(
        clusters=tuple(_clusters(tx, fresh, alike_at=wanted.space.relevant_at)),
        read=len(raw),
        last=listed[-1] if len(listed) == REFLECT_PAGE else None,
    )


def told_of(
    tx: Transaction, ids: Sequence[int], *, besides: Collection[int] = ()
) -> Collection[int]:
    """Say of which memories there is another episode, whatever has become of that since.

    What sums up a question takes nothing from reflection: facts are proposed of what it tells.
    """
    wanted = set(ids)
    links = tx.links.touching(ids, types=[LinkType.DERIVED_FROM]) if ids else []
    made = [one for one in links if one.to_id in wanted and one.from_id not in besides]
    known = tx.memories.get([one.from_id for one in made])
    episodes = {
        id_ for id_, one in known.items() if one.kind is Kind.EPISODE and one.label != COMPACTED
    }
    return {one.to_id for one in made if one.from_id in episodes}


def _clusters(
    tx: Transaction, memories: Sequence[Memory], *, alike_at: float
) -> list[tuple[Memory, ...]]:
    """Put together what is alike, among what may stand in one episode."""
    classes: defaultdict[tuple[object, ...], list[Memory]] = defaultdict(list)
    for one in memories:
        classes[class_of(one)].append(one)
    found: list[tuple[Memory, ...]] = []
    for those in classes.values():
        places = [Occurrence(at=one.occurred_at, within=_within(one)) for one in those]
        cosines = tx.index.cosines([one.id for one in those])
        found += [
            tuple(those[place] for place in cluster)
            for cluster in clusters(places, cosines, alike_at=alike_at)
        ]
    return found


def class_of(memory: Memory) -> tuple[object, ...]:
    """Give what all sources of an episode share, so that none of them takes from another.

    A lesser trust would pull the others down with it, and a private memory would hide them.
    """
    author = memory.agent if memory.scope is Scope.PRIVATE else None
    return memory.project, memory.scope, memory.trust, author, memory.audience if author else ()


def _within(memory: Memory) -> str | None:
    """Name what a memory was told in: its thread, or else its session."""
    detail = memory.detail
    if isinstance(detail, MessageDetail) and detail.thread_id is not None:
        return f"thread:{detail.thread_id}"
    return f"session:{memory.agent}:{memory.session}" if memory.session else None
