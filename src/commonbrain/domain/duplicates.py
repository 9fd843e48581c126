"""The gate's last step: does a memory of this kind say it already?"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.domain import conflicts, limits
from commonbrain.domain.conflicts import Conflict
from commonbrain.domain.kinds import KINDS, Kind, OnDuplicate
from commonbrain.domain.memory import Memory
from commonbrain.domain.scope import Scope
from commonbrain.domain.space import Space
from commonbrain.domain.statement import Statement

_TOKEN: Final = re.compile(r"\w+(?:[.,:/+-]\w+)*")
_MOMENT: Final = re.compile(
    r"\d[\d.,:/+t-]*(?:z|st|nd|rd|th|am|pm|h|s|ms|min|k|[kmgt]i?b)?"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|january|february|march|april|june|july|august|september|october|november|december",
    re.IGNORECASE,
)
"""A number with its unit, a time, a day or a month ("may" is left out: it is a verb, too)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A stored memory of the same kind that lies near; `similarity` is a cosine."""

    id: int
    headline: str
    text: str
    similarity: float
    subject: str | None = None
    """What a fact says it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contested:
    """A neighbour that cannot be true together with the draft, and why."""

    neighbour: Neighbour
    conflict: Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Novel:
    """Nobody said it yet; `similar` lists up to five near ones, nearest first.

    `conflicts` lists all near ones that contradict it, nearest first: to be linked when stored.
    """

    similar: tuple[Neighbour, ...] = ()
    conflicts: tuple[Contested, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A memory says it already; `is_refused` says whether that keeps the draft out.

    `conflicts` is for a caller who insists that it is another.
    """

    of: Neighbour
    is_refused: bool
    conflicts: tuple[Contested, ...] = ()


def judge(
    kind: Kind,
    text: str,
    *,
    near: Sequence[Neighbour],
    space: Space,
    subject: str | None = None,
) -> Novel | Duplicate:
    """Place a text among its neighbours by the space's thresholds, conflicts first.

    What may be news against a neighbour is never its duplicate, however alike the two look; what
    contradicts it is named beside. Only a kind that makes claims has conflicts.
    """
    ranked = sorted(near, key=lambda neighbour: -neighbour.similarity)
    similar = tuple(n for n in ranked if n.similarity >= space.similar_at)
    makes_claims = KINDS[kind].makes_claims
    contested = _contested(Statement(text=text, subject=subject), similar) if makes_claims else ()
    denied = {one.neighbour.id for one in contested}
    for neighbour in similar:
        is_same = neighbour.id not in denied and not contradicts(text, neighbour.text)
        if neighbour.similarity >= space.duplicate_at and is_same:
            policy = KINDS[kind].on_duplicate
            if policy in {OnDuplicate.REFUSE, OnDuplicate.WARN}:
                is_refused = policy is OnDuplicate.REFUSE
                return Duplicate(of=neighbour, is_refused=is_refused, conflicts=contested)
    return Novel(similar=similar[: limits.SIMILAR_HINTS_MAX], conflicts=contested)


def is_comparable(
    memory: Memory, scope: Scope, *, project: str | None, readers: Sequence[str] = ()
) -> bool:
    """Say whether a memory may be held against a new row of that scope and project.

    Only what every future reader of the new row may see, in the same or the null project; beside
    its author, `readers` see a private one.
    """
    is_seen = scope is Scope.PRIVATE and {memory.agent, *memory.audience}.issuperset(readers)
    shared = memory.scope is not Scope.PRIVATE or is_seen
    return shared and memory.project in {None, project}


def contradicts(one: str, other: str) -> bool:
    """Say whether one text may be news to who knows the other, so that it is no duplicate."""
    return conflicts.may_be_news(one, other)


def recurs(text: str, other: str) -> bool:
    """Say whether two events are equal but for their numbers and times: it happened again."""
    one = _timeless(text)
    return any(one) and one == _timeless(other)


def _timeless(text: str) -> list[str]:
    """Give the folded words of a text, with nothing in the place of each number and time."""
    words = _TOKEN.findall(text.casefold())
    return ["" if _MOMENT.fullmatch(word) else word for word in words]


def _contested(statement: Statement, similar: Sequence[Neighbour]) -> tuple[Contested, ...]:
    judged = (
        (near, conflicts.judge(statement, Statement(text=near.text, subject=near.subject)))
        for near in similar
    )
    return tuple(Contested(neighbour=near, conflict=found) for near, found in judged if found)
