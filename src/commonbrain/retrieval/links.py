"""Links of candidates: memories to add, support among candidates, contradictions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.model.limits import EXPANSION_MAX
from commonbrain.model.links import Link, LinkType, preferred
from commonbrain.model.memory import Memory
from commonbrain.model.query import is_allowed
from commonbrain.model.scope import isolates
from commonbrain.retrieval.query_plan import QueryPlan

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

SEEDS_MAX: Final = 12
"""The best candidates, whose links are followed."""
_LINKS_MAX: Final = 200
"""Links followed, strongest first; one memory may have thousands."""
_REACHED_MAX: Final = 24
"""Neighbours read, to find the few worth adding."""
RECENCY_HALF_LIFE: Final = timedelta(hours=168)
# A stated reason counts more than a similarity; a contradiction supports nothing.
TYPE_WEIGHTS: Final[Mapping[LinkType, float]] = {
    LinkType.DERIVED_FROM: 1.0,
    LinkType.DEPENDS_ON: 1.0,
    LinkType.SUPPORTS: 1.0,
    LinkType.CAUSES: 1.0,
    LinkType.ENABLES: 0.8,
    LinkType.ABOUT: 0.8,
    LinkType.PRECEDES: 0.6,
    LinkType.CORRELATES: 0.5,
    LinkType.RELATES_TO: 0.5,
}


@dataclass(frozen=True, slots=True)
class LinkExpansion:
    """The links of the best candidates, and the memories at their other ends."""

    links: Sequence[Link] = ()
    added: Mapping[int, float] = field(default_factory=dict[int, float])
    """Memories added for their links, with their weight, 0..1."""
    support: Mapping[int, float] = field(default_factory=dict[int, float])
    """Support of candidates by other candidates, 0..1."""
    ends: Mapping[int, Memory] = field(default_factory=dict[int, Memory])
    """The memories at the other ends, added or not."""

    def conflicting_pairs(
        self, known: Mapping[int, Memory]
    ) -> Iterator[tuple[Memory, Memory, Link]]:
        """Return the conflicting pairs whose memories are both known."""
        for link in self.links:
            if link.type is LinkType.CONFLICTS_WITH:
                one, other = known.get(link.from_id), known.get(link.to_id)
                if one is not None and other is not None:
                    yield one, other, link


def expand_links(
    tx: Transaction, plan: QueryPlan, *, matches: Mapping[int, Memory], fused: Mapping[int, float]
) -> LinkExpansion:
    """Follow the links of the best candidates by one step."""
    seeds = sorted(matches, key=lambda id_: -fused[id_])[:SEEDS_MAX]
    every = tx.links.touching(seeds, limit=_LINKS_MAX)
    links = [link for link in every if link.trust.weight >= plan.filter.trust_min]
    if not links:
        return LinkExpansion()
    reached: defaultdict[int, float] = defaultdict(float)
    for seed, end, link in _steps(links, frozenset(seeds)):
        pull = fused[seed] * link.strength * TYPE_WEIGHTS.get(link.type, 0.0)
        reached[end] = max(reached[end], pull)
    new_ids = sorted((end for end in reached if end not in matches), key=lambda end: -reached[end])
    ends = tx.memories.get(new_ids[:_REACHED_MAX])
    return LinkExpansion(
        links=links,
        added=_added(plan, ends, pull=reached),
        support={id_: pull for id_, pull in reached.items() if id_ in matches and pull > 0},
        ends=ends,
    )


def find_contradicted(
    graph: LinkExpansion, plan: QueryPlan, *, known: Mapping[int, Memory]
) -> dict[int, float]:
    """Return which memories a preferred one contradicts, with the strength, 0..1.

    Only links of equal or higher trust count, and only if the preferred memory is visible.
    """
    strengths: dict[int, float] = {}
    for one, other, link in graph.conflicting_pairs(known):
        best = preferred(one, other)
        rest = other if best is one else one
        if isolates(one.project, other.project):
            continue
        is_entitled = link.trust.weight >= rest.trust.weight
        if is_entitled and is_allowed(best, plan.caller, criteria=plan.filter, now=plan.now):
            strengths[rest.id] = max(link.strength, strengths.get(rest.id, 0.0))
    return strengths


def _steps(links: Sequence[Link], seeds: frozenset[int]) -> Iterator[tuple[int, int, Link]]:
    """Return each link from the side of a candidate."""
    for link in links:
        if link.from_id in seeds:
            yield link.from_id, link.to_id, link
        if link.to_id in seeds:
            yield link.to_id, link.from_id, link


def _added(
    plan: QueryPlan, ends: Mapping[int, Memory], *, pull: Mapping[int, float]
) -> dict[int, float]:
    """Choose the memories with the strongest links, favouring recent ones.

    A search in one field of atoms adds none.
    """
    if plan.filter.field is not None:
        return {}
    worth = {
        id_: pull[id_] * recency(memory, plan.now)
        for id_, memory in ends.items()
        if pull[id_] > 0 and is_allowed(memory, plan.caller, criteria=plan.filter, now=plan.now)
    }
    limit = min(EXPANSION_MAX, plan.budget.max_items // 2)
    best = sorted(worth, key=lambda id_: (-worth[id_], -id_))[:limit]
    return {id_: worth[id_] for id_ in best}


def recency(memory: Memory, now: datetime) -> float:
    """Return the recency of a memory, 0..1, halved for each week since it occurred."""
    return 2.0 ** -max((now - memory.occurred_at) / RECENCY_HALF_LIFE, 0.0)
