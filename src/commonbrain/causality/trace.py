"""Trace: follow a memory back to its causes and on to its effects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from commonbrain.causality.patterns import (
    OutcomeWindow,
    before_time,
    episodes,
    find_precursors,
    patterns,
)
from commonbrain.causality.result import (
    TraceResult,
    TraceStep,
    format_id,
    step_of,
    to_roots,
)
from commonbrain.causality.traversal import (
    CAUSAL,
    EPISODES_MIN,
    SILENCE_MAX,
    STEPS_MAX,
    Chain,
    ChainWalker,
    Hop,
    in_order,
    ranked_roots,
)
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.escaping import pluralize
from commonbrain.model.kinds import AtomDetail, Kind, kinds_where
from commonbrain.model.links import LinkType
from commonbrain.model.memory import CURRENT_STATES, Memory
from commonbrain.model.query import Filter
from commonbrain.model.support import SUPPORTS
from commonbrain.retrieval.get import fetch
from commonbrain.retrieval.provenance import provenance, seen
from commonbrain.retrieval.recall import Recall, check_length
from commonbrain.retrieval.value_history import ChangeReader
from commonbrain.security.guard import note_shown
from commonbrain.services import Capability
from commonbrain.storage.interface import Direction
from commonbrain.text.normalisation import normalise
from commonbrain.text.time_expressions.parser import find_instant

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

GAPS_MAX: Final = 20
CHANGES_MAX: Final = 5
"""Changed steps that a trace names."""


def evidence_gaps(
    hops: Iterable[Hop], memories: Mapping[int, Memory], *, way: Direction
) -> tuple[str, ...]:
    """Describe weak steps: a guess, reversed time, a long silence."""
    lines = (line for hop in hops for line in _thin(hop, memories, way=way))
    return tuple(line for line, _ in zip(lines, range(GAPS_MAX), strict=False))


def _thin(hop: Hop, memories: Mapping[int, Memory], *, way: Direction) -> Iterable[str]:
    there, here = memories[hop.there], memories[hop.here]
    cause, effect = (there, here) if way is Direction.AGAINST else (here, there)
    ends = f"{format_id(cause.id)} and {format_id(effect.id)}"
    if hop.link is None:
        yield f"No link joins {ends}: {hop.basis} ({hop.score:.2f})."
    between = effect.occurred_at - cause.occurred_at
    is_account = hop.link is None and Kind.ATOM in {cause.kind, effect.kind}
    if between.total_seconds() < 0 and not is_account:
        yield f"{format_id(cause.id)} is dated after its effect {format_id(effect.id)}."
    elif between > SILENCE_MAX and not (
        isinstance(cause.detail, AtomDetail) and cause.detail.outcome_delay_s is not None
    ):
        days = pluralize(between.days, "day lies", many="days lie")
        yield f"{days} between {ends}, and nothing is known in between."


def evidence_limits(
    chain: Chain, memories: Mapping[int, Memory], *, walker: ChainWalker
) -> tuple[str, ...]:
    """Describe the limits of the evidence of a whole chain."""
    hops = chain.hops
    if not hops:
        what = "of its causes" if walker.way is Direction.AGAINST else "of its effects"
        return (f"Depth 0: nothing is known {what}.",)
    total = pluralize(len(hops), "step", many="steps")
    once = sum(1 for hop in hops if hop.link and hop.link.observations < EPISODES_MIN)
    only = sum(1 for hop in hops if hop.link and hop.link.type is LinkType.PRECEDES)
    words = sum(1 for hop in hops if hop.link is None)
    ends = [memories[hop.there] for hop in hops]
    past = sum(end.state not in CURRENT_STATES or end.is_over(walker.now) for end in ends)
    counted_lines = (
        (once, f"of {total} seen fewer than {EPISODES_MIN} times: it may be a coincidence."),
        (only, f"of {total} only precede the effect, which proves no cause."),
        (words, f"of {total} rest on a common name or statement, not on a link."),
        (past, f"of {total} no longer hold."),
    )
    lines = [f"{count} {line}" for count, line in counted_lines if count]
    return (*lines, *open_ends(chain, depth_max=walker.depth_max))


def open_ends(chain: Chain, *, depth_max: int) -> Sequence[str]:
    """Describe where a chain continues or is circular."""
    lines: list[str] = []
    if chain.is_cut:
        lines.append(f"There is more: only the nearest {STEPS_MAX} steps are shown.")
    if chain.is_deeper:
        lines.append(f"It continues beyond depth {depth_max}.")
    if not chain.ends and not lines:
        lines.append("It is circular: nothing in it comes first.")
    return lines


_ROOTS_MAX = 10


def build_chain(walker: ChainWalker, start: Memory, *, op: str, query: str) -> TraceResult:
    """Return what led to a memory, or what it led to, with the weak steps."""
    chain = walker.chain(start)
    memories = memories_of(walker, [chain], starts=[start])
    is_back = walker.way is Direction.AGAINST
    roots = [id_ for id_ in chain.ends if id_ != start.id] if is_back else []
    surest = sorted(roots, key=lambda id_: (id_ in chain.guessed, chain.depths[id_], id_))
    return TraceResult(
        op=op,
        asked=query,
        steps=tuple(steps_of(walker, chain, memories=memories)),
        roots=to_roots(dict.fromkeys(surest[:_ROOTS_MAX], 1), memories, guessed=chain.guessed),
        gaps=evidence_gaps(chain.hops, memories, way=walker.way),
        limits=evidence_limits(chain, memories, walker=walker),
        is_cut=chain.is_cut or chain.is_deeper,
    )


def find_roots(
    walker: ChainWalker, targets: Sequence[Memory], *, op: str, query: str
) -> TraceResult:
    """Rank the roots of several episodes by how many they explain."""
    chains = [walker.chain(one) for one in targets]
    memories = memories_of(walker, chains, starts=targets)
    explained: defaultdict[int, set[int]] = defaultdict(set)
    nearness: dict[int, int] = {}
    sure: set[int] = set()
    for chain in chains:
        for id_ in chain.ends:
            if id_ != chain.start:
                explained[id_].add(chain.start)
                nearness[id_] = min(chain.depths[id_], nearness.get(id_, chain.depths[id_]))
                sure |= {id_} - chain.guessed
    guessed = explained.keys() - sure
    ranked = sorted(ranked_roots(explained, nearness), key=guessed.__contains__)
    gaps = [line for one in chains for line in evidence_gaps(one.hops, memories, way=walker.way)]
    return TraceResult(
        op=op,
        asked=query,
        steps=tuple(step for one in chains for step in steps_of(walker, one, memories=memories)),
        roots=to_roots(
            {id_: len(explained[id_]) for id_ in ranked[:_ROOTS_MAX]}, memories, guessed=guessed
        ),
        gaps=tuple(dict.fromkeys(gaps))[:GAPS_MAX],
        limits=_limits(chains, memories, walker=walker),
        is_cut=any(one.is_cut or one.is_deeper for one in chains) or len(ranked) > _ROOTS_MAX,
    )


def _limits(
    chains: Sequence[Chain], memories: Mapping[int, Memory], *, walker: ChainWalker
) -> tuple[str, ...]:
    known = [chain for chain in chains if chain.hops]
    if not known:
        return ("Depth 0: no cause is known for any match.",)
    lines: list[str] = []
    if len(known) < len(chains):
        some = pluralize(len(chains) - len(known), "episode", many="episodes")
        lines.append(f"Depth 0: no cause is known for {some} of {len(chains)}.")
    if len(known) < EPISODES_MIN:
        some = pluralize(len(known), "episode", many="episodes")
        lines.append(f"Only {some} with a known cause; a pattern needs at least {EPISODES_MIN}.")
    each = [line for one in known for line in evidence_limits(one, memories, walker=walker)]
    return (*lines, *dict.fromkeys(each))


def memories_of(
    walker: ChainWalker, chains: Sequence[Chain], *, starts: Sequence[Memory]
) -> Mapping[int, Memory]:
    """Fetch all memories of some chains."""
    memory_ids = dict.fromkeys(hop.there for chain in chains for hop in chain.hops)
    return {one.id: one for one in starts} | walker.tx.memories.get(list(memory_ids))


def steps_of(
    walker: ChainWalker, chain: Chain, *, memories: Mapping[int, Memory]
) -> Sequence[TraceStep]:
    """Render a chain as a tree in list form, beginning with its start."""
    inside = [memories[chain.start], *(memories[hop.there] for hop in chain.hops)]
    source_ids = [one.source_message_id for one in inside if one.source_message_id is not None]
    messages = seen(walker.tx, walker.caller, memory_ids=source_ids)
    roots = set(chain.ends) - {chain.start} if walker.way is Direction.AGAINST else set[int]()

    def source_message(memory: Memory) -> Memory | None:
        source = memory.source_message_id
        return messages.get(source) if source is not None else None

    start = memories[chain.start]
    steps = [step_of(start, depth=0, message=source_message(start))]
    for hop, depth in in_order(chain.start, chain.hops):
        one = memories[hop.there]
        is_root = one.id in roots
        steps.append(
            step_of(one, depth=depth, hop=hop, is_root=is_root, message=source_message(one))
        )
    return steps


def dependents_of(walker: ChainWalker, start: Memory, *, query: str) -> TraceResult:
    """Return the direct and indirect dependents of a memory."""
    chain = walker.chain(start)
    memories = memories_of(walker, [chain], starts=[start])
    limits = (
        open_ends(chain, depth_max=walker.depth_max) if chain.hops else ["Nothing depends on it."]
    )
    return TraceResult(
        op="dependents",
        asked=query,
        steps=tuple(steps_of(walker, chain, memories=memories)),
        limits=tuple(limits),
        is_cut=chain.is_cut or chain.is_deeper,
    )


def provenance_of(walker: ChainWalker, start: Memory, *, query: str) -> TraceResult:
    """Return the sources of a memory, step by step, to messages and thread."""
    known = provenance(walker.tx, walker.caller, memory=start, now=walker.now)
    steps = (
        TraceStep(
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
    return TraceResult(
        op="provenance",
        asked=query,
        steps=(step_of(start, depth=0), *steps),
        because=known.because,
        limits=() if known.origins else ("Depth 0: its source is unknown.",),
        is_cut=known.is_cut,
    )


DEPTH_MAX: Final = 10
DEEPEN_DEPTH: Final = 5
HOURS_DEFAULT: Final = 4.0
_HOURS_MAX: Final = 24 * 31
_STARTS_MAX: Final = 3
"""Matches of a text from which a chain is tried, best first."""
_TARGETS_MAX: Final = 5
SEARCHES_MAX: Final = 3
"""Searches for guessed steps in one chain; each costs as much as a lexical recall."""
_ID_MARK: Final = f"{ids.MEMORY}_"
_NOTHING: Final = "Depth 0: no memory matches."
_SEARCHED_KINDS: Final = kinds_where(lambda policy: policy.is_trace_target)


class CausalTrace(Capability):
    """Traces for one caller.

    All methods raise `InvalidInputError` for an empty query or a malformed id, `NotFoundError` for
    an id that the caller may not see, `RejectedError` for a depth or time out of range, and
    `UnavailableError` if the store cannot be read. A trace stops at memories that the caller may
    not see, without mentioning them.
    """

    def causes(self, what: str, *, depth: int = DEPTH_MAX) -> TraceResult:
        """Follow a memory, given by id or words, back to its causes."""
        return self._chain("causes", what, way=Direction.AGAINST, depth=depth)

    def effects(self, what: str, *, depth: int = DEPTH_MAX) -> TraceResult:
        """Follow a memory, given by id or words, to its effects."""
        return self._chain("effects", what, way=Direction.ALONG, depth=depth)

    def before(self, what: str, *, hours: float = HOURS_DEFAULT) -> TraceResult:
        """Return what preceded an outcome in words, a memory, or a time ("yesterday at 3pm")."""
        query = _checked_query(what)
        _check(hours, "hours", low=0, high=_HOURS_MAX)
        at = find_instant(query, self.services.clock.now())
        with self._snapshot() as tx:
            window = self._window(tx, hours=hours)
            if at is not None:
                return before_time(window, at, query=query)
            is_id = query.startswith(_ID_MARK)
            own = [self._fetch(tx, query)] if is_id else []
            those = window.at_each_time(own) if is_id else window.occurrences(query)
            return find_precursors(window, episodes(tx, those), query=query, are_all=not is_id)

    def patterns(self, outcome: str, *, hours: float = HOURS_DEFAULT) -> TraceResult:
        """Return what at least three occurrences of an outcome have in common."""
        query = _checked_query(outcome)
        _check(hours, "hours", low=0, high=_HOURS_MAX)
        with self._snapshot() as tx:
            return patterns(self._window(tx, hours=hours), query)

    def deepen(self, query: str, *, depth: int = DEEPEN_DEPTH) -> TraceResult:
        """Rank the root causes of up to five episodes that match a query."""
        query = _checked_query(query)
        _check(depth, "depth", low=1, high=DEPTH_MAX)
        recalled = self._recalled(query, limit=_TARGETS_MAX)
        with self._snapshot() as tx:
            targets = episodes(tx, list(seen(tx, self.caller, memory_ids=recalled).values()))
            if not targets:
                return TraceResult(op="deepen", asked=query, limits=(_NOTHING,))
            walker = self._trail(tx, way=Direction.AGAINST, depth=depth)
            return self._noted(tx, find_roots(walker, targets, op="deepen", query=query))

    def dependents(self, id: str, *, depth: int = DEPTH_MAX) -> TraceResult:  # noqa: A002 the public name is id
        """Return the memories that would need review if a memory became invalid."""
        _check(depth, "depth", low=1, high=DEPTH_MAX)
        with self._snapshot() as tx:
            start = self._fetch(tx, id)
            walker = self._trail(tx, way=Direction.AGAINST, depth=depth, types=SUPPORTS)
            return self._noted(tx, dependents_of(walker, start, query=id))

    def provenance(self, id: str) -> TraceResult:  # noqa: A002 the public name is id
        """Return the origin of a memory: sources, messages and thread."""
        with self._snapshot() as tx:
            start = self._fetch(tx, id)
            walker = self._trail(tx, way=Direction.AGAINST, depth=DEPTH_MAX)
            return self._noted(tx, provenance_of(walker, start, query=id))

    def _chain(self, op: str, what: str, *, way: Direction, depth: int) -> TraceResult:
        query = _checked_query(what)
        _check(depth, "depth", low=1, high=DEPTH_MAX)
        is_id = query.startswith(_ID_MARK)
        recalled = [] if is_id else self._recalled(query, limit=_STARTS_MAX)
        with self._snapshot() as tx:
            known = seen(tx, self.caller, memory_ids=recalled)
            memories = [known[id_] for id_ in recalled if id_ in known]
            starts = [self._fetch(tx, query)] if is_id else memories
            if not starts:
                return TraceResult(op=op, asked=query, limits=(_NOTHING,))
            chains = [
                build_chain(self._trail(tx, way=way, depth=depth), start, op=op, query=query)
                for start in starts
            ]
            # What matches best may have no links where what matches nearly as well has some.
            linked = (one for one in chains if len(one.steps) > 1)
            return self._noted(tx, next(linked, chains[0]))

    def _noted(self, tx: Transaction, result: TraceResult) -> TraceResult:
        """Add which steps a newer memory changed."""
        steps = dict.fromkeys(ids.parse(ids.MEMORY, step.id) for step in result.steps)
        current = seen(tx, self.caller, memory_ids=list(steps)).values()
        reader = ChangeReader(
            tx=tx,
            caller=self.caller,
            now=self.services.clock.now(),
            criteria=Filter(trust_min=0.0),
        )
        changes = reader.successors([one for one in current if one.state in CURRENT_STATES])
        lines = dict(islice(changes.items(), CHANGES_MAX))
        note_shown(id_ for one in lines.values() for id_ in (one.newer.id, one.head.id))
        return replace(
            result,
            changes=tuple(f"{format_id(id_)}: {one.line()}" for id_, one in lines.items()),
        )

    def _recalled(self, query: str, *, limit: int) -> list[int]:
        """Return what recall finds for a query, without counting accesses."""
        recall = Recall(self.services, self.caller)
        result = recall(query, kinds=list(_SEARCHED_KINDS), max_items=limit, bump=False)
        return [ids.parse(ids.MEMORY, item.id) for item in result.items]

    def _snapshot(self) -> AbstractContextManager[Transaction]:
        return self.services.store.snapshot(self.caller.tenant)

    def _fetch(self, tx: Transaction, id_: str) -> Memory:
        return fetch(tx, self.caller, id_=ids.parse(ids.MEMORY, id_))

    def _trail(
        self, tx: Transaction, *, way: Direction, depth: int, types: tuple[LinkType, ...] = CAUSAL
    ) -> ChainWalker:
        return ChainWalker(
            tx=tx,
            caller=self.caller,
            way=way,
            now=self.services.clock.now(),
            depth_max=depth,
            types=types,
            trust_min=self.services.parameters_for(self.caller).trust_min
            if types == CAUSAL
            else 0.0,
            searches_max=SEARCHES_MAX if types == CAUSAL else 0,
        )

    def _window(self, tx: Transaction, *, hours: float) -> OutcomeWindow:
        return OutcomeWindow(
            tx=tx,
            caller=self.caller,
            now=self.services.clock.now(),
            hours=hours,
            trust_min=self.services.parameters_for(self.caller).trust_min,
        )


def _checked_query(text: str) -> str:
    """Normalize a query.

    Raises:
        InvalidInputError: it is empty.
        RejectedError: `limit_exceeded`, it is too long.

    """
    plain = normalise(text)
    if not plain:
        raise InvalidInputError("Nothing to trace.", hint="Give an id, or describe what happened.")
    check_length(plain)
    return plain


def _check(given: float, what: str, *, low: float, high: float) -> None:
    if not low <= given <= high:
        raise RejectedError(
            f"{what} is {given:g}; {low:g} to {high:g} is allowed.",
            code="limit_exceeded",
            hint=f"Leave {what} out for its default.",
        )
