"""The review queue: everything that needs a decision, with the calls that make it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, Any, Final

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.history.summaries import MemoryEffects, MemorySummary, summarize
from commonbrain.invalidation.dependents import (
    ReviewCause,
    open_reviews,
    review_causes,
    review_notes,
)
from commonbrain.model import ids, limits
from commonbrain.model.errors import parse_choice
from commonbrain.model.links import Basis, Link, LinkType, basis_of, conflict_of, is_placeable
from commonbrain.model.memory import AWAITING_STATES, Memory
from commonbrain.model.paging import Key, Listing, Page
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Authority, Scope
from commonbrain.model.timestamps import from_millis, to_millis
from commonbrain.security.authority import proposal_of
from commonbrain.services import Capability, Services
from commonbrain.storage.interface import QueryScope

if TYPE_CHECKING:
    from commonbrain.history.unit_of_work import UnitOfWork
    from commonbrain.ingestion.suspects import Suspect
    from commonbrain.retrieval.citations import MissingCode
    from commonbrain.storage.store import Transaction


class ReviewCategory(StrEnum):
    """The type of decision."""

    CONFLICTS = "conflicts"
    NEEDS_REVIEW = "needs_review"
    PROPOSALS = "proposals"
    DUPLICATES = "duplicates"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictItem:
    """Two memories in conflict: the preferred one, the other, and the basis."""

    preferred: MemorySummary
    other: MemorySummary
    basis: Basis
    gap: float
    why: tuple[str, ...]
    effects: tuple[str, ...]
    """What deciding for the preferred memory does apart from ending the other."""
    other_effects: tuple[str, ...]
    """What deciding for the other one does apart from ending the preferred."""
    since: datetime
    settle: tuple[str, ...]
    """Calls that resolve it, first in favour of the preferred memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleItem:
    """A memory that depends on an invalid one, or cites code that is gone."""

    memory: MemorySummary
    because: str
    """The causes, or the places in code."""
    repeats_old_of: str | None
    """The current memory, if this one repeats what that replaced."""
    since: datetime | None
    """When the first cause was recorded; None if only its code is gone."""
    settle: tuple[str, ...]
    causes: tuple[ReviewCause, ...] = ()
    """The nearest causes, each with the path to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingItem:
    """A pending memory, which may carry a proposed change, with all that would be approved."""

    memory: MemorySummary
    effects: tuple[MemoryEffects, ...]
    """What an approval does, by memory."""
    change: Action | None
    reason: str | None
    since: datetime
    settle: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateItem:
    """Two rules that may say the same in other words; `similarity` is their cosine."""

    newer: MemorySummary
    older: MemorySummary
    similarity: float
    since: datetime
    settle: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewQueue:
    """Pending decisions, latest first."""

    conflicts: tuple[ConflictItem, ...] = ()
    needs_review: tuple[StaleItem, ...] = ()
    proposals: tuple[PendingItem, ...] = ()
    duplicates: tuple[DuplicateItem, ...] = ()
    next: str | None = None
    """The cursor of the next page; None on the last one."""
    more: int = 0
    """Entries known to be after this page; 1,000 means 1,000 or more."""
    degraded: tuple[str, ...] = ()
    """What is left out although it may need a decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """One category of the queue for one caller, after a key."""

    tx: Transaction
    services: Services
    query_scope: QueryScope
    space: EmbeddingSpace
    after: Key | None
    missing: MissingCode | None = None
    """The code that is gone, in the category of memories to review."""

    def as_person(self) -> UnitOfWork:
        """Return the context in which a person would decide; it only reads."""
        from commonbrain.history.unit_of_work import UnitOfWork  # noqa: PLC0415 as below

        person = replace(self.query_scope.caller, authority=Authority.PERSON)
        now = self.query_scope.now
        return UnitOfWork(tx=self.tx, services=self.services, caller=person, now=now)

    def within(self, **more: Any) -> QueryScope:  # noqa: ANN401 fields of a filter
        """Narrow the query."""
        criteria = Filter(trust_min=0.0, project=self.query_scope.filter.project, **more)
        return QueryScope(caller=self.query_scope.caller, filter=criteria, now=self.query_scope.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Category:
    """How to read a category: its rows with their keys, and the entries of some of them."""

    key: tuple[type[int | datetime], ...]
    """The types of a key."""
    rows: Callable[[_Section, int], Sequence[tuple[Key, Any]]]
    """Lists up to a number of rows, latest first, each with its key."""
    items: Callable[[_Section, Sequence[Any]], tuple[Any, ...]]


class ListReviewQueue(Capability):
    """Lists the review queue for one caller."""

    def __call__(
        self,
        category: ReviewCategory | str | None = None,
        *,
        project: str | None = None,
        limit: int = limits.AGENDA_DEFAULT,
        cursor: str | None = None,
    ) -> ReviewQueue:
        """List open conflicts, memories that need review, pending ones, and duplicate suspects.

        Args:
            category: one of the four; all by default.
            project: only this project's and global memories.
            limit: 1 to 100 of each category.
            cursor: `next` of the page before.

        Raises:
            InvalidInputError: the category is unknown, or the cursor malformed.
            RejectedError: `limit_exceeded`.
            UnavailableError: the store cannot be read.

        """
        categories = [parse_choice(ReviewCategory, category)] if category else list(ReviewCategory)
        filters = {"category": category, "project": project}
        listing = Listing(name="review", limit=limit, cursor=cursor, filters=filters)
        begins = _positions(listing.checked(limits.AGENDA_MAX), categories)
        query_scope = QueryScope(
            caller=self.caller,
            filter=Filter(trust_min=0.0, project=project),
            now=self.services.clock.now(),
        )
        shown: dict[str, tuple[Any, ...]] = {}
        degraded: tuple[str, ...] = ()
        ends = dict.fromkeys(ReviewCategory, _ENDED)
        more = 0
        space = self.services.space_for(self.caller)
        with self.services.store.snapshot(self.caller.tenant) as tx:
            for one, after in begins.items():
                section = _Section(
                    tx=tx,
                    services=self.services,
                    query_scope=query_scope,
                    space=space,
                    after=after,
                )
                missing = _missing_code(section) if one is ReviewCategory.NEEDS_REVIEW else None
                section = replace(section, missing=missing)
                page = _page(section, _CATEGORIES[one], listing=listing)
                shown[one] = _CATEGORIES[one].items(section, [row for _, row in page.rows])
                if page.more:
                    ends[one], more = page.rows[-1][0], more + page.more
                elif missing and missing.checked_to:
                    ends[one] = missing.checked_to
                if missing and missing.checked_to:
                    degraded = (_TIME_OVER,)
        end = [value for one, key in ends.items() for value in _padded(key, one)]
        has_more = set(ends.values()) != {_ENDED}
        return ReviewQueue(
            **shown,
            next=listing.cursor_after(tuple(end)) if has_more else None,
            more=min(more, limits.MORE_COUNTED_MAX),
            degraded=degraded,
        )


_TIME_OVER: Final = "not all cited code was checked in time; the next page goes on"
_ENDED: Final[Key] = (-1,)
"""The key of a category that has no further page; no id is negative, and no conflict so old."""


def _show(memory: Memory) -> str:
    return ids.show(ids.MEMORY, memory.id)


def _positions(
    listing: Listing, categories: Sequence[ReviewCategory]
) -> dict[ReviewCategory, Key | None]:
    """Map categories to the key after which each begins; those that have ended are absent."""
    widths = [len(_CATEGORIES[one].key) for one in ReviewCategory]
    key = listing.after(*chain.from_iterable(_CATEGORIES[one].key for one in ReviewCategory))
    if key is None:
        return dict.fromkeys(categories)
    starts = accumulate(widths, initial=0)
    keys = {
        one: key[start : start + width]
        for one, start, width in zip(ReviewCategory, starts, widths, strict=False)
    }
    return {one: keys[one] for one in categories if keys[one] != _padded(_ENDED, one)}


def _padded(key: Key, category: ReviewCategory) -> Key:
    width = len(_CATEGORIES[category].key)
    return (key * width)[:width]


def _page(section: _Section, category: _Category, *, listing: Listing) -> Page[tuple[Key, Any]]:
    return listing.page(
        category.rows(section, listing.limit + 1),
        key=lambda row: row[0],
        count=lambda most: len(category.rows(section, most)),
    )


def _conflict_rows(section: _Section, limit: int) -> list[tuple[Key, Link]]:
    after = None
    if section.after is not None:
        at, from_id, to_id = map(int, section.after)
        after = (from_millis(at), from_id, to_id)
    rows: list[tuple[Key, Link]] = []
    while len(rows) < limit:
        links = section.tx.conflicts.open(section.query_scope, limit=limit, after=after)
        rows += [
            ((to_millis(one.created_at), one.from_id, one.to_id), one)
            for one in _unproposed(section.tx, links)
        ]
        if len(links) < limit:
            break
        after = (links[-1].created_at, links[-1].from_id, links[-1].to_id)
    return rows[:limit]


_StaleRow = tuple[int, tuple[str, ...]]
"""The id of a memory, and the places that it cites if nothing is left of them."""
_FOREVER: Final = datetime.max.replace(tzinfo=UTC)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def _unproposed(tx: Transaction, links: Sequence[Link]) -> list[Link]:
    """Return the conflicts about which no proposal asks, or asked before a person decided on it.

    What a lower authority says of a memory that a proposal would replace is the same question.
    """
    ends = {end for link in links for end in (link.from_id, link.to_id)}
    about = tx.links.touching(sorted(ends), types=[LinkType.CONFLICTS_WITH])
    known = tx.memories.get(sorted(ends | {one.from_id for one in about}))
    asking = [known[id_] for id_ in {one.from_id for one in about} if id_ in known]
    carriers = {one.id: held for one in asking if (held := proposal_of(one)) is not None}
    decided = {
        change.memory_id: change.at
        for change in tx.changes.of(sorted(carriers))
        if change.authority is Authority.PERSON and "state" in change.after
    }
    asked_until: dict[int, datetime] = {}
    for id_, held in carriers.items():
        is_open = known[id_].state in AWAITING_STATES
        until = _FOREVER if is_open else decided.get(id_, _NEVER)
        asked_until[held.id] = max(until, asked_until.get(held.id, _NEVER))

    def is_asked(one: Memory, other: Memory) -> bool:
        is_lower = not other.authority.covers(one.authority)
        return is_lower and other.recorded_at <= asked_until.get(one.id, _NEVER)

    ends_of = ((known[one.from_id], known[one.to_id]) for one in links)
    return [
        link
        for link, (one, other) in zip(links, ends_of, strict=True)
        if not (is_asked(one, other) or is_asked(other, one))
    ]


def _conflicts(section: _Section, links: Sequence[Link]) -> tuple[ConflictItem, ...]:
    ends = {end for link in links for end in (link.from_id, link.to_id)}
    known = section.tx.memories.get(list(ends))
    return tuple(_conflict_item(section.as_person(), link, known=known) for link in links)


def _conflict_item(unit: UnitOfWork, link: Link, *, known: Mapping[int, Memory]) -> ConflictItem:
    # Few queues hold a conflict, and its plan needs the write path.
    from commonbrain.history.effects import effects_of_deciding  # noqa: PLC0415

    conflict = conflict_of(known[link.from_id], known[link.to_id], basis=basis_of(link))
    best, rest = (known[ids.parse(ids.MEMORY, id_)] for id_ in conflict.ids)
    why, endings = conflict.why, [_ending(best, rest)]
    if not best.authority.covers(rest.authority):
        # Time and confidence are what a model says of its own text: neither is recommended.
        best, rest, why = rest, best, ()
        endings = [_ending(best, rest), *endings]
    both = f"revise keep_both {_show(best)} --other {_show(rest)}"
    apart = (
        (f"{both} --value PROJECT,PROJECT",) if is_placeable(best) and is_placeable(rest) else ()
    )
    return ConflictItem(
        preferred=summarize(best),
        other=summarize(rest),
        basis=conflict.basis,
        gap=conflict.gap,
        why=why,
        effects=effects_of_deciding(unit, best, other=rest),
        other_effects=effects_of_deciding(unit, rest, other=best),
        since=link.created_at,
        settle=_because(*endings, both, *apart),
    )


def _ending(best: Memory, rest: Memory) -> str:
    """Return the call in favour of the preferred memory: `resolve`, if it can replace the other.

    A chain has no branches: a memory that has replaced one cannot replace another. A private memory
    cannot continue a chain that others see.
    """
    is_hidden = best.scope is Scope.PRIVATE and rest.scope is not Scope.PRIVATE
    if best.superseded_count or is_hidden:
        return f"forget {_show(rest)}"
    return f"revise resolve {_show(best)} --other {_show(rest)}"


def _missing_code(section: _Section) -> MissingCode:
    """Check the cited code of the memories after the key of a section."""
    # Few callers cite code.
    from commonbrain.retrieval.citations import find_missing_code  # noqa: PLC0415

    until = None if section.after is None else from_millis(int(section.after[0]))
    return find_missing_code(section.tx, section.within(until=until), after=section.after)


def _stale_rows(section: _Section, limit: int) -> list[tuple[Key, _StaleRow]]:
    """List the memories with an open review, and those whose cited code is gone.

    Of the former, only those as late as the code that was checked.
    """
    marked = _newest(section, section.within(needs_review=True), limit=limit)
    rows: dict[Key, _StaleRow] = {key: (id_, ()) for key, id_ in marked}
    if (missing := section.missing) is not None:
        rows |= {key: (int(key[-1]), places) for key, places in missing.places.items()}
        if (first := missing.checked_to) is not None:
            rows = {key: row for key, row in rows.items() if key >= first}
    return sorted(rows.items(), reverse=True)[:limit]


def _stale_items(section: _Section, rows: Sequence[_StaleRow]) -> tuple[StaleItem, ...]:
    missing = dict(rows)
    tx, memories = section.tx, _read(section, list(missing))
    caller, now = section.query_scope.caller, section.query_scope.now
    needs = open_reviews(tx, [one.id for one in memories], as_of=now)
    notes = review_notes(tx, caller, needs=needs)
    # The items of recall need the rules of its ranking, and few queues hold a review.
    from commonbrain.retrieval.conflicts import outdated_of  # noqa: PLC0415

    stale = outdated_of(tx, caller, memories=memories, reviews=needs, now=now)
    heads = {conflict.ids[1]: conflict.ids[0] for conflict in stale}
    return tuple(
        StaleItem(
            memory=summarize(one),
            because="; ".join(
                [
                    *([notes[one.id]] if one.id in notes else []),
                    *(f"cites code that is gone: {place}" for place in missing[one.id]),
                ]
            ),
            repeats_old_of=heads.get(_show(one)),
            since=min((review.at for review in needs.get(one.id, ())), default=None),
            settle=_because(
                f"revise review {_show(one)}",
                f"revise supersede {_show(one)} TEXT" + (" --cite PLACE" * bool(missing[one.id])),
                f"forget {_show(one)}",
            ),
            causes=review_causes(tx, caller, needs=needs.get(one.id, ()), as_of=now),
        )
        for one in memories
        if one.id in needs or missing[one.id]
    )


def _pending_rows(section: _Section, limit: int) -> list[tuple[Key, int]]:
    return _newest(section, section.within(states=tuple(sorted(AWAITING_STATES))), limit=limit)


def _pending_items(section: _Section, rows: Sequence[int]) -> tuple[PendingItem, ...]:
    # Few queues hold a proposal, whose plan needs the write path.
    from commonbrain.history.effects import effects_of_approval  # noqa: PLC0415

    unit = section.as_person()
    return tuple(
        PendingItem(
            memory=summarize(one),
            effects=effects_of_approval(unit, one),
            change=change.op if change else None,
            reason=change.reason if change else None,
            since=one.recorded_at,
            settle=_because(f"revise approve {_show(one)}", f"revise reject {_show(one)}"),
        )
        for one in _read(section, rows)
        for change in [proposal_of(one)]
    )


def _duplicate_rows(section: _Section, limit: int) -> list[tuple[Key, Suspect]]:
    # Comparing vectors needs numpy, which the counts of a queue do without.
    from commonbrain.ingestion.suspects import duplicate_suspects  # noqa: PLC0415

    suspects = duplicate_suspects(section.tx, section.query_scope, space=section.space)
    rows: Iterator[tuple[Key, Suspect]] = (((one.newer.id, one.older.id), one) for one in suspects)
    return list(islice((r for r in rows if section.after is None or r[0] < section.after), limit))


def _duplicate_items(_: _Section, rows: Sequence[Suspect]) -> tuple[DuplicateItem, ...]:
    return tuple(
        DuplicateItem(
            newer=summarize(one.newer),
            older=summarize(one.older),
            similarity=one.similarity,
            since=one.newer.recorded_at,
            settle=_because(
                f"forget {_show(one.newer)}",
                f"forget {_show(one.older)}",
                f"revise keep_both {_show(one.newer)} --other {_show(one.older)}",
            ),
        )
        for one in rows
    )


def _newest(section: _Section, scope: QueryScope, *, limit: int) -> list[tuple[Key, int]]:
    after = None
    if section.after is not None:
        at, id_ = map(int, section.after)
        after = (from_millis(at), id_)
    hits = section.tx.memories.newest(scope, limit=limit, after=after)
    return [((round(hit.score * 1000), hit.id), hit.id) for hit in hits]


def _read(section: _Section, rows: Sequence[int]) -> list[Memory]:
    memories = section.tx.memories.get(list(rows))
    return [memories[id_] for id_ in rows]


def _because(*calls: str) -> tuple[str, ...]:
    return tuple(f"{call} --reason WHY" for call in calls)


_CATEGORIES: Final[Mapping[ReviewCategory, _Category]] = {
    ReviewCategory.CONFLICTS: _Category(
        key=(datetime, int, int), rows=_conflict_rows, items=_conflicts
    ),
    ReviewCategory.NEEDS_REVIEW: _Category(
        key=(datetime, int), rows=_stale_rows, items=_stale_items
    ),
    ReviewCategory.PROPOSALS: _Category(
        key=(datetime, int), rows=_pending_rows, items=_pending_items
    ),
    ReviewCategory.DUPLICATES: _Category(
        key=(int, int), rows=_duplicate_rows, items=_duplicate_items
    ),
}
