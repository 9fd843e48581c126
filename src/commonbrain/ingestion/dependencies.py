"""The stage that asks on what a new memory rests, by the ids and the reasons in its text.

Named in so many words, a premise is linked. A reason that only reads like a stored memory is
suggested: who wrote the text decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from commonbrain.embeddings.interface import Space
from commonbrain.ingestion.deduplication import contradicts, is_comparable
from commonbrain.ingestion.preparation import STATING, Prepared
from commonbrain.ingestion.result import Because, Suggestion
from commonbrain.ingestion.sources import put_link
from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.links import LinkType
from commonbrain.model.memory import AWAITING_STATES, CURRENT_STATES, Memory
from commonbrain.model.query import Filter
from commonbrain.model.scope import is_visible
from commonbrain.storage.interface import Look, Transaction
from commonbrain.text.rationale import mentions

_SUGGESTED_MAX: Final = 3
_NEAREST: Final = 5
_BASIS: Final = "because"


def find_premises(
    tx: Transaction,
    memory: Memory,
    *,
    prepared: Prepared,
    look: Look,
    space: Space,
    but: Collection[int],
) -> tuple[Suggestion, ...]:
    """Link a new memory to what it names as its premise; suggest what may be one, too."""
    if memory.state in AWAITING_STATES or memory.kind not in STATING:
        return ()
    # A revision does not rest on what it takes the place of.
    known = {*prepared.draft.depends_on, *prepared.draft.derived_from, memory.id, *but}
    named = _named(tx, memory, known=known, look=look)
    wanted = {one.id: (one, Because.NAMED) for one in named}
    for one in _told(tx, memory, prepared=prepared, look=look, space=space):
        if one.id not in known:
            wanted.setdefault(one.id, (one, Because.REASON))
    return tuple(_suggestion(memory, one, how=how) for one, how in wanted.values())[:_SUGGESTED_MAX]


def _named(tx: Transaction, memory: Memory, *, known: set[int], look: Look) -> list[Memory]:
    """Link what is named as a premise, and add it to what is known; give what is merely named."""
    told = {one.id: one.is_premise for one in mentions(memory.text) if one.id not in known}
    found = tx.memories.get(list(told)) if told else {}
    holding = [one for one in found.values() if _holds(one, look)]
    for one in holding:
        if told[one.id]:
            known.add(one.id)
            put_link(
                tx,
                memory,
                to=one.id,
                type_=LinkType.DEPENDS_ON,
                caller=look.caller,
                basis=_BASIS,
            )
    return [one for one in holding if not told[one.id]]


def _holds(one: Memory, look: Look) -> bool:
    is_current = one.state in CURRENT_STATES and not one.is_over(look.now)
    return is_current and is_visible(look.caller, one)


def _told(
    tx: Transaction, memory: Memory, *, prepared: Prepared, look: Look, space: Space
) -> Iterator[Memory]:
    """Give the memories that say what the text gives as its reasons, the nearest first."""
    wanted = Filter(kinds=(Kind.FACT, Kind.RULE), project=memory.project, trust_min=0.0)
    there = Look(caller=look.caller, filter=wanted, now=look.now)
    for clause, vectors in zip(prepared.premises, prepared.premise_vectors, strict=False):
        hits = tx.index.nearest(vectors[0], there, limit=_NEAREST, at_least=space.similar_at)
        found = tx.memories.get([hit.id for hit in hits])
        for hit in hits:
            one = found.get(hit.id)
            if one is not None and _may_bear(one, memory, clause=clause):
                yield one


def _may_bear(one: Memory, memory: Memory, *, clause: str) -> bool:
    """Leave out what says something else than the clause, and what fewer may see than the new."""
    is_other = one.id != memory.id and not contradicts(clause, one.text)
    return is_other and is_comparable(
        one, memory.scope, project=memory.project, readers=memory.audience
    )


def _suggestion(memory: Memory, one: Memory, *, how: Because) -> Suggestion:
    own, its = (ids.show(ids.MEMORY, id_) for id_ in (memory.id, one.id))
    return Suggestion(
        id=its,
        headline=one.headline,
        how=how,
        accept=f"brain revise link {own} --other {its} --value depends_on",
    )
