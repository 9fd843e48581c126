"""Pages of a recall without a query, which lists the newest memories first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import MORE_COUNTED_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.paging import Listing
from commonbrain.model.query import Candidate, Place
from commonbrain.model.timestamps import from_millis, to_millis
from commonbrain.retrieval.packing import Packed

if TYPE_CHECKING:
    from commonbrain.retrieval.query_plan import QueryPlan
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


def in_page(
    memories: Sequence[Memory], *, after: Place | None, oldest: Place | None
) -> list[Memory]:
    """Select what belongs to a page: what is older than `after`, down to `oldest`."""
    return [
        one
        for one in memories
        if (after is None or place_of(one) < after) and (oldest is None or place_of(one) >= oldest)
    ]


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
