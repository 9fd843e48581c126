"""Ordering candidates by everything known of them, with fixed weights."""

from collections.abc import Iterable, Mapping
from typing import Final

from commonbrain.domain.memory import Memory
from commonbrain.domain.query import Candidate
from commonbrain.domain.scoring import strength
from commonbrain.flows.recall.plan import Plan

# Relevance decides; the rest breaks near-ties, so that of two equal matches the fresher, more
# trusted and more telling one comes first.
WEIGHTS: Final[Mapping[str, float]] = {
    "fused": 0.80,
    "strength": 0.05,
    "trust": 0.04,
    "confidence": 0.03,
    "salience": 0.03,
    "same_project": 0.05,
}


def weigh(
    plan: Plan,
    memories: Iterable[Memory],
    *,
    features: Mapping[int, Mapping[str, float]],
) -> list[Candidate]:
    """Score every memory by the weighted sum of its features, 0..1, best first, newest on a tie.

    Without a query there is nothing to be best at: the newest comes first, whatever its score.
    """
    candidates = (_candidate(plan, memory, given=features[memory.id]) for memory in memories)
    best_first = sorted(candidates, key=lambda c: (-c.score, -c.memory.id))
    if plan.query:
        return best_first
    return sorted(best_first, key=lambda c: c.memory.occurred_at, reverse=True)


def _candidate(plan: Plan, memory: Memory, *, given: Mapping[str, float]) -> Candidate:
    known = {
        **given,
        "strength": strength(memory, plan.now),
        "trust": memory.trust.weight,
        "confidence": memory.confidence,
        "salience": memory.salience,
        "same_project": float(memory.project is not None and memory.project == plan.filter.project),
    }
    score = sum(weight * known[name] for name, weight in WEIGHTS.items())
    return Candidate(memory=memory, features=known, score=score)
