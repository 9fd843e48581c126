"""The operation list: memories for people, with filters, pages and facets."""

import csv
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from io import StringIO
from typing import Final, Literal, cast

from commonbrain.api.operation import (
    Cursor,
    Name,
    Operation,
    Request,
    TimeBound,
    Transport,
    argument,
)
from commonbrain.model.escaping import inert_line, inert_part
from commonbrain.model.limits import LIST_PAGE_DEFAULT, LIST_PAGE_MAX
from commonbrain.model.listing import Facet, FacetCount, Facets
from commonbrain.model.memory import CURRENT_STATES
from commonbrain.model.paging import more_line
from commonbrain.model.timestamps import show_day
from commonbrain.retrieval.listing import ListedMemory, MemoryPage


class ListRequest(Request):
    """The filters, the order and the page."""

    kinds: list[str] = argument("Only memories of this kind", [])
    labels: list[str] = argument(
        "Only memories with this label; '' for those without one",
        [],
    )
    tags: list[str] = argument("Only memories with all of these tags", [])
    project: Name = argument(
        "Only memories of this project; '' for those without one",
    )
    agent: Name = argument("Only memories by this agent")
    session: Name = argument("Only memories of this session")
    scope: Name = argument("Only memories of this scope: private, team or global")
    states: list[str] = argument(
        "Only memories in this state, such as superseded; by default active and archived ones",
        [],
    )
    pinned: bool | None = argument("true: only pinned; false: only others")
    trust_min: float = argument("The lowest trust, from 0 to 1", 0.0)
    since: TimeBound = argument(
        "Only what occurred then or later: ISO 8601, or words such as 'last monday'",
    )
    until: TimeBound = argument("Only what occurred then or before")
    recorded_since: TimeBound = argument("Only what was recorded then or later")
    recorded_until: TimeBound = argument("Only what was recorded then or before")
    order: Literal["recorded", "recorded_oldest", "occurred", "occurred_oldest"] = argument(
        "By time of recording or of the event, the newest first unless the name ends in oldest",
        "recorded",
    )
    facets: bool = argument(
        "Count by kind, project, label, agent, state, tag and month", default=False
    )
    limit: int = argument(
        f"How many memories at most, 1 to {LIST_PAGE_MAX}",
        LIST_PAGE_DEFAULT,
    )
    cursor: Cursor = None


def _render(reply: MemoryPage) -> str:
    lines = [_render_memory(one) for one in reply.memories] or ["No memory matches."]
    lines += more_line(reply.more, reply.next)
    return "\n".join([*lines, *facet_lines(reply.facets)])


def _render_memory(one: ListedMemory) -> str:
    state = None if one.state in CURRENT_STATES else str(one.state)
    mark = "pinned" if one.pinned else None
    day = show_day(one.occurred_at)
    parts = (one.id, one.kind, day, one.project, f"by {one.agent}", state, mark)
    about = " | ".join(inert_part(part) for part in parts if part)
    return f"{about}: {inert_line(one.headline)}"


def facet_lines(facets: Facets | None) -> Iterator[str]:
    """Render the counts of each facet in a line."""
    for facet in Facet if facets else ():
        counts: tuple[FacetCount, ...] = getattr(facets, facet)
        texts = [f"{one.value or '(none)'} {one.count:,}" for one in counts]
        more = facets.omitted.get(facet) if facets else None
        texts += [f"and {more:,} more"] if more else []
        yield inert_line(f"{facet}: {', '.join(texts) or 'none'}")


_FORMULA: Final = ("=", "+", "-", "@")
"""Spreadsheets run a cell that begins with one of these."""


def to_csv(reply: MemoryPage) -> str:
    """Format the memories of a page as CSV with a header, safe to open in a spreadsheet."""
    written = StringIO()
    names = [field.name for field in fields(ListedMemory)]
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(names)
    rows.writerows([_cell(getattr(one, name)) for name in names] for one in reply.memories)
    return written.getvalue()


def _cell(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case tuple():
            return _cell(" ".join(cast("tuple[str, ...]", value)))
        case str():
            text = inert_line(value)
            return f"'{text}" if text.startswith(_FORMULA) else text
        case _:
            return value


LIST = Operation(
    name="list",
    title="List",
    purpose="List memories by filters, page by page, with counts by facet; for people.",
    request=ListRequest,
    reply=MemoryPage,
    handle=lambda brain, request: brain.list(**request.model_dump()),
    render_text=_render,
    to_csv=to_csv,
    transports=frozenset({Transport.CLI, Transport.REST}),
    is_read_only=True,
    is_idempotent=True,
)
