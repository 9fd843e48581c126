"""The shelf of links between memories."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Float,
    Select,
    String,
    and_,
    bindparam,
    delete,
    literal_column,
    select,
    union,
    update,
)

from commonbrain.model.links import Link, LinkType, strengthened
from commonbrain.storage.interface import Annotation
from commonbrain.storage.schema.memories import annotations, links
from commonbrain.storage.sql.bulk import LISTED, id_list_param
from commonbrain.storage.sql.context import SqlContext

_FIELDS: Final = tuple(field.name for field in fields(Link))
_ROW: Final = select(*(links.c[name] for name in _FIELDS))
_ALL: Final = 2**63 - 1
"""The limit that is none, in both engines."""


def _touching(*, is_typed: bool) -> Select[Any] | CompoundSelect[Any]:
    """Select links by their ends, a part for each: for "from or to" SQLite reads them all."""
    of_type = [links.c.type.in_(id_list_param("types", String))] if is_typed else []
    parts = (
        _ROW.where(
            links.c.tenant_id == bindparam("tenant"),
            end.in_(LISTED),
            *of_type,
        )
        for end in (links.c.from_id, links.c.to_id)
    )
    rest = (literal_column(name, String) for name in ("from_id", "to_id", "type"))
    strongest = literal_column("strength", Float).desc()
    return union(*parts).order_by(strongest, *rest).limit(bindparam("limit"))


_TOUCHING: Final = {is_typed: _touching(is_typed=is_typed) for is_typed in (False, True)}


@dataclass(frozen=True, slots=True)
class LinkRepository:
    """The shelf of links between memories."""

    work: SqlContext

    def put(self, link: Link) -> Link:
        """Make a link, or strengthen the one that is there; give it as it is now."""
        known = self._get(link.from_id, link.to_id, type_=link.type)
        now = strengthened(known, link) if known else link
        self.replace(now)
        return now

    def replace(self, link: Link) -> None:
        """Set a link to exactly this, whether it was there or not."""
        row = asdict(link)
        if self.work.add(links, {"tenant_id": self.work.tenant, **row}):
            return
        here = self._key(link.from_id, link.to_id, type_=link.type)
        self.work.connection.execute(update(links).where(here).values(**row))

    def drop(self, from_id: int, to_id: int, *, type_: LinkType) -> Link | None:
        """Take a link away and give it back; None when there was none."""
        known = self._get(from_id, to_id, type_=type_)
        self.work.connection.execute(delete(links).where(self._key(from_id, to_id, type_=type_)))
        return known

    def touching(
        self, ids: Sequence[int], *, types: Sequence[LinkType] = (), limit: int | None = None
    ) -> list[Link]:
        """List the links from or to any of these memories, strongest first; no types means all."""
        if not ids:
            return []
        given = {"ids": list(ids), "limit": _ALL if limit is None else limit}
        of_types = {"types": list(types)} if types else {}
        rows = self.work.rows(_TOUCHING[bool(types)], given | of_types)
        return [Link(**dict(zip(_FIELDS, row, strict=True))) for row in rows]

    def _get(self, from_id: int, to_id: int, *, type_: LinkType) -> Link | None:
        statement = _ROW.where(self._key(from_id, to_id, type_=type_))
        row = self.work.connection.execute(statement).mappings().first()
        return Link(**row) if row else None

    def _key(self, from_id: int, to_id: int, *, type_: LinkType) -> ColumnElement[bool]:
        return and_(
            links.c.tenant_id == self.work.tenant,
            links.c.from_id == from_id,
            links.c.to_id == to_id,
            links.c.type == type_,
        )


_ANNOTATIONS_FIELDS: Final = tuple(field.name for field in fields(Annotation))
_OF: Final = (
    select(*(annotations.c[name] for name in _ANNOTATIONS_FIELDS))
    .where(
        annotations.c.tenant_id == bindparam("tenant"),
        annotations.c.memory_id.in_(LISTED),
    )
    .order_by(annotations.c.id)
)


@dataclass(frozen=True, slots=True)
class AnnotationRepository:
    """The shelf of what was noted beside memories."""

    work: SqlContext

    def add(self, annotation: Annotation) -> int:
        """Append one; give its id."""
        return self.work.append(annotations, asdict(annotation), at=annotation.at)

    def merge(self, annotation: Annotation) -> bool:
        """Take in an annotation of another store under its own id; False when it is known."""
        return self.work.add(annotations, {"tenant_id": self.work.tenant, **asdict(annotation)})

    def drop(self, annotation_id: int) -> None:
        """Take one away."""
        here = annotations.c.tenant_id == self.work.tenant, annotations.c.id == annotation_id
        self.work.connection.execute(delete(annotations).where(*here))

    def of(self, ids: Sequence[int]) -> dict[int, list[Annotation]]:
        """Give the annotations of memories, oldest first; memories without any are absent."""
        if not ids:
            return {}
        found: defaultdict[int, list[Annotation]] = defaultdict(list)
        for row in self.work.rows(_OF, {"ids": list(ids)}):
            one = Annotation(**dict(zip(_ANNOTATIONS_FIELDS, row, strict=True)))
            found[one.memory_id].append(one)
        return dict(found)
