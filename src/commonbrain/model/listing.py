"""Lists of memories for people: the filter, the order, and facets with their counts."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field as default
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from commonbrain.model.kinds import Kind
from commonbrain.model.limits import FACET_MONTHS_MAX, FACET_VALUES_MAX
from commonbrain.model.memory import CURRENT_STATES, State
from commonbrain.model.scope import Caller, Scope
from commonbrain.model.values import dataclass, replace

NOT_SET: Final = ""
"""In a filter by project or label: the memories without one."""


class ListOrder(StrEnum):
    """The order of a list; memories of one time are ordered by id."""

    RECORDED = "recorded"
    """Last recorded first, by id: ids follow the order in which memories are recorded."""
    RECORDED_OLDEST = "recorded_oldest"
    OCCURRED = "occurred"
    """Latest occurrence first."""
    OCCURRED_OLDEST = "occurred_oldest"

    @property
    def is_descending(self) -> bool:
        """Whether the newest comes first."""
        return self in {ListOrder.RECORDED, ListOrder.OCCURRED}

    @property
    def is_by_occurrence(self) -> bool:
        """Whether it is by the time of occurrence."""
        return self in {ListOrder.OCCURRED, ListOrder.OCCURRED_OLDEST}


class ListKey(NamedTuple):
    """The place of a memory in a list: its time in milliseconds, 0 in lists by id, and its id."""

    at_ms: int
    id: int


class Facet(StrEnum):
    """A property by which the memories of a list are counted."""

    KIND = "kind"
    PROJECT = "project"
    LABEL = "label"
    AGENT = "agent"
    STATE = "state"
    TAG = "tag"
    MONTH = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFilter:
    """Which memories a list has; an empty tuple or None does not filter."""

    kinds: tuple[Kind, ...] = ()
    subtypes: tuple[tuple[Kind, str], ...] = ()
    """Kinds with a label; a memory must match one of these or of `kinds`."""
    labels: tuple[str, ...] = ()
    """One of these; `NOT_SET` matches memories without a label."""
    tags: tuple[str, ...] = ()
    """All of these."""
    project: str | None = None
    """Only this project, unlike in recall; `NOT_SET` matches memories without one."""
    agent: str | None = None
    session: str | None = None
    scope: Scope | None = None
    states: tuple[State, ...] = ()
    """Empty means active and archived; see `state_in_list`."""
    needs_review: bool = False
    """Only memories with an open review."""
    pinned: bool | None = None
    trust_min: float = 0.0
    since: datetime | None = None
    """Occurred at or after."""
    until: datetime | None = None
    """Occurred at or before."""
    recorded_since: datetime | None = None
    recorded_until: datetime | None = None

    @property
    def listed_states(self) -> frozenset[State]:
        """The states that it matches."""
        return frozenset(self.states) or CURRENT_STATES

    def without(self, facet: Facet) -> "ListFilter":
        """Return the filter of a facet's counts, which leaves out the facet's own condition."""
        return replace(self, **_WITHOUT[facet])


_WITHOUT: Final[Mapping[Facet, Mapping[str, Any]]] = {
    Facet.KIND: {"kinds": (), "subtypes": ()},
    Facet.PROJECT: {"project": None},
    Facet.LABEL: {"labels": ()},
    Facet.AGENT: {"agent": None},
    Facet.STATE: {"states": tuple(State), "needs_review": False},
    Facet.TAG: {"tags": ()},
    Facet.MONTH: {"since": None, "until": None},
}
"""The fields of a filter that belong to a facet, with the values that do not filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListScope:
    """The caller, filter and time that a list is restricted to."""

    caller: Caller
    filter: ListFilter
    now: datetime


def state_in_list(state: State, *, is_over: bool) -> State:
    """Return the state that a list shows: a current memory past its expiry is expired."""
    return State.EXPIRED if is_over and state in CURRENT_STATES else state


class MemoryGroup(NamedTuple):
    """The memories that are alike in five facets."""

    project: str | None
    kind: Kind
    state: State
    label: str | None
    agent: str
    days: str
    """The day of occurrence of each memory, as a proleptic ordinal in digits."""

    @property
    def size(self) -> int:
        """The number of memories."""
        return self.days.count(DAY_SEPARATOR) + 1


DAY_SEPARATOR: Final = ","
"""Separates the days of a group: one text of many days is read and counted fastest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetCount:
    """A value of a facet, None for memories without one, and the memories that have it."""

    value: str | None
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """Counts of the memories that a filter matches, most frequent values first.

    A facet's own condition is not applied to its counts, so that they tell what another choice
    would list. Each has the first twenty values; the timeline has the latest 240 months.
    """

    kind: tuple[FacetCount, ...] = ()
    project: tuple[FacetCount, ...] = ()
    label: tuple[FacetCount, ...] = ()
    agent: tuple[FacetCount, ...] = ()
    state: tuple[FacetCount, ...] = ()
    tag: tuple[FacetCount, ...] = ()
    month: tuple[FacetCount, ...] = ()
    """By month of occurrence, such as 2026-05, oldest first; months without memories are absent."""
    omitted: Mapping[Facet, int] = default(default_factory=dict[Facet, int])
    """The number of values that are not shown, by facet; facets shown in full are absent."""


GROUPED: Final = (Facet.KIND, Facet.PROJECT, Facet.LABEL, Facet.AGENT, Facet.STATE)
"""The facets that one grouped query counts."""


def widest(criteria: ListFilter) -> ListFilter:
    """Return the filter without the conditions on all that is grouped by."""
    needs_review = criteria.needs_review
    for facet in GROUPED:
        criteria = criteria.without(facet)
    return replace(criteria, needs_review=needs_review)


def count_groups(
    groups: Iterable[MemoryGroup], criteria: ListFilter
) -> dict[Facet, dict[str | None, int]]:
    """Count the memories of each value, by facet, from the groups of the widest filter."""
    counts = {facet: Counter[str | None]() for facet in GROUPED}
    checks = list(_checks(criteria))
    for group in groups:
        failed = [facet for facet, check in checks if not check(group)]
        # A facet counts what only its own condition leaves out.
        if len(failed) <= 1:
            size = group.size
            for facet in failed or GROUPED:
                counts[facet][group[_PLACE[facet]]] += size
    return {facet: dict(counter) for facet, counter in counts.items()}


_PLACE: Final = {facet: MemoryGroup._fields.index(facet) for facet in GROUPED}


def _checks(criteria: ListFilter) -> Iterator[tuple[Facet, Callable[[MemoryGroup], bool]]]:
    """Yield the conditions of a filter on groups, by facet."""
    if criteria.kinds or criteria.subtypes:
        kinds, subtypes = criteria.kinds, criteria.subtypes
        yield Facet.KIND, lambda one: one.kind in kinds or (one.kind, one.label) in subtypes
    if criteria.project is not None:
        yield Facet.PROJECT, lambda one: (one.project or NOT_SET) == criteria.project
    if criteria.labels:
        yield Facet.LABEL, lambda one: (one.label or NOT_SET) in criteria.labels
    if criteria.agent is not None:
        yield Facet.AGENT, lambda one: one.agent == criteria.agent
    states = criteria.listed_states
    yield Facet.STATE, lambda one: one.state in states


def most_frequent(counts: Mapping[str | None, int]) -> tuple[FacetCount, ...]:
    """Return the most frequent values; of equally frequent ones, the first by name."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0] or NOT_SET))
    return tuple(
        FacetCount(value=value, count=count) for value, count in ordered[:FACET_VALUES_MAX]
    )


def omitted_values(counts: Mapping[Facet, Mapping[str | None, int]]) -> dict[Facet, int]:
    """Return how many values of each facet are not shown."""
    shown_max = dict.fromkeys(Facet, FACET_VALUES_MAX) | {Facet.MONTH: FACET_MONTHS_MAX}
    omitted = {facet: len(of_facet) - shown_max[facet] for facet, of_facet in counts.items()}
    return {facet: count for facet, count in omitted.items() if count > 0}


def count_months(groups: Iterable[MemoryGroup], criteria: ListFilter) -> dict[str | None, int]:
    """Count the memories of the groups that a filter matches by month, oldest first."""
    checks = [check for _, check in _checks(criteria)]
    matching = [group.days for group in groups if all(check(group) for check in checks)]
    listed = DAY_SEPARATOR.join(matching).split(DAY_SEPARATOR) if matching else []
    days = Counter(listed)
    months = Counter[str | None]()
    for ordinal, count in sorted((int(day), count) for day, count in days.items()):
        day = date.fromordinal(ordinal)
        months[f"{day.year:04}-{day.month:02}"] += count
    return dict(months)


def latest_months(counts: Mapping[str | None, int]) -> tuple[FacetCount, ...]:
    """Return the latest months, oldest first."""
    latest = list(counts.items())[-FACET_MONTHS_MAX:]
    return tuple(FacetCount(value=month, count=count) for month, count in latest)
