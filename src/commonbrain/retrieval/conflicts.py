"""The conflicts of memories: by their links, and by what they repeat of superseded sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.model.links import (
    CONFLICTS_MAX,
    DISAGREEMENTS,
    Conflict,
    Link,
    basis_of,
    conflict_of,
    conflict_with_source,
)
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter, is_allowed
from commonbrain.model.scope import Caller
from commonbrain.model.support import InvalidationReason, Review
from commonbrain.storage.change_log import successors
from commonbrain.text.repetition import repeats_old_value

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_LINKS_MAX: Final = 50
"""Conflict links followed of one memory, strongest first."""


def find_conflicts(
    tx: Transaction,
    caller: Caller,
    *,
    memories: Sequence[Memory],
    reviews: Mapping[int, Sequence[Review]],
    now: datetime,
) -> Mapping[int, tuple[Conflict, ...]]:
    """Map memories to the current ones that disagree with them and that the caller may see.

    `reviews` are their open ones. Memories without a conflict are absent.
    """

    def holds(one: Memory) -> bool:
        return is_allowed(one, caller, criteria=Filter(trust_min=0.0), now=now)

    current = {one.id: one for one in memories if holds(one)}
    ends: dict[int, dict[int, Link]] = {id_: {} for id_ in current}
    for link in tx.links.touching(list(current), types=DISAGREEMENTS):
        for one, other in ((link.from_id, link.to_id), (link.to_id, link.from_id)):
            if one in ends and (other in ends[one] or len(ends[one]) < _LINKS_MAX):
                ends[one][other] = link
    others = tx.memories.get(list({other for linked in ends.values() for other in linked}))
    conflicts: dict[int, tuple[Conflict, ...]] = {}
    for id_, memory in current.items():
        linked = [
            conflict_of(memory, others[other], basis=basis_of(link))
            for other, link in ends[id_].items()
            if holds(others[other])
        ]
        stale = outdated_of(tx, caller, memories=[memory], reviews=reviews, now=now)
        conflicts[id_] = (*linked, *stale)[:CONFLICTS_MAX]
    return {id_: those for id_, those in conflicts.items() if those}


def outdated_of(
    tx: Transaction,
    caller: Caller,
    *,
    memories: Sequence[Memory],
    reviews: Mapping[int, Sequence[Review]],
    now: datetime,
) -> tuple[Conflict, ...]:
    """List conflicts of memories that repeat what a source said before it was superseded.

    Only memories with an open review are checked, and nothing is written: the conflict ends when
    the memory is reviewed or superseded.
    """
    return tuple(
        conflict
        for memory in memories
        for conflict in _outdated(
            tx, caller, memory=memory, reviews=reviews.get(memory.id, ()), now=now
        )
    )


def _outdated(
    tx: Transaction, caller: Caller, *, memory: Memory, reviews: Sequence[Review], now: datetime
) -> Iterator[Conflict]:
    causes = [one.cause_id for one in reviews if one.fall is InvalidationReason.SUPERSEDED][
        :CONFLICTS_MAX
    ]
    criteria = Filter(trust_min=0.0)
    for source in tx.memories.get(causes).values():
        *_, head = (source, *successors(tx, source))
        is_seen = is_allowed(head, caller, criteria=criteria, now=now)
        if is_seen and repeats_old_value(memory.text, old=source.text, new=head.text):
            yield conflict_with_source(memory, head=head)
