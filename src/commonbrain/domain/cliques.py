"""Cliques: groups of memories of which each is near to every other, none larger that holds one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from commonbrain.domain.limits import CLIQUE_STEPS_MAX, CLIQUES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Clique:
    """Memories that say nearly the same; `weakest` is the cosine of the two that are farthest."""

    ids: tuple[int, ...]
    weakest: float


def cliques(near: Mapping[tuple[int, int], float]) -> list[Clique]:
    """Find the maximal cliques of two and more, the surest first, at most `CLIQUES_MAX`.

    `near` holds pairs, the lesser id first, with how near they are. The search is Bron and
    Kerbosch's with a pivot (1973), which is exponential at worst: after so many steps it gives
    what it has found.
    """
    search = _Search(beside=_beside(near))
    search.grow(frozenset(), open_=set(search.beside), closed=set())
    found = [Clique(ids=tuple(sorted(one)), weakest=_weakest(one, near)) for one in search.found]
    found.sort(key=lambda one: (-one.weakest, one.ids))
    return found[:CLIQUES_MAX]


@dataclass(slots=True, kw_only=True)
class _Search:
    beside: Mapping[int, set[int]]
    found: list[frozenset[int]] = field(default_factory=list[frozenset[int]])
    steps: int = 0

    def grow(self, taken: frozenset[int], *, open_: set[int], closed: set[int]) -> None:
        """Find cliques with all that is taken, some of what is open, and nothing closed."""
        self.steps += 1
        if self.steps > CLIQUE_STEPS_MAX:
            return
        if not open_ and not closed:
            self.found += [taken] if len(taken) > 1 else []
            return
        # What is beside the pivot is found together with it.
        pivot = max(open_ | closed, key=lambda one: (len(self.beside[one] & open_), one))
        for one in sorted(open_ - self.beside[pivot]):
            beside = self.beside[one]
            self.grow(taken | {one}, open_=open_ & beside, closed=closed & beside)
            open_.discard(one)
            closed.add(one)


def _beside(near: Iterable[tuple[int, int]]) -> Mapping[int, set[int]]:
    beside: defaultdict[int, set[int]] = defaultdict(set)
    for one, other in near:
        beside[one].add(other)
        beside[other].add(one)
    return dict(beside)


def _weakest(ids: Iterable[int], near: Mapping[tuple[int, int], float]) -> float:
    own = sorted(ids)
    pairs = ((one, other) for at, one in enumerate(own) for other in own[at + 1 :])
    return min(near[pair] for pair in pairs)
