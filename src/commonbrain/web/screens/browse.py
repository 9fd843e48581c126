"""Browse: every memory that the person may see, page by page, and their counts by facet and month.

The counts are a screen of their own, which the list includes when it is shown: they take longer
than a page of the list, and grow with the store.
"""

from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from starlette.responses import Response

from commonbrain.api.operations.list import LIST, ListRequest, to_csv
from commonbrain.model.limits import FACET_MONTHS_MAX
from commonbrain.model.listing import Facet, ListOrder
from commonbrain.retrieval.listing import MemoryPage
from commonbrain.web.screens.screen import Screen
from commonbrain.web.visit import Visit

_FIELDS: Final[Mapping[Facet, str]] = {
    Facet.KIND: "kinds",
    Facet.PROJECT: "project",
    Facet.LABEL: "labels",
    Facet.AGENT: "agent",
    Facet.STATE: "states",
    Facet.TAG: "tags",
}
"""The filter that each facet sets; a month sets `since` and `until`."""
_OTHERS: Final = (
    *("scope", "session", "since", "until", "recorded_since", "recorded_until"),
    *("trust_min", "order", "pinned", "limit"),
)
_NO_FILTERS: Final = frozenset({"order", "limit"})
_BAR_HEIGHT: Final = 40
"""The height of the timeline's bars, in pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value of a facet, or one month of the timeline."""

    value: str
    """Empty for memories without one."""
    count: int
    is_chosen: bool
    parameters: Mapping[str, str]
    """The address of the list in which it is chosen, or no longer chosen."""
    height: int = 0
    """The height of its bar in the timeline, in pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterInUse:
    """One filter of a list."""

    name: str
    value: str
    parameters: Mapping[str, str]
    """The address of the list without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseView:
    """A page of memories."""

    page: MemoryPage
    filters: tuple[FilterInUse, ...]
    orders: tuple[str, ...]
    parameters: Mapping[str, str]
    """The filters and the order as given, without the cursor."""
    cursor: str
    """The cursor of this page; empty for the first."""

    def csv(self) -> Response:
        """Return the page as CSV."""
        name = 'attachment; filename="memories.csv"'
        return Response(
            to_csv(self.page), media_type="text/csv", headers={"Content-Disposition": name}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetsView:
    """The counts of all memories that match the filters."""

    facets: Mapping[str, tuple[Choice, ...]]
    months: tuple[Choice, ...]
    """Oldest first."""
    parameters: Mapping[str, str]
    """The filters and the order as given."""


def _load(visit: Visit) -> BrowseView:
    parameters = _parameters(visit)
    return BrowseView(
        page=visit.call(LIST, visit.request(ListRequest)),
        filters=tuple(_filters(parameters)),
        orders=tuple(map(str, ListOrder)),
        parameters=parameters,
        cursor=visit.text("cursor"),
    )


def _filters(parameters: Mapping[str, str]) -> Iterator[FilterInUse]:
    given = {name: value for name, value in parameters.items() if name not in _NO_FILTERS}
    month = given.get("since", "")[:7]
    period = _period(month)
    if period and period.items() <= given.items():
        given = {name: value for name, value in given.items() if name not in period}
        without = _changed(parameters, dict.fromkeys(period, ""))
        yield FilterInUse(name=str(Facet.MONTH), value=month, parameters=without)
    facets = {name: str(facet) for facet, name in _FIELDS.items()}
    for name, value in given.items():
        without = _changed(parameters, {name: ""})
        yield FilterInUse(name=facets.get(name, name), value=value, parameters=without)


def _load_facets(visit: Visit) -> FacetsView:
    parameters = _parameters(visit)
    page = visit.call(LIST, visit.request(ListRequest, facets=True, limit=1))
    facets = {
        str(facet): tuple(_choices(page, facet, name=name, parameters=parameters))
        for facet, name in _FIELDS.items()
    }
    return FacetsView(
        facets={name: choices for name, choices in facets.items() if choices},
        months=tuple(_months(page, parameters)),
        parameters=parameters,
    )


def _parameters(visit: Visit) -> Mapping[str, str]:
    """Return the filters and the order as given."""
    given = {
        name: ", ".join(visit.parameters.getlist(name)) for name in (*_FIELDS.values(), *_OTHERS)
    }
    return {name: value for name, value in given.items() if value}


def _choices(
    page: MemoryPage, facet: Facet, *, name: str, parameters: Mapping[str, str]
) -> Iterator[Choice]:
    for one in getattr(page.facets, facet):
        value: str = one.value or ""
        is_chosen = bool(value) and value in _split(parameters.get(name, ""))
        yield Choice(
            value=value,
            count=one.count,
            is_chosen=is_chosen,
            parameters=_changed(parameters, {name: "" if is_chosen else value}),
        )


def _months(page: MemoryPage, parameters: Mapping[str, str]) -> Iterator[Choice]:
    known = {one.value or "": one.count for one in page.facets.month} if page.facets else {}
    most = max(known.values(), default=1)
    for month in _month_names(known):
        count = known.get(month, 0)
        period = _period(month)
        is_chosen = period.items() <= parameters.items()
        yield Choice(
            value=month,
            count=count,
            is_chosen=is_chosen,
            parameters=_changed(parameters, dict.fromkeys(period, "") if is_chosen else period),
            height=max(1, round(_BAR_HEIGHT * count / most)),
        )


def _period(month: str) -> Mapping[str, str]:
    """Return the filters that select a month, such as 2026-05; empty for anything else."""
    try:
        first = date.fromisoformat(f"{month}-01")
    except ValueError:
        return {}
    last = first.replace(day=monthrange(first.year, first.month)[1])
    return {"since": first.isoformat(), "until": last.isoformat()}


def _month_names(known: Mapping[str, int]) -> list[str]:
    """Return all months from the first to the last, unless they are too many for a timeline."""
    if not known:
        return []
    first, last = (_months_of(name) for name in (min(known), max(known)))
    if last - first >= FACET_MONTHS_MAX:
        return sorted(known)
    return [f"{number // 12:04}-{number % 12 + 1:02}" for number in range(first, last + 1)]


def _months_of(name: str) -> int:
    """Count the months before a month, such as 2026-05."""
    year, _, month = name.partition("-")
    return int(year) * 12 + int(month) - 1


def _changed(parameters: Mapping[str, str], change: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in {**parameters, **change}.items() if value}


def _split(text: str) -> list[str]:
    return [one.strip() for one in text.split(",")]


BROWSE: Final = Screen(name="browse", path="/browse", title="Browse", load=_load, key="b")
FACETS: Final = Screen(
    name="facets", path="/browse/facets", title="Filters", load=_load_facets, part_of="browse"
)
