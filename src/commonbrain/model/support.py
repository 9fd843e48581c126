"""Support: when a memory becomes invalid, its dependents need review or are archived.

A review says that one memory depends on an invalid cause. Reviews are a function of the states and
links of memories, so changes in any order, and their undo, end in the same reviews. Only
resolutions by users are stored in addition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Final

from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.links import DISAGREEMENTS, Link, LinkType, is_sure
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.scope import Authority, Scope, Trust, isolates
from commonbrain.model.values import dataclass

SUPPORTS: Final = (LinkType.DERIVED_FROM, LinkType.DEPENDS_ON)
"""Links by which a memory depends on another, from dependent to support."""
CONCERNED: Final = frozenset({*SUPPORTS, *DISAGREEMENTS})
"""Links whose creation or removal can affect dependents."""


class InvalidationReason(StrEnum):
    """How a memory became invalid."""

    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"
    CONTRADICTED = "contradicted"
    EXPIRED = "expired"
    PRUNED = "pruned"
    ERASED = "erased"
    UNSUPPORTED = "unsupported"
    """About the memory itself: it lost all support and was archived."""


_LEFT: Final[Mapping[State, InvalidationReason]] = {
    State.SUPERSEDED: InvalidationReason.SUPERSEDED,
    State.EXPIRED: InvalidationReason.EXPIRED,
}
FADED: Final = frozenset(
    {InvalidationReason.EXPIRED, InvalidationReason.PRUNED, InvalidationReason.ERASED}
)
"""Reasons that do not say the memory was wrong: what was derived from it stays true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One memory depends on one invalid cause; `via_id` is the next step towards it.

    For `UNSUPPORTED` the cause is the memory itself, and `earlier` its previous state.
    """

    memory_id: int
    cause_id: int
    fall: InvalidationReason
    via_id: int
    depth: int
    """Number of steps to the cause."""
    at: datetime
    earlier: State | None = None
    settled_at: datetime | None = None
    settled_by: str | None = None
    reason: str | None = None
    """Why it is still valid, as given by the user who confirmed it."""

    @property
    def is_open(self) -> bool:
        """Whether no one has confirmed it yet."""
        return self.settled_at is None

    @property
    def is_of_itself(self) -> bool:
        """Whether it says that the memory lost all support."""
        return self.fall is InvalidationReason.UNSUPPORTED


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportStatus:
    """The attributes of a memory that decide whether it supports others."""

    id: int
    kind: Kind
    state: State
    scope: Scope
    agent: str
    trust: Trust
    authority: Authority
    expires_at: datetime | None
    is_erased: bool
    project: str | None = None
    audience: tuple[str, ...] = ()
    """Further readers of a private memory."""

    def is_over(self, now: datetime) -> bool:
        """Return whether it has expired."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Support:
    """One link by which a memory depends on another."""

    from_id: int
    to_id: int
    type: LinkType


def carried_by(fall: InvalidationReason) -> tuple[LinkType, ...]:
    """Return the links along which an invalidation propagates: a fade only along depends_on."""
    return (LinkType.DEPENDS_ON,) if fall in FADED else SUPPORTS


def invalidation_of(
    one: SupportStatus,
    *,
    is_pruned: bool,
    conflicts: Iterable[tuple[Link, SupportStatus]],
    now: datetime,
) -> InvalidationReason | None:
    """Return how a memory became invalid; None while it is valid, or was never approved.

    `conflicts` are its conflict links, each with the other end.
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
    """Return whether a conflict invalidates `one`: by more trust, or by equal trust of its author.

    An invalid memory contradicts nothing, nor does one that applies elsewhere, and a memory with
    few readers does not invalidate one with more.
    """
    if by.state not in CURRENT_STATES or by.is_over(now) or isolates(one.project, by.project):
        return False
    acts = is_sure(link) and link.authority.covers(one.authority)
    if not acts or KINDS[one.kind].is_binding:
        # A rule changes by a revision alone.
        return False
    if by.scope is Scope.PRIVATE and (one.scope, one.agent) != (by.scope, by.agent):
        return False
    if not by.authority.covers(one.authority):
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
    """Return whether a support is valid.

    A memory that only faded, by expiry or retention, still supports what is derived from it.
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
    """Return the candidates without any valid support, not counting support from each other.

    `bearing` tells for each support outside the candidates whether it is valid. A memory with a
    valid support is valid itself and supports others; the rest depend on a cycle or on nothing.
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


_BY_TIME: Final = attrgetter("occurred_at", "recorded_at")


def may_outdate(newer: Memory, older: Memory) -> bool:
    """Return whether one memory may say that another no longer holds.

    It must be able to dispute it, be trusted no less, and have no lower authority.
    """
    is_trusted = newer.trust.weight >= older.trust.weight
    return is_trusted and newer.authority.covers(older.authority) and may_dispute(newer, older)


def outranks(memory: Memory, other: Memory) -> bool:
    """Return whether a memory comes before another on the same matter, whichever is newer.

    Of those of no lower authority it is trusted more; or it is a rule or pinned, and was written by
    a higher authority. This is an order: of two, at most one outranks the other.
    """
    if not memory.authority.covers(other.authority):
        return False
    is_lasting = KINDS[memory.kind].is_binding or memory.pinned
    return memory.trust.weight > other.trust.weight or (
        is_lasting and not other.authority.covers(memory.authority)
    )


def may_dispute(newer: Memory, older: Memory) -> bool:
    """Return whether one memory may say otherwise than another, whichever is trusted more.

    It must not be older, be of a kind that claims something, of the same project or of none, and
    seen by everyone who sees the older one.
    """
    return (
        _BY_TIME(newer) >= _BY_TIME(older)
        and KINDS[newer.kind].can_change_others
        and not isolates(older.project, newer.project)
        and (
            newer.scope is not Scope.PRIVATE
            or (older.scope, older.agent) == (newer.scope, newer.agent)
        )
    )
