"""Unsettled: everything that wants somebody's decision, with the calls that make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from commonbrain.invalidation.reviews import needing, notes
from commonbrain.model import ids, limits
from commonbrain.model.conflicts import Basis, basis_of, conflict_of, is_placeable
from commonbrain.model.errors import Refused, one_of
from commonbrain.model.kinds import Kind
from commonbrain.model.links import Link
from commonbrain.model.memory import AWAITING_STATES, Memory
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Scope
from commonbrain.model.trust import Trust
from commonbrain.retrieval.conflicts import outdated_of
from commonbrain.security.authority import proposal_of
from commonbrain.services import House
from commonbrain.storage.interface import Look, Transaction


class Matter(StrEnum):
    """What sort of thing wants a decision."""

    CONFLICTS = "conflicts"
    NEEDS_REVIEW = "needs_review"
    PROPOSALS = "proposals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One memory that something is to be decided about."""

    id: str
    kind: Kind
    headline: str
    project: str | None
    agent: str
    trust: Trust
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispute:
    """Two memories that disagree: the preferred one, the other, and by what it shows."""

    preferred: Side
    other: Side
    basis: Basis
    gap: float
    why: tuple[str, ...]
    since: datetime
    settle: tuple[str, ...]
    """The calls that end it, the first in favour of the preferred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A memory that rests on what has fallen; `because` names it."""

    memory: Side
    because: str
    repeats_old_of: str | None
    """What holds now, where the memory repeats what that replaced."""
    since: datetime
    settle: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What is held back: a text that is to hold, or a change that is to be made of `target`."""

    memory: Side
    change: Action | None
    target: str | None
    since: datetime
    settle: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agenda:
    """What wants a decision, the latest first; `more` names what goes on beyond the limit."""

    conflicts: tuple[Dispute, ...] = ()
    needs_review: tuple[Doubt, ...] = ()
    proposals: tuple[Waiting, ...] = ()
    more: tuple[Matter, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    look: Look
    limit: int
    skip: int

    def within(self, **more: Any) -> Look:  # noqa: ANN401 fields of a filter
        """Look for less on the same page."""
        wanted = Filter(trust_min=0.0, project=self.look.filter.project, **more)
        return Look(caller=self.look.caller, filter=wanted, now=self.look.now)


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Listing for one caller."""

    house: House
    caller: Caller

    def __call__(
        self,
        matter: Matter | str | None = None,
        *,
        project: str | None = None,
        limit: int = limits.AGENDA_DEFAULT,
        skip: int = 0,
    ) -> Agenda:
        """List open conflicts, memories that need review, and what is proposed or quarantined.

        Args:
            matter: one of the three; all of them when left out.
            project: only what concerns this project, and what concerns every one.
            limit: of each sort at most so many, 1 to 100.
            skip: leaves out so many of each sort, for the next page.

        Raises:
            Invalid: there is no such matter.
            Refused: `limit_exceeded`.
            Unavailable: the store cannot be read.

        """
        if not (1 <= limit <= limits.AGENDA_MAX and 0 <= skip <= limits.AGENDA_SKIP_MAX):
            raise Refused(
                f"limit is {limit}, skip {skip}.",
                code="limit_exceeded",
                hint=f"1 to {limits.AGENDA_MAX} at once, beyond at most {limits.AGENDA_SKIP_MAX}.",
            )
        wanted = [one_of(Matter, matter)] if matter else list(Matter)
        look = Look(
            caller=self.caller,
            filter=Filter(trust_min=0.0, project=project),
            now=self.house.clock.now(),
        )
        page = _Page(look=look, limit=limit, skip=skip)
        with self.house.store.snapshot(self.caller.tenant) as tx:
            found = {one: _LISTS[one](tx, page) for one in wanted}
        return Agenda(
            **{one: those[:limit] for one, those in found.items()},
            more=tuple(one for one, those in found.items() if len(those) > limit),
        )


def _conflicts(tx: Transaction, page: _Page) -> tuple[Dispute, ...]:
    links = tx.disputes.unsettled(page.look, limit=page.limit + 1, skip=page.skip)
    known = tx.memories.get(list({end for link in links for end in (link.from_id, link.to_id)}))
    return tuple(_dispute(link, known) for link in links)


def _dispute(link: Link, known: Mapping[int, Memory]) -> Dispute:
    told = conflict_of(known[link.from_id], known[link.to_id], basis=basis_of(link))
    best, rest = (known[ids.parse(ids.MEMORY, id_)] for id_ in told.ids)
    one, other = told.ids
    both = f"revise keep_both {one} --other {other}"
    apart = (
        (f"{both} --value PROJECT,PROJECT",) if is_placeable(best) and is_placeable(rest) else ()
    )
    return Dispute(
        preferred=_side(best),
        other=_side(rest),
        basis=told.basis,
        gap=told.gap,
        why=told.why,
        since=link.created_at,
        settle=_because(_ending(best, rest), both, *apart),
    )


def _ending(best: Memory, rest: Memory) -> str:
    """Name the call in favour of the preferred: resolve, where it can be in the other's place.

    A chain has no branches: what has replaced something cannot replace this too. Nor is a chain
    that others see carried on by what is private.
    """
    is_hidden = best.scope is Scope.PRIVATE and rest.scope is not Scope.PRIVATE
    if best.superseded_count or is_hidden:
        return f"forget {_shown(rest)}"
    return f"revise resolve {_shown(best)} --other {_shown(rest)}"


def _doubts(tx: Transaction, page: _Page) -> tuple[Doubt, ...]:
    found = _listed(tx, page, look=page.within(needs_review=True))
    caller, now = page.look.caller, page.look.now
    needs = needing(tx, [one.id for one in found], moment=now)
    told = notes(tx, caller, needs=needs)
    stale = outdated_of(tx, caller, memories=found, needs=needs, now=now)
    heads = {conflict.ids[1]: conflict.ids[0] for conflict in stale}
    return tuple(
        Doubt(
            memory=_side(one),
            because=told[one.id],
            repeats_old_of=heads.get(_shown(one)),
            since=min(review.at for review in needs[one.id]),
            settle=_because(
                f"revise review {_shown(one)}",
                f"revise supersede {_shown(one)} TEXT",
                f"forget {_shown(one)}",
            ),
        )
        for one in found
        if one.id in needs
    )


def _waiting(tx: Transaction, page: _Page) -> tuple[Waiting, ...]:
    found = _listed(tx, page, look=page.within(states=tuple(sorted(AWAITING_STATES))))
    carried = {one.id: proposal_of(one) for one in found}
    return tuple(
        Waiting(
            memory=_side(one),
            change=wanted.op if wanted else None,
            target=ids.show(ids.MEMORY, wanted.id) if wanted else None,
            since=one.recorded_at,
            settle=_because(f"revise approve {_shown(one)}", f"revise reject {_shown(one)}"),
        )
        for one in found
        for wanted in [carried[one.id]]
    )


def _listed(tx: Transaction, page: _Page, *, look: Look) -> Sequence[Memory]:
    hits = tx.memories.newest(look, limit=page.skip + page.limit + 1)[page.skip :]
    found = tx.memories.get([hit.id for hit in hits])
    return [found[hit.id] for hit in hits]


def _because(*calls: str) -> tuple[str, ...]:
    return tuple(f"{call} --reason WHY" for call in calls)


def _side(memory: Memory) -> Side:
    return Side(
        id=_shown(memory),
        kind=memory.kind,
        headline=memory.headline,
        project=memory.project,
        agent=memory.agent,
        trust=memory.trust,
        confidence=memory.confidence,
    )


def _shown(memory: Memory) -> str:
    return ids.show(ids.MEMORY, memory.id)


_LISTS: Final[Mapping[Matter, Callable[[Transaction, _Page], tuple[Any, ...]]]] = {
    Matter.CONFLICTS: _conflicts,
    Matter.NEEDS_REVIEW: _doubts,
    Matter.PROPOSALS: _waiting,
}
