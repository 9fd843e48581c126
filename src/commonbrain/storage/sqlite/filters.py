"""Apply a query scope to the results of a search in SQLite."""

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
"""Best results checked against a scope before a narrow scope is searched by itself."""
_RESERVE: Final = 4
"""One in this many results beyond the limit is checked before all of them are."""
_BUILT_MAX: Final = 256
"""Cached statements of recently used scopes."""
_MEMBERS: Final[TextClause] = text("SELECT value FROM json_each(:listed)")
LISTED: Final = _MEMBERS.columns(column("value"))
"""The members of a JSON list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedIds:
    """Checks scopes against ids in one transaction."""

    work: SqlContext
    known: dict[QueryScope, list[int]] = field(default_factory=dict["QueryScope", "list[int]"])
    """Ids allowed by narrow scopes, because several retrievers use the same one."""

    def every(self, scope: QueryScope) -> list[int]:
        """Return all ids that a scope allows.

        A project is found by its index, others read all rows.
        """
        known = self.known.get(scope)
        if known is None or self.work.changed:
            parameters = given(scope, self.work.tenant)
            [(listed,)] = self.work.rows(_all_allowed(scope.filter), parameters)
            known = self.known[scope] = json.loads(listed)
        return known

    def best(self, scores: Mapping[int, float], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Return the allowed ids with the best scores, best first, newest on a tie."""
        # Two sorts by one number each are faster than one by pairs.
        newest = sorted(scores, reverse=True)
        best = sorted(newest, key=scores.__getitem__, reverse=True)[:LOOKED_AT]
        chosen: list[int] = []
        enough = limit + limit // _RESERVE
        for some in (best[:enough], best[enough:]):
            if some and len(chosen) < limit:
                permitted = self.among(some, scope)
                chosen += [id_ for id_ in some if id_ in permitted]
        return [Hit(id=id_, score=scores[id_]) for id_ in chosen[:limit]]

    def among(self, ids: Sequence[int], scope: QueryScope) -> set[int]:
        """Return which of a few ids a scope allows."""
        parameters = given(scope, self.work.tenant) | {"listed": json.dumps(ids)}
        [(listed,)] = self.work.rows(_allowed_of(scope.filter), parameters)
        return set(json.loads(listed))

    def among_many(self, ids: Sequence[int], scope: QueryScope) -> set[int]:
        """Return which of many ids a scope allows: by checking each, or by an index."""
        if scope.filter.project is None:
            return self.among(ids, scope)
        return set(self.every(scope))


# One row with a list of ids is read several times as fast as a row for each.
@lru_cache(_BUILT_MAX)
def _allowed_of(criteria: Filter) -> Select[str]:
    """Select those of the ids in `listed`, a JSON list, that a scope allows."""
    ids = func.json_group_array(memories.c.id)
    return select(ids).where(within(criteria), memories.c.id.in_(LISTED))


@lru_cache(_BUILT_MAX)
def _all_allowed(criteria: Filter) -> Select[str]:
    """Select all ids that a scope allows."""
    return select(func.json_group_array(allowed(criteria).subquery().c.id))
