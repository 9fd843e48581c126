"""Links between memories, walks over them, and annotations."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import sqlalchemy as sa

from commonbrain.model.kinds import Kind
from commonbrain.model.links import Link, LinkType, strengthened
from commonbrain.model.memory import AWAITING_STATES, State
from commonbrain.model.scope import Authority, Scope, Trust
from commonbrain.model.support import SUPPORTS, Support, SupportStatus
from commonbrain.model.values import dataclass, fields
from commonbrain.storage.interface import Annotation, Direction, GraphReader, ReachedMemory, Walk
from commonbrain.storage.schema.activity import receipts
from commonbrain.storage.schema.memories import annotations, links, memories
from commonbrain.storage.sql.context import OptionalRows, Repository, SqlContext
from commonbrain.storage.sql.filters import believed_from, open_to
from commonbrain.storage.sql.statements import LISTED, id_list_param, in_ids

_FIELDS: Final = tuple(field.name for field in fields(Link))
_ROW: Final = sa.select(*(links.c[name] for name in _FIELDS))
_GET: Final = _ROW.where(
    links.c.tenant_id == sa.bindparam("tenant"),
    links.c.from_id == sa.bindparam("start"),
    links.c.to_id == sa.bindparam("end"),
    links.c.type == sa.bindparam("type"),
)
_ALL: Final = 2**63 - 1
"""The limit that is none, in both engines."""


def _touching(*, is_typed: bool) -> sa.Select[Any] | sa.CompoundSelect[Any]:
    """Select links by their ends, a part for each: for "from or to" SQLite reads them all."""
    of_type = [links.c.type.in_(id_list_param("types", sa.String))] if is_typed else []
    parts = (
        _ROW.where(
            links.c.tenant_id == sa.bindparam("tenant"),
            end.in_(LISTED),
            *of_type,
        )
        for end in (links.c.from_id, links.c.to_id)
    )
    rest = (sa.literal_column(name, sa.String) for name in ("from_id", "to_id", "type"))
    strongest = sa.literal_column("strength", sa.Float).desc()
    return sa.union(*parts).order_by(strongest, *rest).limit(sa.bindparam("limit"))


_TOUCHING: Final = {is_typed: _touching(is_typed=is_typed) for is_typed in (False, True)}


class LinkRepository(Repository):
    """The links between memories."""

    def put(self, link: Link) -> Link:
        """Create a link or strengthen the existing one; return it as it is now."""
        known = self._get(link.from_id, link.to_id, type_=link.type)
        now = strengthened(known, link) if known else link
        self.replace(now)
        return now

    def replace(self, link: Link) -> None:
        """Set a link to exactly this value, whether it existed or not."""
        row = self.work.row_of(link)
        if self.work.add(links, row):
            return
        # Citus refuses to set the column that it distributes by.
        del row["tenant_id"]
        here = self._key(link.from_id, link.to_id, type_=link.type)
        self.work.connection.execute(sa.update(links).where(here).values(**row))

    def drop(self, from_id: int, to_id: int, *, type_: LinkType) -> Link | None:
        """Delete a link and return it; None if there was none."""
        known = self._get(from_id, to_id, type_=type_)
        self.work.connection.execute(sa.delete(links).where(self._key(from_id, to_id, type_=type_)))
        return known

    def touching(
        self, ids: Sequence[int], *, types: Sequence[LinkType] = (), limit: int | None = None
    ) -> list[Link]:
        """List the links from or to any of these memories, strongest first; no types means all."""
        if not ids:
            return []
        given = {"ids": list(ids), "limit": _ALL if limit is None else limit}
        of_types = {"types": list(types)} if types else {}
        rows = self.work.rows(_TOUCHING[bool(types)], given | of_types, of=OptionalRows.LINKS)
        return [Link(**dict(zip(_FIELDS, row, strict=True))) for row in rows]

    def _get(self, from_id: int, to_id: int, *, type_: LinkType) -> Link | None:
        rows = self.work.rows(_GET, {"start": from_id, "end": to_id, "type": type_})
        return Link(**dict(zip(_FIELDS, rows[0], strict=True))) if rows else None

    def _key(self, from_id: int, to_id: int, *, type_: LinkType) -> sa.ColumnElement[bool]:
        return self.work.here(links, from_id=from_id, to_id=to_id, type=type_)


_ANNOTATIONS_FIELDS: Final = tuple(field.name for field in fields(Annotation))
# Sorted here: for an order by id, SQLite would read all annotations of the tenant by their key.
_OF: Final = sa.select(*(annotations.c[name] for name in _ANNOTATIONS_FIELDS)).where(
    in_ids(annotations.c.memory_id)
)


class AnnotationRepository(Repository):
    """Annotations of memories."""

    def add(self, annotation: Annotation) -> int:
        """Insert an annotation; return its id."""
        return self.work.append(annotations, self.work.row_of(annotation), at=annotation.at)

    def merge(self, annotation: Annotation) -> bool:
        """Add an annotation of another store under its own id; return False if it is known."""
        return self.work.add(annotations, self.work.row_of(annotation))

    def drop(self, annotation_id: int) -> None:
        """Delete an annotation."""
        here = self.work.here(annotations, id=annotation_id)
        self.work.connection.execute(sa.delete(annotations).where(here))

    def of(self, ids: Sequence[int]) -> dict[int, list[Annotation]]:
        """Map memories to their annotations, oldest first; memories without any are absent."""
        if not ids:
            return {}
        by_memory: defaultdict[int, list[Annotation]] = defaultdict(list)
        rows = self.work.rows(_OF, {"ids": list(ids)}, of=OptionalRows.ANNOTATIONS)
        for row in sorted(rows, key=itemgetter(_ANNOTATIONS_FIELDS.index("id"))):
            one = Annotation(**dict(zip(_ANNOTATIONS_FIELDS, row, strict=True)))
            by_memory[one.memory_id].append(one)
        return dict(by_memory)


_SUPPORTS: Final = sa.select(links.c.from_id, links.c.to_id, links.c.type).where(
    in_ids(links.c.from_id),
    links.c.type.in_(SUPPORTS),
)
# As they are in the table: a thousand rows are read faster than their words are by the columns.
_STANDINGS: Final = sa.select(
    memories.c.id,
    sa.type_coerce(memories.c.kind, sa.String),
    sa.type_coerce(memories.c.state, sa.String),
    sa.type_coerce(memories.c.scope, sa.String),
    memories.c.agent,
    sa.type_coerce(memories.c.trust, sa.String),
    sa.type_coerce(memories.c.authority, sa.String),
    memories.c.expires_at,
    memories.c.project,
    memories.c.semantic_hash == "",
).where(in_ids(memories.c.id))
_KINDS: Final = {str(one): one for one in Kind}
_STATES: Final = {str(one): one for one in State}
_SCOPES: Final = {str(one): one for one in Scope}
_TRUSTS: Final = {str(one): one for one in Trust}
_AUTHORITIES: Final = {str(one): one for one in Authority}
_PRIVATE: Final = str(Scope.PRIVATE)
_AMONG: Final = sa.select(*(links.c[field.name] for field in fields(Link))).where(
    in_ids(links.c.from_id),
    links.c.to_id.in_(id_list_param("ends")),
    links.c.type.in_(sa.bindparam("types", expanding=True)),
)
_READERS: Final = (
    sa.select(receipts.c.message_id, receipts.c.agent)
    .where(in_ids(receipts.c.message_id))
    .order_by(receipts.c.message_id, receipts.c.agent)
)
_Steps = Mapping[int, Sequence[tuple[int, LinkType]]]


@dataclass(frozen=True, slots=True)
class GraphRepository:
    """Walks over the links of one tenant; a walk visits a memory once and never a start."""

    work: SqlContext
    reader: GraphReader | None = None
    """Who walks; None walks over everything."""

    def seen_by(self, reader: GraphReader) -> "GraphRepository":
        """Return the graph without the memories that are hidden from a reader."""
        return GraphRepository(self.work, reader)

    def walk(
        self,
        start: Sequence[int],
        way: Direction,
        *,
        types: Sequence[LinkType],
        limit: int,
        depth_max: int | None = None,
        stops: Sequence[int] = (),
    ) -> Walk:
        """Follow links of some types breadth first, by shortest paths; ties go to the lower id.

        Visits at most `limit` memories of any state, up to `depth_max` steps away. It visits
        `stops` but does not go past them.
        """
        if not start or limit < 1:
            return Walk(reached=())
        given = {
            "tenant": self.work.tenant,
            "ids": list(start),
            "types": list(types),
            "stops": list(stops),
            "limit": limit + len(start),
        }
        steps = _steps(way, is_one=depth_max == 1, reader=self.reader)
        rows = self.work.connection.execute(steps, given).all()
        onward: defaultdict[int, list[tuple[int, LinkType]]] = defaultdict(list)
        for here, there, type_ in rows:
            onward[here].append((there, type_))
        return _nearest(start, onward, limit=limit, depth_max=depth_max)

    def onward(self, ids: Sequence[int], way: Direction, *, types: Sequence[LinkType]) -> set[int]:
        """Select the memories from which a walk would continue."""
        if not ids:
            return set()
        given = {"tenant": self.work.tenant, "ids": list(ids), "types": list(types)}
        statement = _onward(way, reader=self.reader)
        return set(self.work.connection.execute(statement, given).scalars())

    def among(self, ids: Sequence[int], *, types: Sequence[LinkType]) -> list[Link]:
        """List the links of some types between two of these memories, in no order."""
        if not ids:
            return []
        given = {
            "tenant": self.work.tenant,
            "ids": list(ids),
            "ends": list(ids),
            "types": list(types),
        }
        rows = self.work.connection.execute(_AMONG, given).mappings()
        return [Link(**row) for row in rows]

    def supports(self, ids: Sequence[int]) -> list[Support]:
        """List the links by which these memories depend on others."""
        return [Support(*row) for row in self._rows(_SUPPORTS, ids)]

    def support_statuses(self, ids: Sequence[int]) -> dict[int, SupportStatus]:
        """Map memories to what decides whether they support others; unknown ids are absent."""
        rows = self._rows(_STANDINGS, ids)
        shared: defaultdict[int, tuple[str, ...]] = defaultdict(tuple)
        for id_, agent in self._rows(_READERS, [row[0] for row in rows if row[3] == _PRIVATE]):
            shared[id_] += (agent,)
        return {
            row[0]: SupportStatus(
                id=row[0],
                kind=_KINDS[row[1]],
                state=_STATES[row[2]],
                scope=_SCOPES[row[3]],
                agent=row[4],
                trust=_TRUSTS[row[5]],
                authority=_AUTHORITIES[row[6]],
                expires_at=row[7],
                project=row[8],
                is_erased=row[9],
                audience=shared.get(row[0], ()),
            )
            for row in rows
        }

    def _rows(self, statement: sa.Executable, ids: Sequence[int]) -> Sequence[Sequence[Any]]:
        if not ids:
            return ()
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        return self.work.connection.execute(statement, given).all()


@lru_cache
def _steps(way: Direction, *, is_one: bool, reader: GraphReader | None) -> sa.Executable:
    """Select every step that leads from what a walk comes to, the start included."""
    here, there = _ends(way)
    begin = beginning()

    def leads_from(where: sa.CTE | sa.Subquery) -> sa.ColumnElement[bool]:
        is_open = where.c.id.not_in(id_list_param("stops"))
        return sa.and_(of_tenant(where), here == where.c.id, _leads_on(way, reader=reader), is_open)

    if is_one:
        near = begin.subquery("near")
    else:
        # A set of bare ids: no circle turns twice, and depths, which would part equal ids, come
        # later.
        reach = begin.cte("reach", recursive=True)
        reach = reach.union(sa.select(links.c.tenant_id, there).where(leads_from(reach)))
        near = (
            sa.select(reach.c.tenant_id, reach.c.id).limit(sa.bindparam("limit")).subquery("near")
        )
    return sa.select(here, there, links.c.type).where(leads_from(near))


@lru_cache
def _onward(way: Direction, *, reader: GraphReader | None) -> sa.Select[int]:
    """Select those of some memories from which a step leads on."""
    here, _ = _ends(way)
    near = beginning().subquery("near")
    goes_on = sa.select(1).where(of_tenant(near), here == near.c.id, _leads_on(way, reader=reader))
    return sa.select(near.c.id).where(goes_on.correlate(near).exists())


def _ends(way: Direction) -> tuple[sa.ColumnElement[int], sa.ColumnElement[int]]:
    """Give the end of a link that a step starts from, and the one that it comes to."""
    start, end = links.c.from_id, links.c.to_id
    return (start, end) if way is Direction.ALONG else (end, start)


def _leads_on(way: Direction, *, reader: GraphReader | None) -> sa.ColumnElement[bool]:
    """Say that a link is of the types of a walk, and comes to what its reader may see."""
    is_of_type = links.c.type.in_(sa.bindparam("types", expanding=True))
    if reader is None:
        return is_of_type
    row = memories.c
    is_seen = sa.select(1).where(
        row.tenant_id == links.c.tenant_id,
        row.id == _ends(way)[1],
        open_to(reader.caller.agent),
        row.state.not_in(sorted(AWAITING_STATES)),
        row.trust.in_(believed_from(reader.trust_min)),
        sa.or_(row.superseded_by.is_(None), ~_has_heir(way)),
    )
    return sa.and_(is_of_type, is_seen.correlate(links).exists())


def _has_heir(way: Direction) -> sa.ColumnElement[bool]:
    """Say that the successor of what a link comes to has the same link: one of them is enough."""
    heir = links.alias("heir")
    own, same = _ends(way), (heir.c.from_id, heir.c.to_id)
    here, there = same if way is Direction.ALONG else same[::-1]
    has_it = sa.select(1).where(
        heir.c.tenant_id == links.c.tenant_id,
        heir.c.type == links.c.type,
        here == own[0],
        there == memories.c.superseded_by,
    )
    return has_it.correlate(links, memories).exists()


def beginning() -> sa.Select[str, int]:
    """Select where a walk begins: the memories `ids` of a tenant."""
    tenant: sa.BindParameter[Any] = sa.bindparam("tenant")
    return sa.select(memories.c.tenant_id, memories.c.id).where(
        memories.c.tenant_id == tenant, memories.c.id.in_(LISTED)
    )


def of_tenant(where: sa.CTE | sa.Subquery) -> sa.ColumnElement[bool]:
    """Say that links are of the tenant of a walk.

    Taken from the walk and not from a parameter, so that no planner begins with all the links of a
    tenant and looks each up in the walk.
    """
    return links.c.tenant_id == where.c.tenant_id


def _nearest(start: Sequence[int], onward: _Steps, *, limit: int, depth_max: int | None) -> Walk:
    """Lay the shortest path to each, level by level, the lesser ids first."""
    seen, level = set(start), sorted(set(start))
    reached: list[ReachedMemory] = []
    depth = 0
    while level and (depth_max is None or depth < depth_max):
        depth += 1
        fresh: dict[int, ReachedMemory] = {}
        for here in level:
            for there, type_ in onward.get(here, ()):
                if there in seen:
                    continue
                known = fresh.get(there)
                # Two links may join the same memories; the lower type wins, whatever their order.
                if known is None or (known.via_id == here and type_ < known.type):
                    fresh[there] = ReachedMemory(there, depth, here, type_)
        level = sorted(fresh)
        seen |= fresh.keys()
        reached.extend(fresh[id_] for id_ in level)
        if len(reached) > limit:
            return Walk(reached=tuple(reached[:limit]), is_cut=True)
    return Walk(reached=tuple(reached))
