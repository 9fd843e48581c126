"""The shelf of links between memories."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
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

from commonbrain.adapters.sql.tables import links
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.links import Link, LinkType, strengthened

_ROW: Final = select(*(links.c[field.name] for field in fields(Link)))
_ALL: Final = -1
"""The limit that is none."""


def _of(end: ColumnElement[int]) -> Select[Any]:
    return _ROW.where(
        links.c.tenant_id == bindparam("tenant"),
        end.in_(bindparam("ids", expanding=True)),
        links.c.type.in_(bindparam("types", expanding=True)),
    )


# A part for each end, since for "from or to" SQLite reads every link of the tenant.
_TOUCHING: Final = (
    union(_of(links.c.from_id), _of(links.c.to_id))
    .order_by(
        literal_column("strength", Float).desc(),
        *(literal_column(name, String) for name in ("from_id", "to_id", "type")),
    )
    .limit(bindparam("limit"))
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
        given = {
            "tenant": self.work.tenant,
            "ids": list(ids),
            "types": list(types or LinkType),
            "limit": _ALL if limit is None else limit,
        }
        rows = self.work.connection.execute(_TOUCHING, given).mappings()
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
