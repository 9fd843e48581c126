"""The review queue: everything that needs a decision, with the calls that make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from commonbrain.history.change_plan import show
from commonbrain.invalidation.reviews import open_reviews, review_notes
from commonbrain.model import ids, limits
from commonbrain.model.errors import RejectedError, parse_choice
from commonbrain.model.kinds import Kind
from commonbrain.model.links import Basis, Link, LinkType, basis_of, conflict_of, is_placeable
from commonbrain.model.memory import AWAITING_STATES, Memory
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Scope, Trust
from commonbrain.retrieval.item_metadata import outdated_of
from commonbrain.security.authority import proposal_of
from commonbrain.services import Services
from commonbrain.storage.interface import QueryScope

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


class ReviewCategory(StrEnum):
    """The type of decision."""

    CONFLICTS = "conflicts"
    NEEDS_REVIEW = "needs_review"
    PROPOSALS = "proposals"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySummary:
    """A memory that needs a decision."""

    id: str
    kind: Kind
    headline: str
    project: str | None
    agent: str
    trust: Trust
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictItem:
    """Two memories in conflict: the preferred one, the other, and the basis."""

    preferred: MemorySummary
    other: MemorySummary
    basis: Basis
    gap: float
    why: tuple[str, ...]
    since: datetime
    settle: tuple[str, ...]
    """Calls that resolve it, first in favour of the preferred memory."""
    confidence: float | None = None
    """How probable it is, 0..1, that one changed the other; None for any other conflict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleItem:
    """A memory that depends on an invalid one; `because` names that."""

    memory: MemorySummary
    because: str
    repeats_old_of: str | None
    """The current memory, if this one repeats what that replaced."""
    since: datetime
    settle: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingItem:
    """A pending memory, or a proposed change of `target`."""

    memory: MemorySummary
    change: Action | None
    target: str | None
    since: datetime
    settle: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewQueue:
    """Pending decisions, latest first; `more` names the categories that have further pages."""

    conflicts: tuple[ConflictItem, ...] = ()
    needs_review: tuple[StaleItem, ...] = ()
    proposals: tuple[PendingItem, ...] = ()
    more: tuple[ReviewCategory, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    query_scope: QueryScope
    limit: int
    skip: int

    def within(self, **more: Any) -> QueryScope:  # noqa: ANN401 fields of a filter
        """Narrow the query on the same page."""
        criteria = Filter(trust_min=0.0, project=self.query_scope.filter.project, **more)
        return QueryScope(caller=self.query_scope.caller, filter=criteria, now=self.query_scope.now)


@dataclass(frozen=True, slots=True)
class ListReviewQueue:
    """Lists the review queue for one caller."""

    services: Services
    caller: Caller

    def __call__(
        self,
        category: ReviewCategory | str | None = None,
        *,
        project: str | None = None,
        limit: int = limits.AGENDA_DEFAULT,
        skip: int = 0,
    ) -> ReviewQueue:
        """List open conflicts, memories that need review, and pending memories.

        Args:
            category: one of the three; all by default.
            project: only this project's and global memories.
            limit: 1 to 100 of each category.
            skip: omit this many of each category, for the next page.

        Raises:
            InvalidInputError: the category is unknown.
            RejectedError: `limit_exceeded`.
            UnavailableError: the store cannot be read.

        """
        if not (1 <= limit <= limits.AGENDA_MAX and 0 <= skip <= limits.AGENDA_SKIP_MAX):
            raise RejectedError(
                f"limit is {limit}, skip {skip}.",
                code="limit_exceeded",
                hint=f"limit is 1 to {limits.AGENDA_MAX}, skip at most {limits.AGENDA_SKIP_MAX}.",
            )
        categories = [parse_choice(ReviewCategory, category)] if category else list(ReviewCategory)
        query_scope = QueryScope(
            caller=self.caller,
            filter=Filter(trust_min=0.0, project=project),
            now=self.services.clock.now(),
        )
        page = _Page(query_scope=query_scope, limit=limit, skip=skip)
        with self.services.store.snapshot(self.caller.tenant) as tx:
            pages = {one: _LISTS[one](tx, page) for one in categories}
        return ReviewQueue(
            **{one: those[:limit] for one, those in pages.items()},
            more=tuple(one for one, those in pages.items() if len(those) > limit),
        )


def _conflicts(tx: Transaction, page: _Page) -> tuple[ConflictItem, ...]:
    links = tx.conflicts.open(page.query_scope, limit=page.limit + 1, skip=page.skip)
    known = tx.memories.get(list({end for link in links for end in (link.from_id, link.to_id)}))
    return tuple(_conflict_item(link, known) for link in links)


def _conflict_item(link: Link, known: Mapping[int, Memory]) -> ConflictItem:
    conflict = conflict_of(known[link.from_id], known[link.to_id], basis=basis_of(link))
    best, rest = (known[ids.parse(ids.MEMORY, id_)] for id_ in conflict.ids)
    one, other = conflict.ids
    both = f"revise keep_both {one} --other {other}"
    apart = (
        (f"{both} --value PROJECT,PROJECT",) if is_placeable(best) and is_placeable(rest) else ()
    )
    return ConflictItem(
        preferred=_summarize(best),
        other=_summarize(rest),
        basis=conflict.basis,
        gap=conflict.gap,
        why=conflict.why,
        since=link.created_at,
        settle=_because(_ending(best, rest), both, *apart),
        confidence=link.strength if link.type is LinkType.CHANGES else None,
    )


def _ending(best: Memory, rest: Memory) -> str:
    """Return the call in favour of the preferred memory: `resolve`, if it can replace the other.

    A chain has no branches: a memory that has replaced one cannot replace another. A private memory
    cannot continue a chain that others see.
    """
    is_hidden = best.scope is Scope.PRIVATE and rest.scope is not Scope.PRIVATE
    if best.superseded_count or is_hidden:
        return f"forget {show(rest)}"
    return f"revise resolve {show(best)} --other {show(rest)}"


def _stale_items(tx: Transaction, page: _Page) -> tuple[StaleItem, ...]:
    memories = _listed(tx, page, query_scope=page.within(needs_review=True))
    caller, now = page.query_scope.caller, page.query_scope.now
    needs = open_reviews(tx, [one.id for one in memories], as_of=now)
    notes = review_notes(tx, caller, needs=needs)
    stale = outdated_of(tx, caller, memories=memories, reviews=needs, now=now)
    heads = {conflict.ids[1]: conflict.ids[0] for conflict in stale}
    return tuple(
        StaleItem(
            memory=_summarize(one),
            because=notes[one.id],
            repeats_old_of=heads.get(show(one)),
            since=min(review.at for review in needs[one.id]),
            settle=_because(
                f"revise review {show(one)}",
                f"revise supersede {show(one)} TEXT",
                f"forget {show(one)}",
            ),
        )
        for one in memories
        if one.id in needs
    )


def _pending_items(tx: Transaction, page: _Page) -> tuple[PendingItem, ...]:
    memories = _listed(tx, page, query_scope=page.within(states=tuple(sorted(AWAITING_STATES))))
    carried = {one.id: proposal_of(one) for one in memories}
    return tuple(
        PendingItem(
            memory=_summarize(one),
            change=change.op if change else None,
            target=ids.show(ids.MEMORY, change.id) if change else None,
            since=one.recorded_at,
            settle=_because(f"revise approve {show(one)}", f"revise reject {show(one)}"),
        )
        for one in memories
        for change in [carried[one.id]]
    )


def _listed(tx: Transaction, page: _Page, *, query_scope: QueryScope) -> Sequence[Memory]:
    hits = tx.memories.newest(query_scope, limit=page.skip + page.limit + 1)[page.skip :]
    memories = tx.memories.get([hit.id for hit in hits])
    return [memories[hit.id] for hit in hits]


def _because(*calls: str) -> tuple[str, ...]:
    return tuple(f"{call} --reason WHY" for call in calls)


def _summarize(memory: Memory) -> MemorySummary:
    return MemorySummary(
        id=show(memory),
        kind=memory.kind,
        headline=memory.headline,
        project=memory.project,
        agent=memory.agent,
        trust=memory.trust,
        confidence=memory.confidence,
    )


_LISTS: Final[Mapping[ReviewCategory, Callable[[Transaction, _Page], tuple[Any, ...]]]] = {
    ReviewCategory.CONFLICTS: _conflicts,
    ReviewCategory.NEEDS_REVIEW: _stale_items,
    ReviewCategory.PROPOSALS: _pending_items,
}
