"""The stage that asks on what a new memory rests, by the ids and the reasons in its text.

Named in so many words, a premise is linked. A reason that only reads like a stored memory is
suggested: who wrote the text decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.ingestion.deduplication import contradicts, is_comparable
from commonbrain.ingestion.preparation import CLAIM_KINDS, PreparedDraft
from commonbrain.ingestion.result import DependencySuggestion, SuggestionBasis
from commonbrain.ingestion.sources import put_link
from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.links import LinkType
from commonbrain.model.memory import AWAITING_STATES, CURRENT_STATES, Memory
from commonbrain.model.query import Filter
from commonbrain.model.scope import is_visible
from commonbrain.storage.interface import QueryScope
from commonbrain.text.rationale import mentions

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_SUGGESTIONS_MAX: Final = 3
_NEAREST: Final = 5
_BASIS: Final = "because"


def find_dependencies(
    tx: Transaction,
    memory: Memory,
    *,
    prepared: PreparedDraft,
    query_scope: QueryScope,
    space: EmbeddingSpace,
    exclude_ids: Collection[int],
) -> tuple[DependencySuggestion, ...]:
    """Link a new memory to what it names as its premise; suggest what may be one, too."""
    if memory.state in AWAITING_STATES or memory.kind not in CLAIM_KINDS:
        return ()
    # A revision does not rest on what it takes the place of.
    known = {*prepared.draft.depends_on, *prepared.draft.derived_from, memory.id, *exclude_ids}
    named = _link_named(tx, memory, known=known, query_scope=query_scope)
    wanted = {one.id: (one, SuggestionBasis.NAMED) for one in named}
    for one in _match_rationales(
        tx, memory, prepared=prepared, query_scope=query_scope, space=space
    ):
        if one.id not in known:
            wanted.setdefault(one.id, (one, SuggestionBasis.REASON))
    return tuple(_suggestion(memory, one, how=how) for one, how in wanted.values())[
        :_SUGGESTIONS_MAX
    ]


def _link_named(
    tx: Transaction, memory: Memory, *, known: set[int], query_scope: QueryScope
) -> list[Memory]:
    """Link what is named as a premise, and add it to what is known; give what is merely named."""
    mentioned = {one.id: one.is_premise for one in mentions(memory.text) if one.id not in known}
    memories = tx.memories.get(list(mentioned)) if mentioned else {}
    current = [one for one in memories.values() if _holds(one, query_scope)]
    for one in current:
        if mentioned[one.id]:
            known.add(one.id)
            put_link(
                tx,
                memory,
                to=one.id,
                type_=LinkType.DEPENDS_ON,
                caller=query_scope.caller,
                basis=_BASIS,
            )
    return [one for one in current if not mentioned[one.id]]


def _holds(one: Memory, query_scope: QueryScope) -> bool:
    is_current = one.state in CURRENT_STATES and not one.is_over(query_scope.now)
    return is_current and is_visible(query_scope.caller, one)


def _match_rationales(
    tx: Transaction,
    memory: Memory,
    *,
    prepared: PreparedDraft,
    query_scope: QueryScope,
    space: EmbeddingSpace,
) -> Iterator[Memory]:
    """Give the memories that say what the text gives as its reasons, the nearest first."""
    wanted = Filter(kinds=(Kind.FACT, Kind.RULE), project=memory.project, trust_min=0.0)
    there = QueryScope(caller=query_scope.caller, filter=wanted, now=query_scope.now)
    for clause, vectors in zip(prepared.premises, prepared.rationale_vectors, strict=False):
        hits = tx.index.nearest(vectors[0], there, limit=_NEAREST, at_least=space.similar_threshold)
        memories = tx.memories.get([hit.id for hit in hits])
        for hit in hits:
            one = memories.get(hit.id)
            if one is not None and _can_support(one, memory, clause=clause):
                yield one


def _can_support(one: Memory, memory: Memory, *, clause: str) -> bool:
    """Leave out what says something else than the clause, and what fewer may see than the new."""
    is_other = one.id != memory.id and not contradicts(clause, one.text)
    return is_other and is_comparable(
        one, memory.scope, project=memory.project, readers=memory.audience
    )


def _suggestion(memory: Memory, one: Memory, *, how: SuggestionBasis) -> DependencySuggestion:
    own, its = (ids.show(ids.MEMORY, id_) for id_ in (memory.id, one.id))
    return DependencySuggestion(
        id=its,
        headline=one.headline,
        how=how,
        accept=f"brain revise link {own} --other {its} --value depends_on",
    )
