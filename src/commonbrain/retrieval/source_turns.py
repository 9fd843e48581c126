"""The turn that a fact came from: the sentence of a message or event that supports an item.

A fact is shorter than what was said, and an agent that needs the rest should not ask again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import Kind
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Memory
from commonbrain.model.query import Candidate, Filter, is_allowed
from commonbrain.model.recall_result import SourceTurn
from commonbrain.model.timestamps import show_day
from commonbrain.retrieval.current_first import EARLIER
from commonbrain.text.repetition import adds_nothing, content_stems
from commonbrain.text.segmentation import Sought, excerpt
from commonbrain.text.tokens import estimate

if TYPE_CHECKING:
    from commonbrain.retrieval.fusion import LinkExpansion
    from commonbrain.retrieval.query_plan import QueryPlan
    from commonbrain.storage.store import Transaction

STAGE: Final = "source_turns"
_SOURCES: Final = frozenset({Kind.MESSAGE, Kind.EVENT})
_OF_OTHERS: Final = frozenset({Kind.MESSAGE, Kind.EVENT, Kind.EPISODE, Kind.ATOM})
"""A turn has its own text; an episode sums up many, and an atom repeats its source."""
_PER_ITEM_MAX: Final = 4
"""Sources read of one memory; one with more is a summary of them."""
_TOKENS_MAX: Final = 60
"""About two sentences; the item itself says what was asked for."""


def source_turns(
    tx: Transaction, plan: QueryPlan, *, near: Sequence[Candidate], graph: LinkExpansion
) -> Mapping[int, SourceTurn]:
    """Map candidates to the sentences of the turn that says most about them, if they add to it.

    One query reads the sources of all, and none is run without any. A source is checked like a
    candidate: visible, current, of the project and trusted enough. A proactive recall has none,
    nor has one about the past.
    """
    if plan.is_proactive or plan.filter.as_of is not None or not plan.overrides.is_enabled(STAGE):
        return {}
    sources = _source_ids(near, graph)
    if not sources:
        return {}
    source_ids = {id_ for those in sources.values() for id_ in those}
    memories = {id_: graph.ends[id_] for id_ in source_ids & graph.ends.keys()}
    memories |= tx.memories.get(list(source_ids - graph.ends.keys()))
    criteria = Filter(project=plan.filter.project, trust_min=plan.filter.trust_min)
    allowed = {
        id_: one
        for id_, one in memories.items()
        if one.kind in _SOURCES and is_allowed(one, plan.caller, criteria=criteria, now=plan.now)
    }
    turns: dict[int, SourceTurn] = {}
    for candidate in near:
        those = [allowed[id_] for id_ in sources.get(candidate.memory.id, ()) if id_ in allowed]
        if those and (turn := _turn(candidate.memory, those, terms=plan.terms)) is not None:
            turns[candidate.memory.id] = turn
    return turns


def _source_ids(near: Iterable[Candidate], graph: LinkExpansion) -> Mapping[int, Sequence[int]]:
    derived: defaultdict[int, list[int]] = defaultdict(list)
    for link in graph.links:
        if link.type is LinkType.DERIVED_FROM:
            derived[link.from_id].append(link.to_id)
    sources: dict[int, Sequence[int]] = {}
    for candidate in near:
        memory = candidate.memory
        if memory.kind in _OF_OTHERS or candidate.features.get(EARLIER):
            continue
        own = [] if memory.source_message_id is None else [memory.source_message_id]
        if named := list(dict.fromkeys([*own, *derived.get(memory.id, ())]))[:_PER_ITEM_MAX]:
            sources[memory.id] = named
    return sources


def _turn(memory: Memory, sources: Sequence[Memory], *, terms: Sequence[str]) -> SourceTurn | None:
    """Return the best of some sources, shortened; None if it says nothing that the item lacks."""
    known = content_stems(memory.text)
    best = max(sources, key=lambda one: len(known & content_stems(one.text)))
    text = inert_line(_sentences(best.body, sought=Sought([*sorted(known), *terms])))
    if not text or adds_nothing(text, known=memory.text, is_near_copy=False):
        return None
    return SourceTurn(
        id=ids.show(ids.MEMORY, best.id),
        date=show_day(best.occurred_at),
        by=best.speaker or best.agent,
        text=text,
    )


def _sentences(text: str, *, sought: Sought) -> str:
    """Return a short text, or the sentences of a longer one that say most of what is sought."""
    sample = text[:1000]
    chars = _TOKENS_MAX * len(sample) // max(1, estimate(sample))
    return text if len(text) <= chars else excerpt(text, sought, chars=chars)
