"""How good the evidence of a trace is: where its chain is thin, and what it cannot carry."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from commonbrain.domain.kinds import AtomDetail
from commonbrain.domain.links import LinkType
from commonbrain.domain.memory import CURRENT_STATES, Memory
from commonbrain.domain.tracing import EPISODES_MIN, SILENCE_MAX, Hop
from commonbrain.flows.trace.told import counted, shown
from commonbrain.flows.trace.walking import STEPS_MAX, Chain, Trail
from commonbrain.ports.graph import Way

GAPS_MAX: Final = 20


def gaps_of(hops: Iterable[Hop], memories: Mapping[int, Memory], *, way: Way) -> tuple[str, ...]:
    """Name the steps that are thin: words alone, time that runs backwards, a long silence."""
    lines = (line for hop in hops for line in _thin(hop, memories, way=way))
    return tuple(line for line, _ in zip(lines, range(GAPS_MAX), strict=False))


def _thin(hop: Hop, memories: Mapping[int, Memory], *, way: Way) -> Iterable[str]:
    there, here = memories[hop.there], memories[hop.here]
    cause, effect = (there, here) if way is Way.AGAINST else (here, there)
    ends = f"{shown(cause.id)} and {shown(effect.id)}"
    if hop.link is None:
        yield f"No link joins {ends}: only their words are alike ({hop.score:.2f})."
    between = effect.occurred_at - cause.occurred_at
    if between.total_seconds() < 0:
        yield f"{shown(cause.id)} is dated after {shown(effect.id)}, to which it is said to lead."
    elif between > SILENCE_MAX and not _explains(cause):
        days = counted(between.days, "day lies", many="days lie")
        yield f"{days} between {ends}, and nothing known in between."


def _explains(memory: Memory) -> bool:
    """Say whether a delay is known after which its effect comes."""
    return isinstance(memory.detail, AtomDetail) and memory.detail.outcome_delay_s is not None


def limits_of(chain: Chain, memories: Mapping[int, Memory], *, trail: Trail) -> tuple[str, ...]:
    """Say what a chain as a whole cannot carry."""
    hops = chain.hops
    if not hops:
        what = "to have led to it" if trail.way is Way.AGAINST else "to have come of it"
        return (f"Depth 0: nothing is known {what}.",)
    total = counted(len(hops), "step", many="steps")
    once = sum(1 for hop in hops if hop.link and hop.link.observations < EPISODES_MIN)
    only = sum(1 for hop in hops if hop.link and hop.link.type is LinkType.PRECEDES)
    words = sum(1 for hop in hops if hop.link is None)
    past = sum(1 for hop in hops if not _holds(memories[hop.there], trail.now))
    counted_lines = (
        (once, f"of {total} seen fewer than {EPISODES_MIN} times: a coincidence looks the same."),
        (only, f"of {total} merely came before: that is time, not cause."),
        (words, f"of {total} rest on alike words alone."),
        (past, f"of {total} no longer hold."),
    )
    lines = [f"{count} {line}" for count, line in counted_lines if count]
    return (*lines, *open_ends(chain, depth_max=trail.depth_max))


def _holds(memory: Memory, now: datetime) -> bool:
    return memory.state in CURRENT_STATES and not memory.is_over(now)


def open_ends(chain: Chain, *, depth_max: int) -> Sequence[str]:
    """Say where a chain goes on, or that it goes round."""
    lines: list[str] = []
    if chain.is_cut:
        lines.append(f"There is more: only the nearest {STEPS_MAX} steps are shown.")
    if chain.is_deeper:
        lines.append(f"It goes on beyond depth {depth_max}.")
    if not chain.ends and not lines:
        lines.append("It closes on itself: nothing in it comes first.")
    return lines
