"""The last filter: policy, trust and visibility on every candidate, whatever arm brought it."""

from collections.abc import Container, Iterable, Mapping, Sequence

from commonbrain.domain.query import Candidate, is_allowed
from commonbrain.domain.revision import Span
from commonbrain.flows.recall.plan import Plan


def permitted(
    plan: Plan,
    ranked: Iterable[Candidate],
    *,
    past: Mapping[int, Sequence[Span]],
    needs: Container[int] = frozenset(),
) -> list[Candidate]:
    """Keep what the caller may see and asked for, each text once, in the order given.

    `past` holds the spans in which memories were believed before, where the past is asked for;
    `needs` what needs review, where only that is.
    """
    kept: dict[str, Candidate] = {}
    for candidate in ranked:
        memory = candidate.memory
        if plan.filter.needs_review and memory.id not in needs:
            continue
        spans = past.get(memory.id, ())
        if is_allowed(memory, plan.caller, wanted=plan.filter, now=plan.now, past=spans):
            kept.setdefault(memory.semantic_hash, candidate)
    return list(kept.values())
