"""What a memory disagrees with: what is linked so, and what its source says by now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from commonbrain.invalidation.reviews import open_reviews
from commonbrain.model.conflicts import (
    CONFLICTS_MAX,
    Conflict,
    basis_of,
    conflict_of,
    conflict_with_source,
)
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter, is_allowed
from commonbrain.model.scope import Caller
from commonbrain.model.support import InvalidationReason, Review
from commonbrain.storage.change_log import successors
from commonbrain.text.contradictions import repeats

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_LINKS_MAX = 50
"""Links of conflict looked at of one memory."""


def find_conflicts(
    tx: Transaction, caller: Caller, *, memory: Memory, now: datetime
) -> tuple[Conflict, ...]:
    """Tell of what disagrees with a memory, of what the caller may see and still holds."""

    def holds(one: Memory) -> bool:
        return is_allowed(one, caller, wanted=Filter(trust_min=0.0), now=now)

    if not holds(memory):
        return ()
    links = tx.links.touching([memory.id], types=[LinkType.CONFLICTS_WITH], limit=_LINKS_MAX)
    ends = {link.to_id if link.from_id == memory.id else link.from_id: link for link in links}
    others = tx.memories.get(list(ends))
    linked = [
        conflict_of(memory, others[id_], basis=basis_of(link))
        for id_, link in ends.items()
        if holds(others[id_])
    ]
    needs = open_reviews(tx, [memory.id], as_of=now)
    stale = outdated_of(tx, caller, memories=[memory], needs=needs, now=now)
    return (*linked, *stale)[:CONFLICTS_MAX]


def outdated_of(
    tx: Transaction,
    caller: Caller,
    *,
    memories: Sequence[Memory],
    needs: Mapping[int, Sequence[Review]],
    now: datetime,
) -> tuple[Conflict, ...]:
    """Tell of memories that repeat what a source of theirs said before it was superseded.

    What needs review for it is looked at, and nothing is written: who reviews it, or supersedes
    it, ends it.
    """
    return tuple(
        conflict
        for memory in memories
        for conflict in _outdated(
            tx, caller, memory=memory, reviews=needs.get(memory.id, ()), now=now
        )
    )


def _outdated(
    tx: Transaction, caller: Caller, *, memory: Memory, reviews: Sequence[Review], now: datetime
) -> Iterator[Conflict]:
    causes = [one.cause_id for one in reviews if one.fall is InvalidationReason.SUPERSEDED][
        :CONFLICTS_MAX
    ]
    wanted = Filter(trust_min=0.0)
    for source in tx.memories.get(causes).values():
        *_, head = (source, *successors(tx, source))
        is_seen = is_allowed(head, caller, wanted=wanted, now=now)
        if is_seen and repeats(memory.text, old=source.text, new=head.text):
            yield conflict_with_source(memory, head=head)
