"""Review queue: everything that waits for a decision, one item in full, settled by one key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Final

from commonbrain.api.operations.review import REVIEW, ReviewRequest, ReviewRow, rows_of
from commonbrain.history.review_queue import (
    ConflictItem,
    DuplicateItem,
    PendingItem,
    ReviewCategory,
    ReviewQueue,
    StaleItem,
)
from commonbrain.history.summaries import MemoryEffects, MemorySummary
from commonbrain.model import ids
from commonbrain.model.errors import parse_choice
from commonbrain.model.scope import Role, Trust
from commonbrain.retrieval.get import MemoryView
from commonbrain.web.rendering import link
from commonbrain.web.screens.screen import Screen
from commonbrain.web.settling import can_replace, is_open, parse_item, read_item, what_happened
from commonbrain.web.visit import Visit, read_memories, read_visible

_ROWS: Final = 20
_VIEWS: Final = ("provenance",)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """An item in the list of its category."""

    item: str
    """The ids of its memories, separated by commas."""
    headlines: tuple[str, ...]
    since: datetime | None
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedMemory:
    """A memory that an item is about, with its text."""

    memory: MemoryView
    summary: MemorySummary
    """Its text, and what it does to agents."""
    effects: tuple[str, ...]
    """What an approval does to it, or of a conflict what deciding for it does apart from that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenItem:
    """The item that is decided next."""

    item: str
    entry: ReviewRow
    sides: tuple[ReviewedMemory, ...]
    """Both memories of a pair, or all that an approval touches."""
    named: Mapping[str, MemoryView]
    """The other memories that it names, such as the causes of a review, by id."""
    replacing: tuple[bool, ...]
    """For each side of a conflict, whether it can supersede the other, which is forgotten if not.
    """
    can_decide: bool
    """Whether the person's role and trust allow a decision."""
    here: str
    """Its address."""
    next: str
    """The address of the item after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewView:
    """The review queue."""

    counts: Mapping[str, int]
    """Open items by category; 1,000 and more are 1,000 above those read."""
    category: ReviewCategory | None
    """The category that is shown; None if nothing is open."""
    is_pinned: bool
    """Whether only this category is shown, and no other after it."""
    project: str | None
    rows: tuple[QueueRow, ...]
    next: str | None
    """The address of the next page; None on the last one."""
    more: int
    item: OpenItem | None
    settled: str | None
    """What happened to the item that the address names, if it is not open any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueuePosition:
    """Where in the queue a person is."""

    pinned: ReviewCategory | None
    """The only category that is shown; None goes on from each to the next."""
    category: ReviewCategory | None
    project: str | None
    cursor: str | None

    @classmethod
    def of(cls, visit: Visit) -> "_QueuePosition":
        """Read the place that an address names."""
        pinned, within = (
            parse_choice(ReviewCategory, given) if (given := visit.text(name)) else None
            for name in ("category", "of")
        )
        return cls(
            pinned=pinned,
            category=pinned or within,
            project=visit.text("project") or None,
            cursor=visit.text("cursor") or None,
        )

    def address(self, *, at: str | None = None) -> str:
        """Return the address of an item at this place, or of the first one."""
        within = {"category": self.pinned} if self.pinned else {"of": self.category}
        return link("/review", **within, project=self.project, cursor=self.cursor, at=at)


def _load(visit: Visit) -> ReviewView:
    place = _QueuePosition.of(visit)
    counts, page = _queue(visit, place)
    if not rows_of(page) and place.pinned is None:
        shown = next((one for one in ReviewCategory if counts[one]), None)
        place = replace(place, category=shown, cursor=None)
        page = _read(visit, place) if shown else page
    entries = {_item_of(one): one for one in rows_of(page)}
    at = visit.text("at")
    item = at if at in entries else next(iter(entries), None)
    return ReviewView(
        counts={str(one): count for one, count in counts.items()},
        category=place.category,
        is_pinned=place.pinned is not None,
        project=place.project,
        rows=tuple(_row(one, place=place) for one in entries.values()),
        next=replace(place, cursor=page.next).address() if page.next else None,
        more=page.more,
        item=_open_item(
            visit,
            entries[item],
            place=place,
            next_=_following(item, entries=entries, place=place, page=page, counts=counts),
        )
        if item
        else None,
        settled=_settled(visit, at, place=place) if at and at != item else None,
    )


def _queue(visit: Visit, place: _QueuePosition) -> tuple[Mapping[ReviewCategory, int], ReviewQueue]:
    """Count every category, and read the page of the one that is shown, if any is named."""
    page = _read(visit, place) if place.category else ReviewQueue()
    counts = {
        one: len(rows_of(page)) + page.more
        if one is place.category and place.cursor is None
        else _count(visit, replace(place, category=one, cursor=None))
        for one in ReviewCategory
    }
    return counts, page


def _count(visit: Visit, place: _QueuePosition) -> int:
    page = _read(visit, place, limit=1)
    return len(rows_of(page)) + page.more


def _read(visit: Visit, place: _QueuePosition, *, limit: int = _ROWS) -> ReviewQueue:
    request = ReviewRequest(
        category=place.category.value if place.category else None,
        project=place.project,
        limit=limit,
        cursor=place.cursor,
    )
    return visit.call(REVIEW, request)


def _following(
    item: str,
    *,
    entries: Mapping[str, ReviewRow],
    place: _QueuePosition,
    page: ReviewQueue,
    counts: Mapping[ReviewCategory, int],
) -> str:
    """Return the address of the item after one, which may be in the next category."""
    after = dict(zip(entries, [*list(entries)[1:], None], strict=True))[item]
    if after is not None:
        return place.address(at=after)
    if page.next:
        return replace(place, cursor=page.next).address()
    if place.pinned:
        return replace(place, cursor=None).address()
    order = list(ReviewCategory)
    later = order[order.index(place.category) + 1 :] if place.category else []
    follower = next((one for one in later if counts[one]), None)
    return replace(place, category=follower, cursor=None).address()


def _row(entry: ReviewRow, *, place: _QueuePosition) -> QueueRow:
    item = _item_of(entry)
    return QueueRow(
        item=item,
        headlines=tuple(one.headline for one in _memories_of(entry)),
        since=entry.since,
        address=place.address(at=item),
    )


def _effects_of(entry: ReviewRow) -> tuple[MemoryEffects, ...]:
    """Return the memories that a decision is about, each with what the decision does to it."""
    match entry:
        case ConflictItem():
            effects = entry.effects, entry.other_effects
        case PendingItem():
            return entry.effects
        case _:
            effects = (), ()
    return tuple(
        MemoryEffects(memory=one, effects=done)
        for one, done in zip(_memories_of(entry), effects, strict=False)
    )


def _memories_of(entry: ReviewRow) -> tuple[MemorySummary, ...]:
    match entry:
        case ConflictItem():
            return entry.preferred, entry.other
        case DuplicateItem():
            return entry.newer, entry.older
        case StaleItem() | PendingItem():
            return (entry.memory,)


def _item_of(entry: ReviewRow) -> str:
    return ",".join(one.id for one in _memories_of(entry))


def _open_item(visit: Visit, entry: ReviewRow, *, place: _QueuePosition, next_: str) -> OpenItem:
    shown = _effects_of(entry)
    memories = read_memories(visit, [one.memory.id for one in shown], views=_VIEWS)
    first, last = memories[0], memories[-1]
    is_trusted = visit.brain.caller.trust_ceiling is Trust.TRUSTED_TOOL
    is_senior = visit.can(Role.ADMIN) or is_trusted
    return OpenItem(
        item=_item_of(entry),
        entry=entry,
        sides=tuple(
            ReviewedMemory(memory=memory, summary=one.memory, effects=one.effects)
            for memory, one in zip(memories, shown, strict=True)
        ),
        named=_named(visit, entry, memories=memories),
        replacing=(can_replace(first, last), can_replace(last, first))
        if isinstance(entry, ConflictItem)
        else (),
        # Proposals take an admin or a trusted source.
        can_decide=visit.can(Role.WRITER) and (is_senior or not isinstance(entry, PendingItem)),
        here=place.address(at=_item_of(entry)),
        next=next_,
    )


def _named(
    visit: Visit, entry: ReviewRow, *, memories: Sequence[MemoryView]
) -> Mapping[str, MemoryView]:
    """Return the memories on the paths to the causes of a review, and what holds in their place."""
    if not isinstance(entry, StaleItem):
        return {}
    known = {one.id: one for one in memories}
    steps = chain.from_iterable(cause.path for cause in entry.causes)
    requested = [*steps, *([entry.repeats_old_of] if entry.repeats_old_of else [])]
    # A path may end in something else than a memory, such as a tag.
    named = [id_ for id_ in requested if id_.startswith(f"{ids.MEMORY}_") and id_ not in known]
    known |= read_visible(visit, named, views=_VIEWS)
    current = [memory.current_id for memory in known.values() if memory.current_id not in known]
    return known | read_visible(visit, current, views=_VIEWS)


def _settled(visit: Visit, item: str, *, place: _QueuePosition) -> str | None:
    """Say what happened to an item that an address names and the page does not list."""
    if place.category is None:
        return None
    memories = read_item(visit, parse_item(item, category=place.category))
    if is_open(place.category, memories):
        return "The item of this address is further back in the queue."
    return what_happened(visit, memories)


REVIEW_SCREEN: Final = Screen(name="review", path="/review", title="Review", load=_load, key="r")
