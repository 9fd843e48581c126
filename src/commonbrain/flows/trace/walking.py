"""Walking a trace: over links by recursive SQL, and by words where no link leads on."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from commonbrain.domain.kinds import Kind
from commonbrain.domain.links import Link, LinkType
from commonbrain.domain.memory import Memory, State
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import Caller
from commonbrain.domain.tracing import (
    ALIKE_MIN,
    CAUSAL,
    Hop,
    alike,
    comes_of,
    is_same,
    leads_to,
)
from commonbrain.flows.origins import seen
from commonbrain.flows.recall.plan import search_terms
from commonbrain.ports.graph import Reader, Way
from commonbrain.ports.store import Look, Transaction

STEPS_MAX: Final = 50
"""Steps of one trace, the nearest."""
_HITS_MAX: Final = 10
_WORDS_MAX: Final = 8
"""Words that are looked up at once; each costs a search as long as it is common."""
_TELLING: Final = (Kind.ATOM, Kind.INCIDENT, Kind.EVENT, Kind.EPISODE, Kind.MESSAGE)
"""Kinds that tell what happened."""


@dataclass(slots=True, kw_only=True)
class Chain:
    """What was found from one memory in one direction."""

    start: int
    hops: list[Hop] = field(default_factory=list[Hop])
    depths: dict[int, int] = field(default_factory=dict[int, int])
    ends: list[int] = field(default_factory=list[int])
    """From where nothing leads on: the roots, where the walk goes backwards."""
    guessed: set[int] = field(default_factory=set[int])
    """What lies beyond a step that only words make."""
    is_cut: bool = False
    is_deeper: bool = False
    """Whether it goes on beyond the depth that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """Walks for one caller in one direction."""

    tx: Transaction
    caller: Caller
    way: Way
    now: datetime
    depth_max: int
    types: tuple[LinkType, ...] = CAUSAL
    trust_min: float = 0.0
    searches_max: int = 0
    """How often one chain looks for what no link leads to."""

    def chain(self, start: Memory) -> Chain:
        """Walk from a memory; where links end, go on once by words, and over links from there."""
        chain = Chain(start=start.id, depths={start.id: 0})
        waiting, searches = deque([start.id]), 0
        while waiting:
            stops = self._walk(chain, waiting.popleft())
            for end in stops:
                found = None
                is_open = len(chain.hops) < STEPS_MAX and chain.depths[end] < self.depth_max
                if is_open and searches < self.searches_max:
                    searches += 1
                    found = self._by_words(end, known=chain.depths)
                if found is None:
                    chain.ends.append(end)
                    continue
                chain.hops.append(found)
                chain.depths[found.there] = chain.depths[end] + 1
                chain.guessed.add(found.there)
                waiting.append(found.there)
        return chain

    def _walk(self, chain: Chain, base: int) -> list[int]:
        """Add what links lead to from one memory; give where they end."""
        offset, closed = chain.depths[base], chain.depths.keys() - {base}
        graph = self.tx.graph.seen_by(Reader(caller=self.caller, trust_min=self.trust_min))
        room = STEPS_MAX - len(chain.hops)
        walk = graph.walk(
            [base],
            self.way,
            types=self.types,
            limit=room + 1 + len(closed),
            depth_max=self.depth_max - offset + 1,
            stops=sorted(closed),
        )
        new = [one for one in walk.reached if one.id not in closed]
        fresh = [one for one in new if offset + one.depth <= self.depth_max]
        reached = [base, *(one.id for one in fresh[:room])]
        links = graph.among(reached, types=self.types)
        known = {(self._here(link), self._there(link), link.type): link for link in links}
        for one in fresh[:room]:
            link = known[one.via_id, one.id, one.type]
            chain.hops.append(Hop(here=one.via_id, there=one.id, link=link))
            chain.depths[one.id] = offset + one.depth
        if base in chain.guessed:
            chain.guessed.update(reached)
        is_deeper = len(new) > len(fresh)
        chain.is_cut |= len(fresh) > room or (walk.is_cut and not is_deeper)
        chain.is_deeper |= is_deeper and not chain.is_cut
        onward = graph.onward(reached, self.way, types=self.types)
        return [id_ for id_ in reached if id_ not in onward]

    def _here(self, link: Link) -> int:
        return link.from_id if self.way is Way.ALONG else link.to_id

    def _there(self, link: Link) -> int:
        return link.to_id if self.way is Way.ALONG else link.from_id

    def _by_words(self, end: int, *, known: Mapping[int, int]) -> Hop | None:
        """Find what reads like the cause, or the effect, of a memory that no link leads on from."""
        memory = seen(self.tx, self.caller, wanted=[end]).get(end)
        if memory is None or memory.state is State.FORGOTTEN or memory.kind not in _TELLING:
            return None
        is_back = self.way is Way.AGAINST
        asked = search_terms(comes_of(memory) if is_back else leads_to(memory))[:_WORDS_MAX]
        wanted = Filter(
            kinds=_TELLING,
            project=memory.project,
            since=None if is_back else memory.occurred_at,
            until=memory.occurred_at if is_back else None,
        )
        look = Look(caller=self.caller, filter=wanted, now=self.now)
        hits = [hit.id for hit in self.tx.index.lexical(asked, look, limit=_HITS_MAX)]
        fresh = [id_ for id_ in hits if id_ not in known]
        scored = (
            (self._likeness(memory, other, asked=asked), other.id)
            for other in seen(self.tx, self.caller, wanted=fresh).values()
            if other.project in {memory.project, None}
        )
        score, best = max(scored, key=lambda one: (one[0], -one[1]), default=(0.0, 0))
        return Hop(here=end, there=best, score=score) if score >= ALIKE_MIN else None

    def _likeness(self, memory: Memory, other: Memory, *, asked: Sequence[str]) -> float:
        """Compare what one comes of with what the other leads to; the cause must come first."""
        is_back = self.way is Way.AGAINST
        cause, effect = (other, memory) if is_back else (memory, other)
        if cause.occurred_at >= effect.occurred_at and Kind.ATOM not in {cause.kind, effect.kind}:
            return 0.0
        if is_same(search_terms(cause.text), search_terms(effect.text)):
            return 0.0
        return alike(asked, search_terms(leads_to(other) if is_back else comes_of(other)))
