"""What a trace is made of: hops from memory to memory, their order, and what they leave open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from commonbrain.domain.kinds import AtomDetail, IncidentDetail
from commonbrain.domain.links import Link, LinkType
from commonbrain.domain.memory import Memory

CAUSAL: Final = (LinkType.CAUSES, LinkType.ENABLES, LinkType.PRECEDES)
"""What a walk over causes follows; what merely goes along with something leads nowhere."""
EPISODES_MIN: Final = 3
"""Fewer observations than this tell no pattern from a coincidence."""
ALIKE_MIN: Final = 0.5
"""The share of words from which two texts are taken to tell of the same thing."""
ALIKE_WORDS_MIN: Final = 2
"""Words that two texts must share at least; one alone is no likeness."""
SILENCE_MAX: Final = timedelta(days=1)
"""A longer time between a cause and its effect, which no delay explains, is told as a gap."""
_SAME_FROM: Final = 0.7
"""The share of words, either way, from which two texts tell of the same and not of its cause."""
_STEM_CHARS_MIN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One step of a trace: from a memory to what it came from, or led to."""

    here: int
    there: int
    link: Link | None = None
    """None: no link says so, only their words do."""
    score: float | None = None
    """How much of the words is shared, where only they say so."""

    @property
    def weight(self) -> float:
        """How sure it is: a link by its strength, and every link before mere words."""
        return 1 + self.link.strength if self.link else self.score or 0.0


def in_order(start: int, hops: Iterable[Hop]) -> Iterator[tuple[Hop, int]]:
    """Put each hop under the one before it, the surest first, with its depth."""
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


def alike(asked: Collection[str], said: Collection[str]) -> float:
    """Say which share of the fewer words is in the other text, word forms told apart loosely."""
    fewer, more = sorted((set(asked), set(said)), key=len)
    shared = _shared(fewer, more)
    return shared / len(fewer) if shared >= ALIKE_WORDS_MIN else 0.0


def covered(asked: Collection[str], said: Collection[str]) -> float:
    """Say which share of the words asked for a text has."""
    return _shared(set(asked), set(said)) / len(set(asked)) if asked else 0.0


def is_same(one: Collection[str], other: Collection[str]) -> bool:
    """Say whether two texts say nearly the same, be it a recurrence, a report or a denial of it."""
    return min(covered(one, other), covered(other, one)) >= _SAME_FROM


def _shared(words: set[str], others: set[str]) -> int:
    stems = {of[:_STEM_CHARS_MIN] for of in others}
    forms = {word for word in words - others if word[:_STEM_CHARS_MIN] in stems}
    exact = len(words & others)
    return exact + sum(1 for word in forms if any(_is_form(word, of) for of in others))


def _is_form(word: str, of: str) -> bool:
    """Take a word and a longer form of it for the same: fail, failed, failure."""
    if len(word) < len(of):
        return len(word) >= _STEM_CHARS_MIN and of.startswith(word)
    return len(of) >= _STEM_CHARS_MIN and word.startswith(of)


def comes_of(memory: Memory) -> str:
    """Say what of a memory another would name as its result: who did what, or the root cause."""
    match memory.detail:
        case AtomDetail(subject=subject, action=action) if subject or action:
            return f"{subject or ''} {action or ''}".strip()
        case IncidentDetail(root_cause=str(cause)):
            return cause
        case _:
            return memory.text


def leads_to(memory: Memory) -> str:
    """Say what of a memory another would name as its cause: its outcome and consequences."""
    match memory.detail:
        case AtomDetail(outcome=outcome, consequences=after) if outcome or after:
            return f"{outcome or ''} {after or ''}".strip()
        case _:
            return memory.text


def subject_of(memory: Memory) -> str:
    """Name what a memory is about, so that equal ones can be counted."""
    match memory.detail:
        case AtomDetail(subject=str(subject)) if subject:
            return subject
        case _:
            return memory.headline


def ranked_roots(
    explained: Mapping[int, Collection[int]], nearness: Mapping[int, int]
) -> Sequence[int]:
    """Rank roots by how many targets they explain, then by how near they are, then by age."""
    return sorted(explained, key=lambda id_: (-len(explained[id_]), nearness.get(id_, 0), id_))
