"""The gate's last step: does a memory of this kind say it already?"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.domain import limits
from commonbrain.domain.kinds import KINDS, Kind, OnDuplicate
from commonbrain.domain.memory import Memory
from commonbrain.domain.scope import Scope
from commonbrain.domain.space import Space

_VALUE: Final = re.compile(r"\d+(?:[.:/-]\d+)*")
_NEGATION: Final = re.compile(
    r"\b(?:not|never|no longer|without|cannot|stopped|isn't|aren't|wasn't|don't|doesn't|didn't"
    r"|won't|can't|shouldn't|must not)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A stored memory of the same kind that lies near; `similarity` is a cosine."""

    id: int
    headline: str
    text: str
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Novel:
    """Nobody said it yet; `similar` lists up to five near ones, nearest first."""

    similar: tuple[Neighbour, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A memory says it already; `is_refused` says whether that keeps the draft out."""

    of: Neighbour
    is_refused: bool


def judge(kind: Kind, text: str, *, near: Sequence[Neighbour], space: Space) -> Novel | Duplicate:
    """Place a text among its neighbours by the space's thresholds.

    Two texts whose numbers or negation differ are never duplicates of each other, however alike
    they look: one of them may be the news.
    """
    ranked = sorted(near, key=lambda neighbour: -neighbour.similarity)
    similar = tuple(n for n in ranked if n.similarity >= space.similar_at)
    for neighbour in similar:
        says_the_same = not contradicts(text, neighbour.text)
        if neighbour.similarity >= space.duplicate_at and says_the_same:
            policy = KINDS[kind].on_duplicate
            if policy in {OnDuplicate.REFUSE, OnDuplicate.WARN}:
                return Duplicate(of=neighbour, is_refused=policy is OnDuplicate.REFUSE)
    return Novel(similar=similar[: limits.SIMILAR_HINTS_MAX])


def is_comparable(memory: Memory, scope: Scope, *, project: str | None) -> bool:
    """Say whether a memory may be held against a new row of that scope and project.

    Only what every future reader of the new row may see, in the same or the null project.
    """
    shared = memory.scope is not Scope.PRIVATE or scope is Scope.PRIVATE
    return shared and memory.project in {None, project}


def contradicts(one: str, other: str) -> bool:
    """Say whether two texts name different numbers, or only one of them denies something."""
    return set(_VALUE.findall(one)) != set(_VALUE.findall(other)) or (
        bool(_NEGATION.search(one)) != bool(_NEGATION.search(other))
    )
