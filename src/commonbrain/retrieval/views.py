"""What else can be asked of one memory: history, provenance, links, annotations, policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from commonbrain.invalidation.reviews import open_reviews
from commonbrain.model import ids
from commonbrain.model.links import LinkType
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Scope, is_visible
from commonbrain.model.scoring import is_dormant, strength
from commonbrain.model.trust import Trust
from commonbrain.retrieval.provenance import seen
from commonbrain.storage.change_log import predecessors, successors

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

LINKS_MAX: Final = 50
"""Links shown of one memory, the strongest."""


class View(StrEnum):
    """A side of a memory that is shown on request."""

    HISTORY = "history"
    PROVENANCE = "provenance"
    LINKS = "links"
    ANNOTATIONS = "annotations"
    POLICY = "policy"
    DEPENDENTS = "dependents"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvent:
    """One thing that was done to a memory or to another of its chain."""

    id: str
    action: Action
    at: datetime
    agent: str
    session: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """One link as seen from a memory; `is_outgoing` when it leads from it to the other."""

    type: LinkType
    is_outgoing: bool
    id: str
    headline: str
    strength: float
    observations: int
    agent: str
    trust: Trust
    basis: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationView:
    """One annotation, under an authority of its own."""

    text: str
    agent: str
    trust: Trust
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessStatus:
    """Who may see a memory, and how it stands in its life."""

    scope: Scope
    seen_by: str
    state: State
    is_current: bool
    needs_review: bool
    strength: float
    dormant: bool
    pinned: bool
    expires_at: datetime | None
    access_count: int
    last_access_at: datetime | None


def history(tx: Transaction, caller: Caller, *, memory: Memory) -> tuple[ChangeEvent, ...]:
    """Tell what was done to every revision of a chain that the caller may see, oldest first."""
    chain = [one for one in _chain(tx, memory) if is_visible(caller, one)]
    changes = tx.changes.of([one.id for one in chain])
    return tuple(
        ChangeEvent(
            id=ids.show(ids.MEMORY, change.memory_id),
            action=change.action,
            at=change.at,
            agent=change.agent,
            session=change.session,
            reason=change.reason,
        )
        for change in sorted(changes, key=lambda change: change.id)
    )


def edges(tx: Transaction, caller: Caller, *, memory: Memory) -> tuple[LinkView, ...]:
    """List the links of a memory to what the caller may see, strongest first."""
    links = tx.links.touching([memory.id], limit=LINKS_MAX)
    others = {link: link.to_id if link.from_id == memory.id else link.from_id for link in links}
    known = seen(tx, caller, wanted=list(others.values()))
    return tuple(
        LinkView(
            type=link.type,
            is_outgoing=link.from_id == memory.id,
            id=ids.show(ids.MEMORY, other),
            headline=known[other].headline if known[other].state is not State.FORGOTTEN else "",
            strength=link.strength,
            observations=link.observations,
            agent=link.agent,
            trust=link.trust,
            basis=link.basis,
        )
        for link, other in others.items()
        if other in known
    )


def noted(tx: Transaction, *, memory: Memory) -> tuple[AnnotationView, ...]:
    """List what was noted beside a memory, oldest first."""
    return tuple(
        AnnotationView(text=one.text, agent=one.agent, trust=one.trust, at=one.at)
        for one in tx.annotations.of([memory.id]).get(memory.id, ())
    )


def access_status(tx: Transaction, *, memory: Memory, now: datetime) -> AccessStatus:
    """Tell who may see a memory and how it stands."""
    is_expired = memory.is_over(now)
    return AccessStatus(
        scope=memory.scope,
        seen_by=memory.agent if memory.scope is Scope.PRIVATE else "everyone in the tenant",
        state=memory.state,
        is_current=memory.state in CURRENT_STATES and not is_expired,
        needs_review=bool(open_reviews(tx, [memory.id], as_of=now)),
        strength=round(strength(memory, now), 4),
        dormant=is_dormant(memory, now),
        pinned=memory.pinned,
        expires_at=memory.expires_at,
        access_count=memory.access_count,
        last_access_at=memory.last_access_at,
    )


def _chain(tx: Transaction, memory: Memory) -> Sequence[Memory]:
    """Give every revision of a chain, oldest first."""
    return [*reversed(list(predecessors(tx, memory))), memory, *successors(tx, memory)]
