"""Lists of memories by key, and the counts of their facets."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, Final

import sqlalchemy as sa

from commonbrain.model.limits import LIST_WALKED_MAX
from commonbrain.model.listing import (
    DAY_SEPARATOR,
    ListFilter,
    ListKey,
    ListOrder,
    ListScope,
    MemoryGroup,
    state_in_list,
)
from commonbrain.model.memory import CURRENT_STATES
from commonbrain.storage.schema.memories import entities, memories
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sql.filters import (
    TENANT,
    VIEWER,
    given_list,
    in_tenant,
    is_tag,
    listed,
    open_to,
    shows_tags,
    timeless,
    unindexed,
)

_BUILT_MAX: Final = 256
_FROM_SOURCE_MAX: Final = 100
_FROM_SOURCE: Final = (
    sa.select(memories.c.id)
    .where(
        memories.c.tenant_id == TENANT,
        memories.c.source_ref == sa.bindparam("source"),
        open_to(VIEWER),
    )
    .order_by(memories.c.id)
    .limit(sa.bindparam("limit"))
)
_DAY_MS: Final = 86_400_000
_EPOCH_ORDINAL: Final = 719_163
"""The proleptic ordinal of 1970-01-01; with it, no day is negative and division rounds down."""


@dataclass(frozen=True, slots=True)
class ListingRepository:
    """Reads lists of memories of one tenant."""

    work: SqlContext
    walked_max: int = LIST_WALKED_MAX

    def keys(
        self, scope: ListScope, *, order: ListOrder, after: ListKey | None, limit: int
    ) -> list[ListKey]:
        """List the keys of memories after a key, in order, up to a number.

        The next few thousand memories are walked in order. If too few of them match, all are
        filtered and the matching ones sorted, so that no filter makes a page slow.
        """
        end = self._walked(order, after)
        walked = self._keys(_KeyRange(order=order, after=after, end=end), scope, limit=limit)
        if end is None or len(walked) == limit:
            return walked
        return self._keys(_KeyRange(order=order, after=after, is_sorted=True), scope, limit=limit)

    def with_source(self, source_ref: str, *, viewer: str) -> list[int]:
        """List the first memories of any state with a `source_ref` that an agent may see."""
        given = {"source": source_ref, "viewer": viewer, "limit": _FROM_SOURCE_MAX}
        return [id_ for (id_,) in self.work.rows(_FROM_SOURCE, given)]

    def groups(self, scope: ListScope) -> list[MemoryGroup]:
        """Group the memories that are alike in kind, project, label, agent and state."""
        return [
            MemoryGroup(project, kind, state_in_list(state, is_over=is_over), label, agent, text)
            for project, kind, state, label, agent, *texts in self._rows(
                _groups(timeless(scope.filter)), scope
            )
            for text, is_over in zip(texts, (False, True), strict=True)
            if text
        ]

    def tags(self, scope: ListScope) -> dict[str | None, int]:
        """Count the memories with each tag."""
        criteria = timeless(scope.filter)
        if not _matches_most(scope.filter):
            return dict(self._rows(_tags(criteria), scope))
        # Of all tags, counted by their index alone, those of the few other memories are left out.
        counts = Counter[str | None](dict(self._rows(_ALL_TAGS, scope)))
        counts.subtract(dict(self._rows(_tags(criteria, of_others=True), scope)))
        return {name: count for name, count in counts.items() if count}

    def _walked(self, order: ListOrder, after: ListKey | None) -> ListKey | None:
        """Return the key at which a walk ends; None if the list ends before."""
        statement = _walk_end(order, has_after=after is not None)
        given = {"skipped": self.walked_max - 1, **_KeyRange(order=order, after=after).bounds}
        rows = self.work.rows(statement, given)
        return None if not rows else ListKey(*rows[0])

    def _keys(self, walk: "_KeyRange", scope: ListScope, *, limit: int) -> list[ListKey]:
        rows = self._rows(
            _matches(timeless(scope.filter), walk.shape), scope, limit=limit, **walk.bounds
        )
        return [ListKey(*row) for row in rows]

    def _rows(
        self,
        statement: sa.SelectBase,
        scope: ListScope,
        **more: Any,  # noqa: ANN401 parameters
    ) -> list[tuple[Any, ...]]:
        return self.work.rows(statement, given_list(scope, self.work.tenant) | more)


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeyRange:
    """The part of a list that a statement reads: after a key, and up to another."""

    order: ListOrder
    after: ListKey | None = None
    end: ListKey | None = None
    is_sorted: bool = False
    """Whether the matching memories are sorted, instead of walking all in order."""

    @property
    def bounds(self) -> dict[str, int]:
        """The parameters of its keys."""
        given: dict[str, int] = {}
        for name, key in (("after", self.after), ("end", self.end)):
            if key is not None:
                given[f"{name}_id"] = key.id
                if self.order.is_by_occurrence:
                    given[f"{name}_at"] = key.at_ms
        return given

    @property
    def shape(self) -> "_KeyRange":
        """The same with other keys, for which the same statement is built."""
        any_key = ListKey(0, 0)
        return replace(self, after=self.after and any_key, end=self.end and any_key)


@lru_cache
def _walk_end(order: ListOrder, *, has_after: bool) -> sa.SelectBase:
    """Select the key at which a walk ends."""
    place = _place(order, is_indexed=True)
    after = [_on_side(place, "after", is_below=order.is_descending)] if has_after else []
    return (
        sa.select(*_key(place))
        .where(memories.c.tenant_id == TENANT, *after)
        .order_by(*_ordered(place, order))
        # It bounds the walk; where a page begins is found by its key.
        .offset(sa.bindparam("skipped", type_=sa.BigInteger()))
        .limit(1)
    )


@lru_cache(_BUILT_MAX)
def _matches(criteria: ListFilter, walk: _KeyRange) -> sa.SelectBase:
    """Select the keys of a list in a part of it."""
    order = walk.order
    place = _place(order, is_indexed=not walk.is_sorted)
    below = order.is_descending
    after = [_on_side(place, "after", is_below=below)] if walk.after else []
    end = [_on_side(place, "end", is_below=not below, is_inclusive=True)] if walk.end else []
    return (
        sa.select(*_key(place))
        .where(listed(criteria), *after, *end)
        .order_by(*_ordered(place, order))
        .limit(sa.bindparam("limit"))
    )


def _key(place: Sequence[sa.ColumnElement[int]]) -> Sequence[sa.ColumnElement[int]]:
    return [*([_literal(0)] if len(place) == 1 else []), *place]


def _place(order: ListOrder, *, is_indexed: bool) -> list[sa.ColumnElement[int]]:
    """Return the columns of the key: as they are, or so that no index is used."""
    row = memories.c
    columns = [row.occurred_at, row.id] if order.is_by_occurrence else [row.id]
    if is_indexed:
        return [sa.type_coerce(column, sa.BigInteger()) for column in columns]
    return [unindexed(column) for column in columns]


def _ordered(place: Sequence[sa.ColumnElement[int]], order: ListOrder) -> Sequence[Any]:
    return [one.desc() for one in place] if order.is_descending else place


def _on_side(
    place: Sequence[sa.ColumnElement[int]], name: str, *, is_below: bool, is_inclusive: bool = False
) -> sa.ColumnElement[bool]:
    """Return which rows are below, or above, the key with a name."""
    beyond, up_to = (lt, le) if is_below else (gt, ge)
    *at, id_ = place
    last_id = sa.bindparam(f"{name}_id", type_=sa.BigInteger())
    is_beyond = (up_to if is_inclusive else beyond)(id_, last_id)
    if not at:
        return is_beyond
    time, bound = at[0], sa.bindparam(f"{name}_at", type_=sa.BigInteger())
    # The first condition lets an index find the key.
    return sa.and_(up_to(time, bound), sa.or_(beyond(time, bound), is_beyond))


@lru_cache(_BUILT_MAX)
def _groups(criteria: ListFilter) -> sa.SelectBase:
    """Group memories by the columns of an index, in its order, so that nothing is sorted.

    Each group has the days of its memories in one text, those of memories past their expiry in
    another. Grouped by day, SQLite would sort all of them, which takes as long as all the rest.
    """
    row = memories.c
    alike = (row.project, row.kind, row.state, row.label, row.agent)
    # Literals, because Postgres takes two parameters for two expressions.
    millis = sa.type_coerce(row.occurred_at, sa.BigInteger()) + _literal(_EPOCH_ORDINAL * _DAY_MS)
    day = sa.cast(millis // _literal(_DAY_MS), sa.Text())
    is_over = row.expires_at <= sa.bindparam("now", type_=row.expires_at.type)
    not_over, over = sa.case((is_over, sa.null()), else_=day), sa.case((is_over, day))
    return (
        sa.select(
            *alike, *(sa.func.aggregate_strings(one, DAY_SEPARATOR) for one in (not_over, over))
        )
        .where(listed(criteria))
        .group_by(*alike)
    )


_ALL_TAGS: Final = (
    sa.select(entities.c.name, sa.func.count())
    .where(entities.c.tenant_id == TENANT, is_tag())
    .group_by(entities.c.name)
)


@lru_cache(_BUILT_MAX)
def _tags(criteria: ListFilter, *, of_others: bool = False) -> sa.SelectBase:
    """Count the tags of the matching memories, or of all others."""
    is_counted = sa.and_(listed(criteria), shows_tags())
    chosen = sa.and_(in_tenant(), is_counted.is_not(sa.true())) if of_others else is_counted
    return _ALL_TAGS.where(entities.c.memory_id.in_(sa.select(memories.c.id).where(chosen)))


def _matches_most(criteria: ListFilter) -> bool:
    """Return whether a filter leaves out few memories of an ordinary store."""
    has_current = criteria.listed_states >= CURRENT_STATES
    return has_current and replace(criteria, states=()) == ListFilter()


def _literal(number: int) -> sa.ColumnElement[int]:
    return sa.literal_column(str(number), sa.BigInteger())
