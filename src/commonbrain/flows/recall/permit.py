"""The last filter: policy, trust and visibility on every candidate, whatever arm brought it."""

from collections.abc import Iterable

from commonbrain.domain.query import Candidate, is_allowed
from commonbrain.flows.recall.plan import Plan


def permitted(plan: Plan, ranked: Iterable[Candidate]) -> list[Candidate]:
    """Keep what the caller may see and asked for, each text once, in the order given."""
    kept: dict[str, Candidate] = {}
    for candidate in ranked:
        if is_allowed(candidate.memory, plan.caller, wanted=plan.filter, now=plan.now):
            kept.setdefault(candidate.memory.semantic_hash, candidate)
    return list(kept.values())
