"""The pipeline of lists: a recall without a query, or for a time alone, newest first, in pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import KINDS
from commonbrain.model.limits import MORE_COUNTED_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.paging import Listing
from commonbrain.model.query import Candidate, Place
from commonbrain.model.timestamps import from_millis, to_millis
from commonbrain.retrieval.occurrences import at_each_time
from commonbrain.retrieval.order import order
from commonbrain.retrieval.packing import Packed
from commonbrain.retrieval.score import BY_RECENCY, score

if TYPE_CHECKING:
    from commonbrain.retrieval.plan import QueryPlan
    from commonbrain.retrieval.table import Table
    from commonbrain.storage.store import Transaction

_NO_FILTERS: Final = frozenset({"max_items", "max_tokens", "deadline_ms", "bump", "cursor"})
"""Options that may differ between two pages of one list."""


def place_of(memory: Memory) -> Place:
    """Return the place of a memory in the list."""
    return memory.occurred_at, memory.id


def read_cursor(query: str, options: Mapping[str, Any]) -> Place | None:
    """Return the place after which a page begins; None for the first page.

    Raises:
        InvalidInputError: there is a query, or the cursor is malformed.

    """
    if options.get("cursor") is None:
        return None
    if query:
        raise InvalidInputError(
            "Only a list without a query has pages.",
            hint="Raise max_items and max_tokens, or ask more precisely.",
        )
    key = _listing(options).after(datetime, int)
    return None if key is None else (from_millis(int(key[0])), int(key[1]))


def next_cursor(options: Mapping[str, Any], last: Place) -> str:
    """Return the cursor of the page after a place."""
    at, id_ = last
    return _listing(options).cursor_after((to_millis(at), id_))


def arrange(table: Table) -> None:
    """Order a list newest first: by `occurred_at`, then by `recorded_at`.

    An event that came again is there at each of its times, and what mentions the time that is asked
    for at that time. Of a time that holds more than fits, every day keeps its share.
    """
    plan = table.plan
    place = {id_: row for row, id_ in enumerate(table.rows)}
    dated = {id_: (at,) for id_, at in table.mentioned.items()} | dict(table.times)
    memories = at_each_time(table.memories, dated)
    if plan.has_pages:
        after, oldest = plan.after, table.oldest
        memories = [
            memory
            for memory in memories
            if (after is None or place_of(memory) < after)
            and (oldest is None or place_of(memory) >= oldest)
        ]
    rows = [place[one.id] for one in memories]
    table.memories, table.rows = memories, [one.id for one in memories]
    table.columns = {name: column[rows] for name, column in table.columns.items()}
    score(table)
    table.ranked.sort(key=BY_RECENCY, reverse=True)
    if plan.lists_time:
        table.ranked = share_days(table.ranked, count=plan.budget.max_items)
    order(table)
    # What was dated by what it mentions is shown with its own time.
    table.ranked = [
        replace(one, memory=table.known[one.memory.id])
        if one.memory.id in table.mentioned and one.memory.id not in table.times
        else one
        for one in table.ranked
    ]


_OCCURRENCE_BONUS: Final = 0.3
"""Added to the salience of what happened, so that an event comes before a fact of its day."""


def share_days(newest_first: Sequence[Candidate], *, count: int) -> list[Candidate]:
    """Move `count` candidates from all days to the front; both parts stay newest first.

    In turn each day gives the most important one that is left, so that a busy day does not hide the
    others.
    """
    days: defaultdict[date, list[Candidate]] = defaultdict(list)
    for one in newest_first:
        days[one.memory.occurred_at.date()].append(one)
    each = [sorted(those, key=_importance, reverse=True) for those in days.values()]
    turns = ([one for one in turn if one is not None] for turn in zip_longest(*each))
    in_turn = (one for turn in turns for one in sorted(turn, key=_importance, reverse=True))
    chosen = {id(one) for one in islice(in_turn, count)}
    return sorted(newest_first, key=lambda one: id(one) not in chosen)


def _importance(candidate: Candidate) -> float:
    memory = candidate.memory
    return memory.salience + _OCCURRENCE_BONUS * KINDS[memory.kind].is_occurrence


def fit_page(
    ranked: Sequence[Candidate],
    fill: Callable[[Sequence[Candidate]], Packed],
    *,
    oldest: Place | None,
) -> tuple[Packed, Place | None]:
    """Fill a page up to the first candidate that does not fit, and return the last place in it.

    The page ends there, so that the next one misses nothing and repeats nothing. If all of them
    fit, the last place is `oldest`; if none does, there is no next page.
    """
    fitting = sorted(ranked, key=lambda one: place_of(one.memory), reverse=True)
    packed = fill(fitting)
    while packed.items and (count := _fitting(fitting, packed)) < len(fitting):
        fitting = fitting[:count]
        packed = fill(fitting)
    if ranked and not packed.items:
        return packed, None
    return packed, place_of(fitting[-1].memory) if len(fitting) < len(ranked) else oldest


def _fitting(candidates: Sequence[Candidate], packed: Packed) -> int:
    """Count the candidates before the first that is not shown."""
    each = zip(packed.ids, packed.items, strict=True)
    shown = {(item.occurred_at, id_) for id_, item in each}
    for count, one in enumerate(candidates):
        if place_of(one.memory) not in shown:
            # The first one always counts as shown, or no page would ever end.
            return max(count, 1)
    return len(candidates)


def count_after(tx: Transaction, plan: QueryPlan, *, last: Place) -> int:
    """Count the memories of the list after a place, up to `MORE_COUNTED_MAX`."""
    return len(tx.memories.newest(plan.query_scope, limit=MORE_COUNTED_MAX, after=last))


def _listing(options: Mapping[str, Any]) -> Listing:
    filters = {name: value for name, value in options.items() if name not in _NO_FILTERS}
    return Listing(name="recall", limit=1, cursor=options.get("cursor"), filters=filters)
