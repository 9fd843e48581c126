"""What rests on a memory, and what it comes from, told as a trace."""

from commonbrain.domain.memory import Memory
from commonbrain.flows.origins import provenance
from commonbrain.flows.trace.chains import memories_of, steps_of
from commonbrain.flows.trace.evidence import open_ends
from commonbrain.flows.trace.told import Step, Traced, step_of
from commonbrain.flows.trace.walking import Trail


def dependents_of(trail: Trail, start: Memory, *, asked: str) -> Traced:
    """Tell what rests on a memory, directly or over others."""
    chain = trail.chain(start)
    memories = memories_of(trail, [chain], starts=[start])
    limits = open_ends(chain, depth_max=trail.depth_max) if chain.hops else ["Nothing rests on it."]
    return Traced(
        op="dependents",
        asked=asked,
        steps=tuple(steps_of(trail, chain, memories=memories)),
        limits=tuple(limits),
        is_cut=chain.is_cut or chain.is_deeper,
    )


def provenance_of(trail: Trail, start: Memory, *, asked: str) -> Traced:
    """Tell where a memory comes from, step by step to the messages and the thread."""
    known = provenance(trail.tx, trail.caller, memory=start, now=trail.now)
    steps = (
        Step(
            depth=one.depth,
            id=one.id,
            kind=one.kind,
            headline=one.headline,
            via=one.via,
            agent=one.agent,
            occurred_at=one.occurred_at,
            state=one.state,
            source_ref=one.source_ref,
            thread=one.thread,
        )
        for one in known.origins
    )
    return Traced(
        op="provenance",
        asked=asked,
        steps=(step_of(start, depth=0), *steps),
        because=known.because,
        limits=() if known.origins else ("Depth 0: no source of it is known.",),
        is_cut=known.is_cut,
    )
