"""Traversal of the causal graph: hops between memories, their order, and open ends."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.causality.actions import action_key, denies_change, reports_change
from commonbrain.model.kinds import AtomDetail, IncidentDetail, Kind, kinds_where
from commonbrain.model.links import Link, LinkType
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller
from commonbrain.retrieval.plan import search_terms
from commonbrain.retrieval.provenance import seen
from commonbrain.storage.interface import Direction, GraphReader, QueryScope
from commonbrain.text.names import (
    Name,
    basis_of_names,
    name_terms,
    names_in,
    shared_names,
    without_names,
)
from commonbrain.text.time_expressions.calendar import EARLIEST, LATEST

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
_STATES_IT: Final = "one states the other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One step of a trace, from a memory to its cause or effect."""

    here: int
    there: int
    link: Link | None = None
    """None for a guess: both name the same thing, or one states the other."""
    score: float | None = None
    """The confidence of a guess, 0..1."""
    basis: str | None = None
    """What a guess is based on."""

    @property
    def weight(self) -> float:
        """Confidence: the strength of a link, always above a guess."""
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
_HITS_MAX: Final = 30
_WORDS_MAX: Final = 8
"""Words of names, and words of the statement, that are searched at once."""
_GUESS_SPAN_MAX: Final = timedelta(days=7)
"""A cause that is known by a name and words alone lies at most this long before its effect."""
_COMMON_FROM: Final = 20
"""A name in this many of the searched memories relates none by itself: words must agree too."""
_SPECIFIC_FROM: Final = 0.6
"""Confidence of a name from which it relates two reports whose words differ."""
_EVENT_KINDS: Final = kinds_where(lambda policy: policy.reports_events)
"""Kinds that report what happened."""
_ATOMS: Final = frozenset({Kind.ATOM})


@dataclass(slots=True, kw_only=True)
class Chain:
    """What was found from one memory in one direction."""

    start: int
    hops: list[Hop] = field(default_factory=list[Hop])
    depths: dict[int, int] = field(default_factory=dict[int, int])
    ends: list[int] = field(default_factory=list[int])
    """Where no link continues: the roots, when walking back."""
    guessed: set[int] = field(default_factory=set[int])
    """Memories beyond a guessed step."""
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
    """Searches for guessed steps in one chain."""

    def chain(self, start: Memory) -> Chain:
        """Walk from a memory over links; at their end, continue once by a guess."""
        chain = Chain(start=start.id, depths={start.id: 0})
        waiting, searches = deque([start.id]), 0
        while waiting:
            stops = self._walk(chain, waiting.popleft())
            for end in stops:
                hop = None
                is_open = len(chain.hops) < STEPS_MAX and chain.depths[end] < self.depth_max
                if is_open and searches < self.searches_max:
                    searches += 1
                    hop = self._guess(end, known=chain.depths)
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

    def _guess(self, end: int, *, known: Mapping[int, int]) -> Hop | None:
        """Find the most likely cause or effect of a memory without further links.

        Both must name the same thing, or one must state what the other reports: incidents that
        have only words in common have nothing to do with each other.
        """
        memory = seen(self.tx, self.caller, memory_ids=[end]).get(end)
        if memory is None or memory.state is State.FORGOTTEN or memory.kind not in _EVENT_KINDS:
            return None
        stated = effects_of(memory) if self.way is Direction.AGAINST else causes_of(memory)
        others = self._candidates(memory, stated=stated, known=known)
        uses = Counter(key for one in others for key in names_in(one.text))
        hops = (
            (hop, abs(one.occurred_at - memory.occurred_at))
            for one in others
            if (hop := self._hop(memory, one, stated=stated, uses=uses))
        )
        # Of equally likely ones, the nearest in time.
        best = min(hops, key=lambda two: (-two[0].weight, two[1], two[0].there), default=None)
        return best[0] if best else None

    def _candidates(
        self, memory: Memory, *, stated: str, known: Mapping[int, int]
    ) -> Sequence[Memory]:
        """Find reports of what happened on one side of a memory, and atoms on both sides.

        An atom is dated when the relation was stated, which may be after what it explains; those
        of one text have one time, and those of imported texts that of the import.
        """
        words = search_terms(stated)[:_WORDS_MAX]
        terms = tuple(dict.fromkeys((*name_terms(memory.text)[:_WORDS_MAX], *words)))
        earliest = max(memory.occurred_at, EARLIEST + _GUESS_SPAN_MAX) - _GUESS_SPAN_MAX
        latest = min(memory.occurred_at, LATEST - _GUESS_SPAN_MAX) + _GUESS_SPAN_MAX
        criteria = Filter(kinds=_EVENT_KINDS, project=memory.project, trust_min=self.trust_min)
        if memory.kind is Kind.ATOM:
            hits = self._search(terms, criteria)
        else:
            around = replace(criteria, since=earliest, until=latest)
            is_back = self.way is Direction.AGAINST
            side = (
                replace(around, until=memory.occurred_at)
                if is_back
                else replace(around, since=memory.occurred_at)
            )
            atoms = replace(around, kinds=_ATOMS)
            hits = [*self._search(terms, side), *self._search(words, atoms)]
        fresh = [id_ for id_ in dict.fromkeys(hits) if id_ not in known]
        return [
            one
            for one in seen(self.tx, self.caller, memory_ids=fresh).values()
            if one.project in {memory.project, None}
        ]

    def _search(self, terms: Sequence[str], criteria: Filter) -> list[int]:
        query_scope = QueryScope(caller=self.caller, filter=criteria, now=self.now)
        return [hit.id for hit in self.tx.index.lexical(terms, query_scope, limit=_HITS_MAX)]

    def _hop(
        self, memory: Memory, other: Memory, *, stated: str, uses: Mapping[str, int]
    ) -> Hop | None:
        """Judge whether one of two memories may lead to the other; the cause must come first."""
        is_back = self.way is Direction.AGAINST
        cause, effect = (other, memory) if is_back else (memory, other)
        has_atom = Kind.ATOM in {cause.kind, effect.kind}
        if cause.occurred_at >= effect.occurred_at and not has_atom:
            return None
        is_repeated = action_key(cause.headline) == action_key(effect.headline)
        if is_repeated or is_same(search_terms(cause.text), search_terms(effect.text)):
            return None
        its = causes_of(other) if is_back else effects_of(other)
        names, after = shared_names(memory.text, other.text), effect.occurred_at - cause.occurred_at
        report = effects_of(cause)
        may_cause = reports_change(report) and not denies_change(report)
        is_likely = after <= SILENCE_MAX and may_cause
        score = _score_of_names(names, uses, sides=(stated, its), is_likely=is_likely)
        basis = basis_of_names(names)
        if not score and has_atom:
            score = _score_of_statements(stated, its, is_near=abs(after) <= _GUESS_SPAN_MAX)
            basis = _STATES_IT
        return Hop(here=memory.id, there=other.id, score=score, basis=basis) if score else None


def _score_of_names(
    names: Sequence[Name], uses: Mapping[str, int], *, sides: tuple[str, str], is_likely: bool
) -> float:
    """Score what two memories name alike.

    A name that many others have as well counts less. Words agree only if one is no part of the
    name, or two things are named. Names alone relate what is likely to be a cause.
    """
    surest = names[0].confidence if names else 0.0
    likeness = are_alike(*map(search_terms, sides))
    words, others = (set(search_terms(without_names(side))) for side in sides)
    is_agreed = _shared(words, others) > 0 or (len(names) > 1 and surest >= _SPECIFIC_FROM)
    score = 0.0
    if names and likeness >= ALIKE_MIN and is_agreed:
        # The less each leaves open, the surer both together.
        score = 1 - (1 - surest) * (1 - likeness) / ALIKE_MIN
    elif is_likely:
        rarities = {name.key: 1 - (uses[name.key] - 1) / _COMMON_FROM for name in names}
        specific = [name for name in names if name.confidence >= _SPECIFIC_FROM]
        rarest = max((one.confidence * rarities[one.key] for one in specific), default=0.0)
        score = max(rarest * _SPECIFIC_FROM, 0.0)
    return min(score, 1.0)


def _score_of_statements(one: str, other: str, *, is_near: bool) -> float:
    """Score two statements of the same; near in time, either may add circumstances."""
    fewer, more = sorted((search_terms(one), search_terms(other)), key=len)
    is_begun = len(fewer) >= ALIKE_WORDS_MIN and covers_words(fewer, more[: len(fewer)]) == 1
    if is_same(fewer, more) or (is_near and is_begun):
        return min(covers_words(fewer, more), covers_words(more, fewer))
    return 0.0
