"""The shelf of links between memories."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from sqlalchemy import ColumnElement, and_, bindparam, delete, or_, select, update

from commonbrain.adapters.sql.tables import links
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.links import Link, LinkType, strengthened

_ROW: Final = select(*(links.c[field.name] for field in fields(Link)))
_ENDS: Final = and_(
    links.c.tenant_id == bindparam("tenant"),
    or_(
        links.c.from_id.in_(bindparam("ids", expanding=True)),
        links.c.to_id.in_(bindparam("ids", expanding=True)),
    ),
)
_TOUCHING: Final = _ROW.where(_ENDS).order_by(
    links.c.strength.desc(), links.c.from_id, links.c.to_id
)


@dataclass(frozen=True, slots=True)
class LinkShelf:
    """Links of one tenant in one transaction."""

    work: Work

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
        """List the links from or to any of these memories, strongest first."""
        if not ids:
            return []
        statement = _TOUCHING.where(links.c.type.in_(types)) if types else _TOUCHING
        if limit is not None:
            statement = statement.limit(limit)
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        rows = self.work.connection.execute(statement, given).mappings()
        return [Link(**row) for row in rows]

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
