"""Traversal of the causal graph: hops between memories, their order, and open ends."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.model.kinds import AtomDetail, IncidentDetail, Kind, kinds_where
from commonbrain.model.links import Link, LinkType
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller
from commonbrain.retrieval.provenance import seen
from commonbrain.retrieval.query_plan import search_terms
from commonbrain.storage.interface import Direction, GraphReader, QueryScope

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

CAUSAL: Final = (LinkType.CAUSES, LinkType.ENABLES, LinkType.PRECEDES)
"""Link types followed in causal chains; correlation leads nowhere."""
EPISODES_MIN: Final = 3
"""Fewer observations do not distinguish a pattern from a coincidence."""
ALIKE_MIN: Final = 0.5
"""Share of common words from which two texts count as being about the same thing."""
ALIKE_WORDS_MIN: Final = 2
"""Two texts must have at least this many words in common."""
SILENCE_MAX: Final = timedelta(days=1)
"""A longer unexplained time between cause and effect is reported as a gap."""
_SAME_FROM: Final = 0.7
"""Share of common words, in either direction, from which texts are repetitions instead of cause and
effect."""
_STEM_CHARS_MIN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One step of a trace, from a memory to its cause or effect."""

    here: int
    there: int
    link: Link | None = None
    """None if only the words match."""
    score: float | None = None
    """The share of matching words, without a link."""

    @property
    def weight(self) -> float:
        """Confidence: the strength of a link, always above a match by words."""
        return 1 + self.link.strength if self.link else self.score or 0.0


def in_order(start: int, hops: Iterable[Hop]) -> Iterator[tuple[Hop, int]]:
    """Return hops in tree order with their depth, most certain first."""
    under: defaultdict[int, list[Hop]] = defaultdict(list)
    for hop in hops:
        under[hop.here].append(hop)
    waiting = [(hop, 1) for hop in _surest_last(under[start])]
    while waiting:
        hop, depth = waiting.pop()
        yield hop, depth
        waiting += ((one, depth + 1) for one in _surest_last(under[hop.there]))


def _surest_last(hops: Iterable[Hop]) -> list[Hop]:
    return sorted(hops, key=lambda hop: (hop.weight, -hop.there))


def are_alike(words: Collection[str], others: Collection[str]) -> float:
    """Return the share of the shorter text's words in the other, with tolerance for word forms."""
    fewer, more = sorted((set(words), set(others)), key=len)
    shared = _shared(fewer, more)
    return shared / len(fewer) if shared >= ALIKE_WORDS_MIN else 0.0


def covers_words(words: Collection[str], others: Collection[str]) -> float:
    """Return the share of the query's words in a text."""
    return _shared(set(words), set(others)) / len(set(words)) if words else 0.0


def is_same(one: Collection[str], other: Collection[str]) -> bool:
    """Return whether two texts say nearly the same, as a recurrence, report or denial does."""
    return min(covers_words(one, other), covers_words(other, one)) >= _SAME_FROM


def _shared(words: set[str], others: set[str]) -> int:
    stems = {of[:_STEM_CHARS_MIN] for of in others}
    forms = {word for word in words - others if word[:_STEM_CHARS_MIN] in stems}
    exact = len(words & others)
    return exact + sum(1 for word in forms if any(_is_form(word, of) for of in others))


def _is_form(word: str, of: str) -> bool:
    """Treat a word and a longer form of it as equal: fail, failed, failure."""
    if len(word) < len(of):
        return len(word) >= _STEM_CHARS_MIN and of.startswith(word)
    return len(of) >= _STEM_CHARS_MIN and word.startswith(of)


def effects_of(memory: Memory) -> str:
    """Return the part of a memory that another would name as its result."""
    match memory.detail:
        case AtomDetail(subject=subject, action=action) if subject or action:
            return f"{subject or ''} {action or ''}".strip()
        case IncidentDetail(root_cause=str(cause)):
            return cause
        case _:
            return memory.text


def causes_of(memory: Memory) -> str:
    """Return the part of a memory that another would name as its cause."""
    match memory.detail:
        case AtomDetail(outcome=outcome, consequences=after) if outcome or after:
            return f"{outcome or ''} {after or ''}".strip()
        case _:
            return memory.text


def subject_of(memory: Memory) -> str:
    """Return subject and action of a memory, for counting."""
    match memory.detail:
        case AtomDetail(subject=subject, action=action) if subject or action:
            return " ".join(filter(None, (subject, action)))
        case _:
            return memory.headline


def ranked_roots(
    explained: Mapping[int, Collection[int]], nearness: Mapping[int, int]
) -> Sequence[int]:
    """Rank roots by the number of targets they explain, then by distance and age."""
    return sorted(explained, key=lambda id_: (-len(explained[id_]), nearness.get(id_, 0), id_))


STEPS_MAX: Final = 50
"""Steps of one trace, nearest first."""
_HITS_MAX: Final = 10
_WORDS_MAX: Final = 8
"""Words searched at once; each costs a search."""
_EVENT_KINDS: Final = kinds_where(lambda policy: policy.reports_events)
"""Kinds that report what happened."""


@dataclass(slots=True, kw_only=True)
class Chain:
    """What was found from one memory in one direction."""

    start: int
    hops: list[Hop] = field(default_factory=list[Hop])
    depths: dict[int, int] = field(default_factory=dict[int, int])
    ends: list[int] = field(default_factory=list[int])
    """Where no link continues: the roots, when walking back."""
    guessed: set[int] = field(default_factory=set[int])
    """Memories beyond a step by words only."""
    is_cut: bool = False
    is_deeper: bool = False
    """Whether it continues beyond the requested depth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainWalker:
    """Walks for one caller in one direction."""

    tx: Transaction
    caller: Caller
    way: Direction
    now: datetime
    depth_max: int
    types: tuple[LinkType, ...] = CAUSAL
    trust_min: float = 0.0
    searches_max: int = 0
    """Searches by words in one chain."""

    def chain(self, start: Memory) -> Chain:
        """Walk from a memory over links; at their end, continue once by words."""
        chain = Chain(start=start.id, depths={start.id: 0})
        waiting, searches = deque([start.id]), 0
        while waiting:
            stops = self._walk(chain, waiting.popleft())
            for end in stops:
                hop = None
                is_open = len(chain.hops) < STEPS_MAX and chain.depths[end] < self.depth_max
                if is_open and searches < self.searches_max:
                    searches += 1
                    hop = self._lexical_hop(end, known=chain.depths)
                if hop is None:
                    chain.ends.append(end)
                    continue
                chain.hops.append(hop)
                chain.depths[hop.there] = chain.depths[end] + 1
                chain.guessed.add(hop.there)
                waiting.append(hop.there)
        return chain

    def _walk(self, chain: Chain, base: int) -> list[int]:
        """Add what links lead to; return where they end."""
        offset, closed = chain.depths[base], chain.depths.keys() - {base}
        graph = self.tx.graph.seen_by(GraphReader(caller=self.caller, trust_min=self.trust_min))
        capacity = STEPS_MAX - len(chain.hops)
        walk = graph.walk(
            [base],
            self.way,
            types=self.types,
            limit=capacity + 1 + len(closed),
            depth_max=self.depth_max - offset + 1,
            stops=sorted(closed),
        )
        new = [one for one in walk.reached if one.id not in closed]
        fresh = [one for one in new if offset + one.depth <= self.depth_max]
        reached = [base, *(one.id for one in fresh[:capacity])]
        links = graph.among(reached, types=self.types)
        known = {(self._here(link), self._there(link), link.type): link for link in links}
        for one in fresh[:capacity]:
            link = known[one.via_id, one.id, one.type]
            chain.hops.append(Hop(here=one.via_id, there=one.id, link=link))
            chain.depths[one.id] = offset + one.depth
        if base in chain.guessed:
            chain.guessed.update(reached)
        is_deeper = len(new) > len(fresh)
        chain.is_cut |= len(fresh) > capacity or (walk.is_cut and not is_deeper)
        chain.is_deeper |= is_deeper and not chain.is_cut
        onward = graph.onward(reached, self.way, types=self.types)
        return [id_ for id_ in reached if id_ not in onward]

    def _here(self, link: Link) -> int:
        return link.from_id if self.way is Direction.ALONG else link.to_id

    def _there(self, link: Link) -> int:
        return link.to_id if self.way is Direction.ALONG else link.from_id

    def _lexical_hop(self, end: int, *, known: Mapping[int, int]) -> Hop | None:
        """Find the memory that reads like the cause or effect of one without further links."""
        memory = seen(self.tx, self.caller, memory_ids=[end]).get(end)
        if memory is None or memory.state is State.FORGOTTEN or memory.kind not in _EVENT_KINDS:
            return None
        is_back = self.way is Direction.AGAINST
        terms = search_terms(effects_of(memory) if is_back else causes_of(memory))[:_WORDS_MAX]
        criteria = Filter(
            kinds=_EVENT_KINDS,
            project=memory.project,
            since=None if is_back else memory.occurred_at,
            until=memory.occurred_at if is_back else None,
        )
        query_scope = QueryScope(caller=self.caller, filter=criteria, now=self.now)
        hits = [hit.id for hit in self.tx.index.lexical(terms, query_scope, limit=_HITS_MAX)]
        fresh = [id_ for id_ in hits if id_ not in known]
        scored = (
            (self._likeness(memory, other, terms=terms), other.id)
            for other in seen(self.tx, self.caller, memory_ids=fresh).values()
            if other.project in {memory.project, None}
        )
        score, best = max(scored, key=lambda one: (one[0], -one[1]), default=(0.0, 0))
        return Hop(here=end, there=best, score=score) if score >= ALIKE_MIN else None

    def _likeness(self, memory: Memory, other: Memory, *, terms: Sequence[str]) -> float:
        """Compare what one follows from with what the other leads to; the cause must come first."""
        is_back = self.way is Direction.AGAINST
        cause, effect = (other, memory) if is_back else (memory, other)
        if cause.occurred_at >= effect.occurred_at and Kind.ATOM not in {cause.kind, effect.kind}:
            return 0.0
        if is_same(search_terms(cause.text), search_terms(effect.text)):
            return 0.0
        return are_alike(terms, search_terms(causes_of(other) if is_back else effects_of(other)))
