"""The stage that asks the store who said it already, and lets the domain judge."""

from commonbrain.domain.duplicates import (
    Duplicate,
    Neighbour,
    Novel,
    is_comparable,
    judge,
)
from commonbrain.domain.kinds import KINDS, OnDuplicate
from commonbrain.domain.memory import Memory, semantic_hash
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import is_visible
from commonbrain.domain.space import Space
from commonbrain.flows.remember.prepare import Prepared
from commonbrain.ports.store import Look, Transaction

_NEIGHBOURS = 40
"""How many of the nearest are looked at; asking for more would search the store twice over."""


def find_exact(tx: Transaction, prepared: Prepared, *, look: Look) -> Memory | None:
    """Find a memory that says it to the letter.

    Where equal texts are not the same thing (an utterance, an event), only one from the same
    source counts.
    """
    kind = prepared.admitted.kind
    may_repeat = KINDS[kind].on_duplicate in {OnDuplicate.KEEP, OnDuplicate.RECUR}
    source = prepared.draft.source_ref if may_repeat else None
    if may_repeat and source is None:
        return None
    same = tx.memories.by_hash(kind, semantic_hash(kind, prepared.text), source_ref=source)
    return next((one for one in same if _may_compare(one, prepared, look=look)), None)


def judge_neighbours(
    tx: Transaction,
    prepared: Prepared,
    *,
    look: Look,
    space: Space,
    besides: frozenset[int],
) -> Novel | Duplicate:
    """Compare a draft with the nearest of its kind, leaving out the ids `besides`."""
    if prepared.vectors is None:
        return Novel()
    kind = prepared.admitted.kind
    like_it = Filter(kinds=(kind,), project=prepared.project, trust_min=0.0)
    there = Look(caller=look.caller, filter=like_it, now=look.now)
    hits = tx.index.nearest(prepared.vectors[0], there, limit=_NEIGHBOURS)
    near = {hit.id: hit.score for hit in hits if hit.score >= space.similar_at}
    neighbours = [
        Neighbour(
            id=memory.id,
            headline=memory.headline,
            text=memory.text,
            similarity=near[memory.id],
        )
        for memory in tx.memories.get([id_ for id_ in near if id_ not in besides]).values()
        if _may_compare(memory, prepared, look=look)
    ]
    return judge(kind, prepared.text, near=neighbours, space=space)


def _may_compare(memory: Memory, prepared: Prepared, *, look: Look) -> bool:
    """Leave out what may not be seen, and what a recall would not give in place of the draft."""
    is_open = is_visible(look.caller, memory)
    is_over = memory.expires_at is not None and memory.expires_at <= look.now
    is_believed = not is_over and memory.trust.weight >= prepared.trust.weight
    comparable = is_comparable(memory, prepared.scope, project=prepared.project)
    return is_open and is_believed and comparable
