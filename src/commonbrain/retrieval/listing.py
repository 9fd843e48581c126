"""List memories for people: filtered, in order, page by page, with counts by facet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from commonbrain.model import ids
from commonbrain.model.errors import RejectedError, check_names, parse_choice
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import LIST_PAGE_DEFAULT, LIST_PAGE_MAX, MORE_COUNTED_MAX
from commonbrain.model.listing import (
    Facet,
    Facets,
    ListFilter,
    ListKey,
    ListOrder,
    ListScope,
    MemoryGroup,
    count_groups,
    count_months,
    latest_months,
    most_frequent,
    omitted_values,
    state_in_list,
    widest,
)
from commonbrain.model.memory import ERASED, Memory, State
from commonbrain.model.paging import Listing, Page
from commonbrain.model.query import KindFilter
from commonbrain.model.scope import Caller, Scope, Trust, is_visible
from commonbrain.retrieval.plan import NEEDS_REVIEW
from commonbrain.retrieval.provenance import FORGOTTEN
from commonbrain.services import Services
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.time_expressions.parser import parse_time_expression

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


class ListCriteria(TypedDict, total=False):
    """The filters, the order and the page of a list."""

    kinds: Sequence[Kind | str]
    labels: Sequence[str]
    """Only memories with one of these labels; an empty one means without a label."""
    tags: Sequence[str]
    """Only memories with all of these tags."""
    project: str | None
    """Only this project; an empty one means memories without a project."""
    agent: str | None
    """Only memories by this author."""
    session: str | None
    scope: Scope | str | None
    states: Sequence[State | str]
    """By default active and archived; any state, and `needs_review`, is accepted.

    Memories past their expiry are listed as expired, forgotten ones without their text.
    """
    pinned: bool | None
    """Only pinned memories, or only others."""
    trust_min: float
    """0..1; by default memories of any trust."""
    since: datetime | str | None
    """Occurred at or after, ISO 8601 or words such as "last monday"."""
    until: datetime | str | None
    """Occurred at or before."""
    recorded_since: datetime | str | None
    recorded_until: datetime | str | None
    order: ListOrder | str
    """Recorded or occurred, newest first; recorded_oldest or occurred_oldest."""


def _listing(criteria: ListCriteria, *, limit: int, cursor: str | None) -> Listing:
    """Return the list that a cursor belongs to."""
    given = {"trust_min": 0.0, "order": ListOrder.RECORDED, **criteria}
    values = {name: given.get(name) for name in ListCriteria.__annotations__}
    filters = {name: () if one is None else _several(one) for name, one in values.items()}
    return Listing(name="list", limit=limit, cursor=cursor, filters=filters)


def _filter(criteria: ListCriteria, now: datetime) -> ListFilter:
    """Parse the filters; times in words are relative to `now`.

    Raises:
        InvalidInputError: a kind, state, scope or time cannot be parsed.
        RejectedError: `limit_exceeded`, `trust_min` is not in 0..1.

    """
    trust_min, scope = criteria.get("trust_min", 0.0), criteria.get("scope")
    if not 0 <= trust_min <= 1:
        raise RejectedError(
            f"trust_min is {trust_min}; 0 to 1 is allowed.",
            code="limit_exceeded",
            hint="Leave it out to list memories of any trust.",
        )
    states = [str(name) for name in _several(criteria.get("states", ()))]
    return ListFilter(
        **KindFilter.parse(criteria.get("kinds", ()))._asdict(),
        labels=_names(criteria.get("labels", ())),
        tags=_names(criteria.get("tags", ())),
        project=_name(criteria.get("project")),
        agent=normalise_line(criteria.get("agent")),
        session=normalise_line(criteria.get("session")),
        scope=parse_choice(Scope, scope) if scope else None,
        states=tuple(parse_choice(State, name) for name in states if name != NEEDS_REVIEW),
        needs_review=NEEDS_REVIEW in states,
        pinned=criteria.get("pinned"),
        trust_min=trust_min,
        since=_time(criteria.get("since"), now),
        until=_time(criteria.get("until"), now, ends=True),
        recorded_since=_time(criteria.get("recorded_since"), now),
        recorded_until=_time(criteria.get("recorded_until"), now, ends=True),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMemory:
    """One memory of a list; the text of a forgotten one is not shown."""

    id: str
    kind: Kind
    label: str | None
    headline: str
    project: str | None
    scope: Scope
    agent: str
    state: State
    trust: Trust
    confidence: float
    occurred_at: datetime
    recorded_at: datetime
    pinned: bool
    tags: tuple[str, ...]
    superseded_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPage:
    """Memories of a list, and the counts of all that the filter matches."""

    memories: tuple[ListedMemory, ...]
    next: str | None = None
    """The cursor of the next page; None on the last one."""
    more: int = 0
    """Memories after this page; 1,000 means 1,000 or more."""
    facets: Facets | None = None
    """None unless requested."""


@dataclass(frozen=True, slots=True)
class ListMemories:
    """Lists the memories that the caller may see."""

    services: Services
    caller: Caller

    def __call__(
        self,
        *,
        facets: bool = False,
        limit: int = LIST_PAGE_DEFAULT,
        cursor: str | None = None,
        **criteria: Unpack[ListCriteria],
    ) -> MemoryPage:
        """List memories in order.

        Args:
            facets: count all memories that match by kind, project, label, agent, state, tag and
                month. A facet's own filter is not applied to its counts.
            limit: 1 to 200 memories.
            cursor: `next` of the page before.
            criteria: the filters and the order, as `ListCriteria` explains them.

        Raises:
            InvalidInputError: a filter, kind, state, scope, order or time is unknown, or the cursor
                is malformed or of a list with other filters.
            RejectedError: `limit_exceeded`, a number is out of range.
            UnavailableError: the store cannot be read.

        """
        now = self.services.clock.now()
        check_names(criteria, ListCriteria.__annotations__, message="A list has no filter {}.")
        order = parse_choice(ListOrder, criteria.get("order", ListOrder.RECORDED))
        listing = _listing(criteria, limit=limit, cursor=cursor).checked(LIST_PAGE_MAX)
        after = _read_cursor(listing, order)
        scope = ListScope(caller=self.caller, filter=_filter(criteria, now), now=now)

        def read(tx: Transaction) -> MemoryPage:
            keys = tx.listing.keys(
                scope, order=order, after=after, limit=listing.limit + MORE_COUNTED_MAX
            )
            page = listing.page(
                keys, key=lambda key: (key.at_ms, key.id) if order.is_by_occurrence else (key.id,)
            )
            return MemoryPage(
                memories=self._listed(tx, page, now=now),
                next=page.next,
                more=page.more,
                facets=_count(tx, scope) if facets else None,
            )

        return self.services.store.read(self.caller.tenant, read)

    def _listed(
        self, tx: Transaction, page: Page[ListKey], *, now: datetime
    ) -> tuple[ListedMemory, ...]:
        known = tx.memories.get([key.id for key in page.rows])
        shown = (known.get(key.id) for key in page.rows)
        return tuple(
            _show(one, now=now) for one in shown if one is not None and is_visible(self.caller, one)
        )


def _count(tx: Transaction, scope: ListScope) -> Facets:
    """Count the memories that a filter matches, by each facet."""
    criteria = scope.filter

    def groups_of(criteria: ListFilter) -> list[MemoryGroup]:
        return tx.listing.groups(replace(scope, filter=widest(criteria)))

    groups = groups_of(criteria)
    counts = count_groups(groups, criteria)
    if criteria.needs_review:
        of_any = replace(criteria, needs_review=False)
        counts[Facet.STATE] = count_groups(groups_of(of_any), of_any)[Facet.STATE]
    counts[Facet.TAG] = tx.listing.tags(replace(scope, filter=criteria.without(Facet.TAG)))
    of_all_times = criteria.without(Facet.MONTH)
    months = count_months(groups if of_all_times == criteria else groups_of(of_all_times), criteria)
    shown = {str(facet): most_frequent(of_facet) for facet, of_facet in counts.items()}
    return Facets(
        **shown,
        month=latest_months(months),
        omitted=omitted_values({**counts, Facet.MONTH: months}),
    )


def _show(memory: Memory, *, now: datetime) -> ListedMemory:
    is_forgotten = memory.state is State.FORGOTTEN
    without_text = ERASED if memory.headline == ERASED else FORGOTTEN
    successor = memory.superseded_by
    return ListedMemory(
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        label=memory.label,
        headline=without_text if is_forgotten else memory.headline,
        project=memory.project,
        scope=memory.scope,
        agent=memory.agent,
        state=state_in_list(memory.state, is_over=memory.is_over(now)),
        trust=memory.trust,
        confidence=memory.confidence,
        occurred_at=memory.occurred_at,
        recorded_at=memory.recorded_at,
        pinned=memory.pinned,
        tags=() if is_forgotten else memory.tags,
        superseded_by=None if successor is None else ids.show(ids.MEMORY, successor),
    )


def _read_cursor(listing: Listing, order: ListOrder) -> ListKey | None:
    types = (datetime, int) if order.is_by_occurrence else (int,)
    key = listing.after(*types)
    if key is None:
        return None
    *at, id_ = map(int, key)
    return ListKey(at_ms=at[0] if at else 0, id=id_)


def _several(given: object) -> tuple[Any, ...]:
    """Return the members of a list, or a single value as the only one."""
    return tuple(cast("Sequence[Any]", given)) if isinstance(given, list | tuple) else (given,)


def _names(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_name(name) or "" for name in _several(given)))


def _name(given: str | None) -> str | None:
    """Normalise a name; an empty one stays, for the memories without one."""
    return None if given is None else normalise_line(given) or ""


def _time(given: datetime | str | None, now: datetime, *, ends: bool = False) -> datetime | None:
    return parse_time_expression(given, now, ends=ends) if given else None
