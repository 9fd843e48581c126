"""Reviews of memories that lost support, and open conflicts between memories."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Integer,
    Select,
    and_,
    bindparam,
    delete,
    insert,
    or_,
    select,
    union,
)

from commonbrain.model import ids
from commonbrain.model.links import DISAGREEMENTS, Link, LinkType
from commonbrain.model.query import Filter
from commonbrain.model.support import SUPPORTS, InvalidationReason, Review
from commonbrain.model.values import dataclass, field, fields
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.repositories.links import beginning, of_tenant
from commonbrain.storage.schema.memories import falls, links, memories
from commonbrain.storage.schema.memories import reviews as table
from commonbrain.storage.sql.context import OptionalRows, Repository, SqlContext
from commonbrain.storage.sql.filters import TENANT, given, within
from commonbrain.storage.sql.statements import LISTED, exists_in, in_ids

_TENANT: Final[BindParameter[Any]] = bindparam("tenant")
_FIELDS: Final = tuple(one.name for one in fields(Review))
_ROW: Final = select(*(table.c[name] for name in _FIELDS)).where(table.c.tenant_id == _TENANT)
_OF: Final = _ROW.where(table.c.memory_id.in_(LISTED)).order_by(table.c.memory_id, table.c.cause_id)
_UNSUPPORTED: Final = _OF.where(table.c.fall == InvalidationReason.UNSUPPORTED)
_VOUCHED: Final = table.alias("vouched")
_IS_VOUCHED: Final = exists_in(
    _VOUCHED,
    _VOUCHED.c.memory_id == table.c.memory_id,
    _VOUCHED.c.settled_at.is_not(None),
    of=table,
)
_DOUBTFUL: Final = select(table.c.memory_id).where(
    in_ids(table.c.memory_id),
    table.c.fall != InvalidationReason.UNSUPPORTED,
    table.c.settled_at.is_(None),
    ~_IS_VOUCHED,
)
_BY: Final = _ROW.where(table.c.cause_id == bindparam("cause")).order_by(
    table.c.depth, table.c.memory_id
)
_CONFLICTS: Final = links.c.tenant_id == _TENANT, links.c.type.in_(DISAGREEMENTS)
_DISPUTED: Final = union(
    select(links.c.from_id).where(*_CONFLICTS, links.c.to_id.in_(LISTED)),
    select(links.c.to_id).where(*_CONFLICTS, links.c.from_id.in_(LISTED)),
)
_CONCERNED: Final = (
    select(memories.c.id.label("id"))
    .where(in_ids(memories.c.id))
    .union(
        select(links.c.from_id).where(*_CONFLICTS, links.c.to_id.in_(LISTED)),
        select(links.c.to_id).where(*_CONFLICTS, links.c.from_id.in_(LISTED)),
        select(table.c.cause_id).where(in_ids(table.c.memory_id)),
    )
    .subquery("concerned")
)
_IS_RESTED_ON: Final = (
    select(1)
    .where(
        links.c.tenant_id == _TENANT,
        links.c.to_id == _CONCERNED.c.id,
        links.c.type.in_(SUPPORTS),
    )
    .exists()
)
_IS_REVIEWED: Final = (
    select(1).where(table.c.tenant_id == _TENANT, table.c.memory_id == _CONCERNED.c.id).exists()
)
_IS_CAUSE: Final = (
    select(1).where(table.c.tenant_id == _TENANT, table.c.cause_id == _CONCERNED.c.id).exists()
)
_AFFECTED_BY_CHANGE: Final = select(_CONCERNED.c.id).where(
    or_(_IS_RESTED_ON, _IS_REVIEWED, _IS_CAUSE)
)
_UNLIST: Final = delete(falls).where(in_ids(falls.c.memory_id))
_LIST: Final = insert(falls)
_NOW: Final = bindparam("now", type_=falls.c.due_at.type)
_DUE: Final = (
    select(falls.c.memory_id)
    .where(falls.c.tenant_id == _TENANT, falls.c.due_at <= _NOW)
    .order_by(falls.c.due_at, falls.c.memory_id)
    .limit(bindparam("limit"))
)
_KEY: Final = ("memory_id", "cause_id")
_VALUES: Final = attrgetter(*_FIELDS)


def _dependants_under_review() -> Any:  # noqa: ANN401 a select of ids
    """Select open reviews of memories that depend, directly or not, on some memories."""
    reach = beginning().cte("reach", recursive=True)
    resting = and_(of_tenant(reach), links.c.to_id == reach.c.id, links.c.type.in_(SUPPORTS))
    is_open = exists_in(
        table, table.c.memory_id == links.c.from_id, table.c.settled_at.is_(None), of=links
    )
    onward = select(links.c.tenant_id, links.c.from_id).where(resting, is_open)
    return select(reach.union(onward).c.id)


_DEPENDANTS_UNDER_REVIEW: Final = _dependants_under_review()


@dataclass(frozen=True, slots=True)
class ReviewRepository:
    """Reviews, and the list of memories whose invalidation has yet to be propagated."""

    work: SqlContext
    own: set[int] = field(default_factory=set[int])
    """What this transaction has listed."""

    def touch(self, ids: Sequence[int], *, at: datetime) -> None:
        """Schedule what a change of these memories or of their links may affect, for a time.

        That is: those that others depend on or that need review, the memories in conflict with
        them, and the causes of their reviews.
        """
        tenant = self.work.tenant
        concerned = [id_ for (id_,) in self.work.rows(_AFFECTED_BY_CHANGE, {"ids": list(ids)})]
        if concerned:
            self.work.change(_UNLIST, {"tenant": tenant, "ids": concerned})
            rows = [{"tenant_id": tenant, "memory_id": id_, "due_at": at} for id_ in concerned]
            self.work.change_by_each(_LIST, rows)
            self.own.update(concerned)

    def listed(self) -> list[int]:
        """Return the memories that this transaction scheduled and did not remove, by id."""
        return sorted(self.own)

    def disputed(self, ids: Sequence[int]) -> list[int]:
        """List the memories in conflict with any of these, by id."""
        return self._ids(_DISPUTED, ids)

    def due(self, now: datetime, *, limit: int) -> list[int]:
        """List the memories that are due for propagation, longest due first."""
        given = {"now": now, "limit": limit}
        rows = self.work.rows(_DUE, given, of=OptionalRows.EXPIRIES)
        return [id_ for (id_,) in rows]

    def postpone(self, id_: int, until: datetime | None) -> None:
        """Remove a memory from the list, or schedule it for later."""
        tenant = self.work.tenant
        self.work.change(_UNLIST, {"tenant": tenant, "ids": [id_]})
        self.own.discard(id_)
        if until is not None:
            self.work.add(falls, {"tenant_id": tenant, "memory_id": id_, "due_at": until})

    def of(self, ids: Sequence[int]) -> dict[int, list[Review]]:
        """Map memories to their reviews, settled ones too, by cause; others are absent."""
        by_memory: defaultdict[int, list[Review]] = defaultdict(list)
        for one in self._read(_OF, {"ids": list(ids)}) if ids else ():
            by_memory[one.memory_id].append(one)
        return dict(by_memory)

    def unconfirmed(self, ids: Sequence[int]) -> list[int]:
        """Select the memories with an open review that no agent has confirmed."""
        return self._ids(_DOUBTFUL, ids)

    def unsupported(self, ids: Sequence[int]) -> dict[int, Review]:
        """Map the memories that lost every support to the review that says so."""
        if not ids:
            return {}
        return {one.memory_id: one for one in self._read(_UNSUPPORTED, {"ids": list(ids)})}

    def by(self, cause_id: int) -> list[Review]:
        """List the reviews with a cause, settled ones too, nearest first."""
        return list(self._read(_BY, {"cause": cause_id}))

    def add(self, reviews: Sequence[Review]) -> None:
        """Insert reviews; existing ones stay."""
        if not reviews:
            return
        columns = zip(*map(_VALUES, reviews), strict=True)
        self.work.bulk_insert(table, shared={}, each=dict(zip(_FIELDS, columns, strict=True)))

    def put(self, reviews: Sequence[Review]) -> None:
        """Set reviews to exactly these values, whether they existed or not."""
        self.drop(reviews)
        self.add(reviews)

    def drop(self, reviews: Sequence[Review]) -> None:
        """Delete reviews."""
        keys = {name: [getattr(one, name) for one in reviews] for name in _KEY}
        self.work.bulk_delete(table, each=keys)

    def affected(self, ids: Sequence[int]) -> list[int]:
        """List these and all memories with an open review that depend on them, step by step."""
        return self._ids(_DEPENDANTS_UNDER_REVIEW, ids)

    def _ids(self, statement: Any, ids: Sequence[int]) -> list[int]:  # noqa: ANN401
        if not ids:
            return []
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        return sorted(set(self.work.connection.execute(statement, given).scalars().all()))

    def _read(self, statement: Any, given: dict[str, Any]) -> Iterator[Review]:  # noqa: ANN401
        rows = self.work.rows(statement, given, of=OptionalRows.REVIEWS)
        return (Review(**dict(zip(_FIELDS, row, strict=True))) for row in rows)


_BUILT_MAX: Final = 64
_AT: Final = bindparam("after_at", type_=links.c.created_at.type)
_FROM: Final = bindparam("after_from", type_=BigInteger())
_AFTER: Final = or_(
    links.c.created_at < _AT,
    and_(links.c.created_at == _AT, links.c.from_id < _FROM),
    and_(
        links.c.created_at == _AT,
        links.c.from_id == _FROM,
        links.c.to_id < bindparam("after_to", type_=BigInteger()),
    ),
)
_ONE: Final = memories.alias("one")
_OTHER: Final = memories.alias("other")
_REVERSE: Final = links.alias("reverse")
_LINK: Final = tuple(field.name for field in fields(Link))


class ConflictRepository(Repository):
    """Links of conflict between two memories that are both in scope."""

    def open(
        self,
        scope: QueryScope,
        *,
        limit: int,
        types: tuple[LinkType, ...] = (LinkType.CONFLICTS_WITH,),
        since: datetime | None = None,
        after: tuple[datetime, int, int] | None = None,
    ) -> list[Link]:
        """List links of disagreement, latest first; not those between two different projects.

        Of two memories linked in both directions, the link from the lower id is listed. With
        `since`, only links from memories recorded at that time or later are read. `after` is the
        time and the ends of the link after which to begin.
        """
        parameters = given(scope, self.work.tenant) | {"limit": limit}
        if since is not None:
            parameters["lowest"] = ids.make_id(since, 0)
        if after is not None:
            parameters |= dict(zip(("after_at", "after_from", "after_to"), after, strict=True))
        statement = _open_conflicts(
            scope.filter, types, is_recent=since is not None, is_continued=after is not None
        )
        rows = self.work.rows(statement, parameters, of=OptionalRows.LINKS)
        return [Link(**dict(zip(_LINK, row, strict=True))) for row in rows]


@lru_cache(_BUILT_MAX)
def _open_conflicts(
    filter_: Filter, types: tuple[LinkType, ...], *, is_recent: bool, is_continued: bool
) -> Select[*tuple[Any, ...]]:
    """Select the links of conflict; there is no index by type, so all links are scanned.

    Of the recent ones, only those from the latest ids are, by the primary key. The index by `to_id`
    holds what decides, so that only rows of conflicts are read. Of two memories linked in both
    directions one row is selected.
    """

    def is_seen(end: ColumnElement[int]) -> ColumnElement[bool]:
        row = select(1).select_from(memories).correlate(links)
        return row.where(memories.c.id == end, within(filter_)).exists()

    joined = links
    for side, end in ((_ONE, links.c.from_id), (_OTHER, links.c.to_id)):
        joined = joined.join(side, (side.c.tenant_id == links.c.tenant_id) & (side.c.id == end))
    is_repeated = (
        select(1)
        .select_from(_REVERSE)
        .correlate(links)
        .where(
            _REVERSE.c.tenant_id == TENANT,
            _REVERSE.c.type.in_(types),
            _REVERSE.c.from_id == links.c.to_id,
            _REVERSE.c.to_id == links.c.from_id,
            _REVERSE.c.from_id < links.c.from_id,
        )
        .exists()
    )
    here, there = _ONE.c.project, _OTHER.c.project
    return (
        select(*(links.c[name] for name in _LINK))
        .select_from(joined)
        .where(
            links.c.tenant_id == TENANT,
            links.c.type.in_(types),
            *([links.c.from_id >= bindparam("lowest", type_=BigInteger())] if is_recent else []),
            or_(here.is_(None), there.is_(None), here == there),
            is_seen(links.c.from_id),
            is_seen(links.c.to_id),
            ~is_repeated,
            *([_AFTER] if is_continued else []),
        )
        .order_by(links.c.created_at.desc(), links.c.from_id.desc(), links.c.to_id.desc())
        .limit(bindparam("limit", type_=Integer()))
    )
