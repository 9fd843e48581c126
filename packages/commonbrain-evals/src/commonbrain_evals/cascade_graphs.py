"""Generated graphs of memories that rest on each other, and which of them fall together."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.links import LinkType

_BOTH: Final = (LinkType.DERIVED_FROM, LinkType.DEPENDS_ON)
_WEAK: Final = frozenset({"expired", "pruned"})
"""Ways to fall that unseat only what depends on it."""


@dataclass(slots=True)
class InvalidationModel:
    """The plain truth: memories by number, what each rests on, and how each fell."""

    kinds: Mapping[int, Kind]
    dependencies: Sequence[tuple[int, int, LinkType]]
    invalidated: dict[int, str] = field(default_factory=dict[int, str])

    def marks(self) -> dict[int, set[int]]:
        """Say of each memory on which fallen ones it rests, step by step."""
        reached: dict[int, set[int]] = {}
        for cause, how in self.invalidated.items():
            types = {LinkType.DEPENDS_ON} if how in _WEAK else set(_BOTH)
            shaken, edge = {cause}, {cause}
            while edge:
                edge = {
                    one for one, on, type_ in self.dependencies if on in edge and type_ in types
                }
                edge -= shaken
                shaken |= edge
            for one in shaken - {cause}:
                reached.setdefault(one, set()).add(cause)
        return reached

    def archived(self, marks: Mapping[int, set[int]]) -> set[int]:
        """Say who rests on nothing that holds: whoever cannot be built up from what does."""
        lost = {
            memory_number
            for memory_number, how in self.invalidated.items()
            if how in {"superseded", "forgotten"}
        }
        faded = {memory_number for memory_number, how in self.invalidated.items() if how in _WEAK}
        doubtful = (
            {memory_number for memory_number in marks if self.kinds[memory_number] is not Kind.RULE}
            - lost
            - faded
        )
        built = set(self.kinds) - doubtful - lost - faded
        while True:
            more = {
                memory_number
                for memory_number, on, type_ in self.dependencies
                if memory_number in doubtful
                and (on in built or (on in faded and type_ is _BOTH[0]))
            } - built
            if not more:
                return doubtful - built
            built |= more


Dependencies = list[tuple[int, int, LinkType]]


def _chain(count: int, random_source: random.Random) -> Dependencies:
    return [(one, one - 1, random_source.choice(_BOTH)) for one in range(1, count)]


def _tree(count: int, random_source: random.Random) -> Dependencies:
    return [
        (one, random_source.randrange(one), random_source.choice(_BOTH)) for one in range(1, count)
    ]


def _diamonds(count: int, random_source: random.Random) -> Dependencies:
    """Let each rest on both of the pair below it: paths that part and meet again."""
    return [
        (one, below, random_source.choice(_BOTH))
        for one in range(1, count)
        for below in {max(one - 2, 0), max(one - 1 - one % 2, 0)}
        if below != one
    ]


def _circle(count: int, random_source: random.Random) -> Dependencies:
    closing = [(random_source.randrange(count // 2), count - 1, random_source.choice(_BOTH))]
    return [*_chain(count, random_source), *closing]


def _web(count: int, random_source: random.Random) -> Dependencies:
    pairs = {(one, random_source.randrange(count)) for one in range(count) for _ in range(2)}
    return [(one, on, random_source.choice(_BOTH)) for one, on in sorted(pairs) if one != on]


SHAPES: Final = {
    "chain": _chain,
    "tree": _tree,
    "diamonds": _diamonds,
    "circle": _circle,
    "web": _web,
}
