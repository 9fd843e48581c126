"""What a look allows of what a search of SQLite found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from sqlalchemy import Select, TextClause, column, func, select, text

from commonbrain.model.query import Filter
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain.storage.schema.memories import memories
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sql.filters import allowed, given, within

LOOKED_AT: Final = 200
"""How many of the best are held against a look before a narrow one is searched for itself."""
_SPARE: Final = 4
"""One in so many is held against a look beyond the limit, before all that is looked at are."""
_BUILT_MAX: Final = 256
"""Statements kept for the looks that were asked with last."""
_MEMBERS: Final[TextClause] = text("SELECT value FROM json_each(:listed)")
LISTED: Final = _MEMBERS.columns(column("value"))
"""The members of a JSON list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedIds:
    """Looks held against ids in one transaction."""

    work: SqlContext
    known: dict[QueryScope, list[int]] = field(default_factory=dict["QueryScope", "list[int]"])
    """What narrow looks of this transaction allow: several arms ask with the same one."""

    def every(self, scope: QueryScope) -> list[int]:
        """Give all that a look allows; a project is found by its index, other looks read all."""
        known = self.known.get(scope)
        if known is None or self.work.changed:
            told = given(scope, self.work.tenant)
            [(listed,)] = self.work.rows(_all_allowed(scope.filter), told)
            known = self.known[scope] = json.loads(listed)
        return known

    def best(self, scores: Mapping[int, float], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Keep the best that a look allows of the best scores, best first, newest on a tie."""
        # Sorted twice by one number each, which is faster than once by pairs.
        newest = sorted(scores, reverse=True)
        best = sorted(newest, key=scores.__getitem__, reverse=True)[:LOOKED_AT]
        kept: list[int] = []
        enough = limit + limit // _SPARE
        for some in (best[:enough], best[enough:]):
            if some and len(kept) < limit:
                permitted = self.among(some, scope)
                kept += (id_ for id_ in some if id_ in permitted)
        return [Hit(id=id_, score=scores[id_]) for id_ in kept[:limit]]

    def among(self, ids: Sequence[int], scope: QueryScope) -> set[int]:
        """Say which of a few a look allows."""
        told = given(scope, self.work.tenant) | {"listed": json.dumps(ids)}
        [(listed,)] = self.work.rows(_allowed_of(scope.filter), told)
        return set(json.loads(listed))

    def among_many(self, ids: Sequence[int], scope: QueryScope) -> set[int]:
        """Say which of many a look allows: asked of each, or of all where an index finds all."""
        if scope.filter.project is None:
            return self.among(ids, scope)
        return set(self.every(scope))


# One row that lists the ids is read several times as fast as a row for each.
@lru_cache(_BUILT_MAX)
def _allowed_of(wanted: Filter) -> Select[str]:
    """List what a look allows of the ids `listed`, a JSON list too."""
    ids = func.json_group_array(memories.c.id)
    return select(ids).where(within(wanted), memories.c.id.in_(LISTED))


@lru_cache(_BUILT_MAX)
def _all_allowed(wanted: Filter) -> Select[str]:
    """List all that a look allows."""
    return select(func.json_group_array(allowed(wanted).subquery().c.id))
