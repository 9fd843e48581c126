"""The shelf of open conflicts."""

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Integer, Select, bindparam, or_, select

from commonbrain.model.links import Link, LinkType
from commonbrain.model.query import Filter
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.schema.memories import links, memories
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sql.filters import TENANT, given, within

_BUILT_MAX: Final = 64
_ONE: Final = memories.alias("one")
_OTHER: Final = memories.alias("other")
_REVERSE: Final = links.alias("reverse")


@dataclass(frozen=True, slots=True)
class ConflictRepository:
    """Links of conflict between two memories that a look both allows."""

    work: SqlContext

    def unsettled(self, look: QueryScope, *, limit: int, skip: int = 0) -> list[Link]:
        """List them, the latest first; not those whose sides hold in projects of their own.

        Of two that are linked in both directions the link of the lesser id is given.
        """
        told = given(look, self.work.tenant) | {"limit": limit, "skip": skip}
        rows = self.work.connection.execute(_unsettled(look.filter), told).mappings()
        return [Link(**row) for row in rows]


@lru_cache(_BUILT_MAX)
def _unsettled(wanted: Filter) -> Select[*tuple[Any, ...]]:
    """Select the links of conflict; there is no index by type, so that all links are gone over.

    What decides stands in the index by `to_id`, and no row but a conflict's is read. Of two that
    are linked in both directions one row is given.
    """

    def is_seen(end: ColumnElement[int]) -> ColumnElement[bool]:
        row = select(1).select_from(memories).correlate(links)
        return row.where(memories.c.id == end, within(wanted)).exists()

    joined = links
    for side, end in ((_ONE, links.c.from_id), (_OTHER, links.c.to_id)):
        joined = joined.join(side, (side.c.tenant_id == links.c.tenant_id) & (side.c.id == end))
    is_repeated = (
        select(1)
        .select_from(_REVERSE)
        .correlate(links)
        .where(
            _REVERSE.c.tenant_id == TENANT,
            _REVERSE.c.type == LinkType.CONFLICTS_WITH,
            _REVERSE.c.from_id == links.c.to_id,
            _REVERSE.c.to_id == links.c.from_id,
            _REVERSE.c.from_id < links.c.from_id,
        )
        .exists()
    )
    here, there = _ONE.c.project, _OTHER.c.project
    return (
        select(*(links.c[field.name] for field in fields(Link)))
        .select_from(joined)
        .where(
            links.c.tenant_id == TENANT,
            links.c.type == LinkType.CONFLICTS_WITH,
            or_(here.is_(None), there.is_(None), here == there),
            is_seen(links.c.from_id),
            is_seen(links.c.to_id),
            ~is_repeated,
        )
        .order_by(links.c.created_at.desc(), links.c.from_id.desc(), links.c.to_id.desc())
        .limit(bindparam("limit", type_=Integer()))
        .offset(bindparam("skip", type_=Integer()))
    )
