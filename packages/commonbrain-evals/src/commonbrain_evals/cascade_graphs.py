"""Generated graphs of memories that rest on each other, and who falls with whom."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.links import LinkType

_BOTH: Final = (LinkType.DERIVED_FROM, LinkType.DEPENDS_ON)
_FADED: Final = frozenset({"expired", "pruned"})
"""Ways to fall that unseat only what depends on it."""


@dataclass(slots=True)
class Model:
    """The plain truth: memories by number, who rests on whom, and who fell how."""

    kinds: Mapping[int, Kind]
    rests: Sequence[tuple[int, int, LinkType]]
    fallen: dict[int, str] = field(default_factory=dict[int, str])

    def marks(self) -> dict[int, set[int]]:
        """Say of each memory on which fallen ones it rests, step by step."""
        told: dict[int, set[int]] = {}
        for cause, how in self.fallen.items():
            types = {LinkType.DEPENDS_ON} if how in _FADED else set(_BOTH)
            shaken, edge = {cause}, {cause}
            while edge:
                edge = {one for one, on, type_ in self.rests if on in edge and type_ in types}
                edge -= shaken
                shaken |= edge
            for one in shaken - {cause}:
                told.setdefault(one, set()).add(cause)
        return told

    def archived(self, marks: Mapping[int, set[int]]) -> set[int]:
        """Say who rests on nothing that holds: whoever cannot be built up from what does."""
        gone = {one for one, how in self.fallen.items() if how in {"superseded", "forgotten"}}
        faded = {one for one, how in self.fallen.items() if how in _FADED}
        doubtful = {one for one in marks if self.kinds[one] is not Kind.RULE} - gone - faded
        built = set(self.kinds) - doubtful - gone - faded
        while True:
            more = {
                one
                for one, on, type_ in self.rests
                if one in doubtful and (on in built or (on in faded and type_ is _BOTH[0]))
            } - built
            if not more:
                return doubtful - built
            built |= more


Rests = list[tuple[int, int, LinkType]]


def _chain(count: int, random_source: random.Random) -> Rests:
    return [(one, one - 1, random_source.choice(_BOTH)) for one in range(1, count)]


def _tree(count: int, random_source: random.Random) -> Rests:
    return [
        (one, random_source.randrange(one), random_source.choice(_BOTH)) for one in range(1, count)
    ]


def _diamonds(count: int, random_source: random.Random) -> Rests:
    """Let each rest on both of the pair below it: paths that part and meet again."""
    return [
        (one, below, random_source.choice(_BOTH))
        for one in range(1, count)
        for below in {max(one - 2, 0), max(one - 1 - one % 2, 0)}
        if below != one
    ]


def _circle(count: int, random_source: random.Random) -> Rests:
    closing = [(random_source.randrange(count // 2), count - 1, random_source.choice(_BOTH))]
    return [*_chain(count, random_source), *closing]


def _web(count: int, random_source: random.Random) -> Rests:
    pairs = {(one, random_source.randrange(count)) for one in range(count) for _ in range(2)}
    return [(one, on, random_source.choice(_BOTH)) for one, on in sorted(pairs) if one != on]


SHAPES: Final = {
    "chain": _chain,
    "tree": _tree,
    "diamonds": _diamonds,
    "circle": _circle,
    "web": _web,
}
