"""Walking a trace: over links by recursive SQL, and by words where no link leads on."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from commonbrain.domain.kinds import Kind
from commonbrain.domain.links import Link, LinkType
from commonbrain.domain.memory import Memory, State
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import Caller, is_visible
from commonbrain.domain.tracing import (
    ALIKE_MIN,
    CAUSAL,
    Hop,
    alike,
    comes_of,
    ends,
    leads_to,
)
from commonbrain.flows.origins import seen
from commonbrain.flows.recall.plan import search_terms
from commonbrain.ports.graph import Way
from commonbrain.ports.store import Look, Transaction

STEPS_MAX: Final = 50
"""Steps of one trace, the nearest."""
_EDGES_MAX: Final = 1000
_ROUNDS_MAX: Final = 10
"""Walks that are taken anew around what is hidden."""
_HITS_MAX: Final = 10
_WORDS_MAX: Final = 8
"""Words that are looked up at once; each costs a search as long as it is common."""
_TELLING: Final = (Kind.ATOM, Kind.INCIDENT, Kind.EVENT, Kind.EPISODE, Kind.MESSAGE)
"""Kinds that tell what happened."""
_AWAITING: Final = frozenset({State.QUARANTINED, State.CANDIDATE})


@dataclass(slots=True, kw_only=True)
class Chain:
    """What was found from one memory in one direction."""

    start: int
    hops: list[Hop] = field(default_factory=list[Hop])
    depths: dict[int, int] = field(default_factory=dict[int, int])
    ends: list[int] = field(default_factory=list[int])
    """From where nothing leads on: the roots, where the walk goes backwards."""
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
                waiting.append(found.there)
        return chain

    def _walk(self, chain: Chain, base: int) -> list[int]:
        """Add what links lead to from one memory; give where they end."""
        offset = chain.depths[base]
        walk, links = self._reached(base, depth_max=self.depth_max - offset, known=chain.depths)
        under = {(self._here(link), self._there(link), link.type): link for link in links}
        room = STEPS_MAX - len(chain.hops)
        for one in walk[:room]:
            link = under.get((one[1], one[0], one[2]))
            chain.hops.append(Hop(here=one[1], there=one[0], link=link))
            chain.depths[one[0]] = offset + one[3]
        chain.is_cut |= len(walk) > room
        reached = [base, *(one[0] for one in walk[:room])]
        onward = self._onward(links)
        beyond = {id_ for those in onward.values() for id_ in those} - chain.depths.keys()
        chain.is_deeper |= bool(beyond) and not chain.is_cut
        return ends(reached, onward)

    def _reached(
        self, base: int, *, depth_max: int, known: Mapping[int, int]
    ) -> tuple[Sequence[tuple[int, int, LinkType, int]], list[Link]]:
        """Give what is reached, from where, over what, how far; and all links that lead on.

        What the caller may not see ends the walk. It is known only once it is met, so that the
        walk is taken anew around it: another way to what lies behind it may be open.
        """
        closed: set[int] = set(known) - {base}
        hidden: set[int] = set()
        for _ in range(_ROUNDS_MAX if depth_max > 0 else 0):
            walk = self.tx.graph.walk(
                [base],
                self.way,
                types=self.types,
                limit=STEPS_MAX + 1 + len(hidden) + len(closed),
                depth_max=depth_max,
                stops=sorted(hidden | closed),
            )
            fresh = self._hidden([one.id for one in walk.reached]) - hidden
            hidden |= fresh
            if not fresh:
                out = hidden | closed
                reached = [
                    (one.id, one.via_id, one.type, one.depth)
                    for one in walk.reached
                    if one.id not in out
                ]
                return reached, self._leaving([base, *(one[0] for one in reached)])
        return [], self._leaving([base])

    def _leaving(self, ids: Sequence[int]) -> list[Link]:
        """List the links that lead on from memories to what the caller may see."""
        links = self.tx.graph.edges(ids, self.way, types=self.types, limit=_EDGES_MAX)
        strange = {self._there(link) for link in links}.difference(ids)
        hidden = self._hidden(sorted(strange))
        return [link for link in links if self._there(link) not in hidden]

    def _hidden(self, ids: Sequence[int]) -> set[int]:
        """Say which the caller may not see, or nobody has let in yet."""
        found = self.tx.graph.standings(ids)
        return {
            id_
            for id_ in ids
            if id_ not in found
            or found[id_].state in _AWAITING
            or not is_visible(self.caller, found[id_])
        }

    def _onward(self, links: Sequence[Link]) -> Mapping[int, set[int]]:
        onward: defaultdict[int, set[int]] = defaultdict(set)
        for link in links:
            onward[self._here(link)].add(self._there(link))
        return onward

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
        )
        score, best = max(scored, key=lambda one: (one[0], -one[1]), default=(0.0, 0))
        return Hop(here=end, there=best, score=score) if score >= ALIKE_MIN else None

    def _likeness(self, memory: Memory, other: Memory, *, asked: Sequence[str]) -> float:
        """Compare what one comes of with what the other leads to; the cause must come first."""
        is_back = self.way is Way.AGAINST
        cause, effect = (other, memory) if is_back else (memory, other)
        if cause.occurred_at >= effect.occurred_at and Kind.ATOM not in {cause.kind, effect.kind}:
            return 0.0
        return alike(asked, search_terms(leads_to(other) if is_back else comes_of(other)))
