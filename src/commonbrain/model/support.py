"""Cascade: what rests on a memory needs review once that falls; what rests on nothing is archived.

A review says that one memory rests on a cause that has fallen. Reviews are a function of the states
of memories and of the links among them, so that whatever is done in whatever order, and taken back,
ends in the same reviews; only what somebody has settled is kept beside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from commonbrain.model.kinds import Kind
from commonbrain.model.links import Link, LinkType
from commonbrain.model.memory import CURRENT_STATES, State
from commonbrain.model.scope import Scope, isolates
from commonbrain.model.trust import Trust

SUPPORTS: Final = (LinkType.DERIVED_FROM, LinkType.DEPENDS_ON)
"""Links by which a memory rests on another; both are read from what rests to what bears it."""
CONCERNED: Final = frozenset({*SUPPORTS, LinkType.CONFLICTS_WITH})
"""Links whose making or unmaking may unseat something."""


class InvalidationReason(StrEnum):
    """How a memory came to bear nothing any more."""

    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"
    CONTRADICTED = "contradicted"
    EXPIRED = "expired"
    PRUNED = "pruned"
    ERASED = "erased"
    UNSUPPORTED = "unsupported"
    """Said of the memory itself: nothing that it rests on holds, so that it was archived."""


_LEFT: Final[Mapping[State, InvalidationReason]] = {
    State.SUPERSEDED: InvalidationReason.SUPERSEDED,
    State.EXPIRED: InvalidationReason.EXPIRED,
}
FADED: Final = frozenset(
    {InvalidationReason.EXPIRED, InvalidationReason.PRUNED, InvalidationReason.ERASED}
)
"""It went, but nobody said that it was wrong: what was derived from it stays true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One memory rests on one cause that has fallen; `via_id` is the next step towards it.

    Of a review by `UNSUPPORTED` the cause is the memory itself, and `earlier` its state before.
    """

    memory_id: int
    cause_id: int
    fall: InvalidationReason
    via_id: int
    depth: int
    """Steps to the cause."""
    at: datetime
    earlier: State | None = None
    settled_at: datetime | None = None
    settled_by: str | None = None
    reason: str | None = None
    """Why it holds although its cause fell, said by who settled it."""

    @property
    def is_open(self) -> bool:
        """Whether nobody has looked at it yet."""
        return self.settled_at is None

    @property
    def is_of_itself(self) -> bool:
        """Whether it says that the memory lost every support."""
        return self.fall is InvalidationReason.UNSUPPORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportStatus:
    """What of a memory decides whether it bears others."""

    id: int
    kind: Kind
    state: State
    scope: Scope
    agent: str
    trust: Trust
    expires_at: datetime | None
    is_erased: bool
    project: str | None = None
    audience: tuple[str, ...] = ()
    """Who beside its author sees it while it is private."""

    def is_over(self, now: datetime) -> bool:
        """Say whether its time has passed."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Support:
    """One link by which a memory rests on another."""

    from_id: int
    to_id: int
    type: LinkType


def carried_by(fall: InvalidationReason) -> tuple[LinkType, ...]:
    """Give the links along which a fall goes: what merely faded unseats only what depends on it."""
    return (LinkType.DEPENDS_ON,) if fall in FADED else SUPPORTS


def invalidation_of(
    one: SupportStatus,
    *,
    is_pruned: bool,
    conflicts: Iterable[tuple[Link, SupportStatus]],
    now: datetime,
) -> InvalidationReason | None:
    """Say how a memory fell; None while it holds, or awaits review and never held.

    `conflicts` are its links of conflict, each with what stands at the other end.
    """
    if one.is_erased:
        return InvalidationReason.ERASED
    if one.state is State.FORGOTTEN:
        return InvalidationReason.PRUNED if is_pruned else InvalidationReason.FORGOTTEN
    if one.state not in CURRENT_STATES:
        return _LEFT.get(one.state)
    if one.is_over(now):
        return InvalidationReason.EXPIRED
    is_denied = any(contradicts(link, one, by=other, now=now) for link, other in conflicts)
    return InvalidationReason.CONTRADICTED if is_denied else None


def contradicts(link: Link, one: SupportStatus, *, by: SupportStatus, now: datetime) -> bool:
    """Say whether a conflict tells against `one`: from more trust, or from as much by who said it.

    What holds no more contradicts nothing, nor does what holds elsewhere, and what few may see
    unseats nothing that more do.
    """
    if by.state not in CURRENT_STATES or by.is_over(now) or isolates(one.project, by.project):
        return False
    if by.scope is Scope.PRIVATE and (one.scope, one.agent) != (by.scope, by.agent):
        return False
    if by.trust.weight > one.trust.weight:
        return link.to_id == one.id or link.trust.weight >= one.trust.weight
    said_it = link.to_id == one.id
    return said_it and min(by.trust.weight, link.trust.weight) >= one.trust.weight


def is_supported_by(
    support: Support,
    target: SupportStatus | None,
    *,
    is_unsupported: bool,
    is_pruned: bool,
    now: datetime,
) -> bool:
    """Say whether a support still holds up what rests on it.

    What only faded still holds up what is derived from it: its time passed, or retention took it.
    """
    if target is None:
        return False
    is_current = target.state in CURRENT_STATES
    if is_current and not target.is_over(now):
        return not is_unsupported
    is_faded = is_current or is_pruned or target.state is State.EXPIRED
    return is_faded and support.type is LinkType.DERIVED_FROM


def unsupported(
    candidates: Collection[int], supports: Sequence[Support], *, bearing: Mapping[Support, bool]
) -> set[int]:
    """Say which of the candidates rest on nothing that holds, not even on each other.

    `bearing` tells of each support that leads out of the candidates whether it holds. Whoever has
    one is held, and holds up in turn: what is left is held by a circle, or by nothing.
    """
    above: defaultdict[int, list[int]] = defaultdict(list)
    held: list[int] = []
    for one in supports:
        if one.to_id in candidates:
            above[one.to_id].append(one.from_id)
        elif bearing.get(one, False):
            held.append(one.from_id)
    left = set(candidates)
    while held:
        one_id = held.pop()
        if one_id in left:
            left.discard(one_id)
            held.extend(above[one_id])
    return left
