"""Memories read whole: the projection, the detail of its kind and the names, put together."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from sqlalchemy import JSON, Column, ColumnElement, String, bindparam, or_, select, type_coerce

from commonbrain.adapters.sql.columns import Names, Told
from commonbrain.adapters.sql.many import LISTED
from commonbrain.adapters.sql.tables import DETAILS, EntityType, entities, memories
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.kinds import KINDS, Kind
from commonbrain.domain.memory import Memory

SPEAKER: Final = 0
"""The position of who said it among the people of a memory; whom it names comes after."""
NAMED: Final = {
    "tags": EntityType.TAG,
    "people": EntityType.PERSON,
    "topics": EntityType.TOPIC,
    "references": EntityType.REFERENCE,
}
"""Fields of a memory that stand in rows of their own."""
# What the projection row holds of a memory, in the names both use.
PROJECTED: Final = tuple(
    field.name for field in fields(Memory) if field.name not in {"body", "detail", *NAMED}
)
_ID: Final = PROJECTED.index("id")
_KIND: Final = PROJECTED.index("kind")
COLUMNS: Final = {kind: policy.columns for kind, policy in KINDS.items()}


def _as_read(column: Column[Any]) -> ColumnElement[Any]:
    """Read a column that holds JSON as `Told`."""
    return type_coerce(column, Told()) if isinstance(column.type, JSON | Names) else column


_GET: Final = select(*(_as_read(memories.c[name]) for name in PROJECTED)).where(
    memories.c.tenant_id == bindparam("tenant"), memories.c.id.in_(LISTED)
)
_GET_DETAIL: Final = {
    kind: select(
        table.c.memory_id, table.c.body, *(_as_read(table.c[name]) for name in COLUMNS[kind])
    ).where(table.c.tenant_id == bindparam("tenant"), table.c.memory_id.in_(LISTED))
    for kind, table in DETAILS.items()
}
_GET_NAMES: Final = (
    select(entities.c.memory_id, type_coerce(entities.c.type, String), entities.c.name)
    .where(
        entities.c.tenant_id == bindparam("tenant"),
        entities.c.memory_id.in_(LISTED),
        or_(entities.c.type != EntityType.PERSON, entities.c.position > SPEAKER),
    )
    .order_by(entities.c.position)
)
_FIELD_OF: Final = {str(type_): field for field, type_ in NAMED.items()}


def fetch(work: Work, ids: Sequence[int]) -> dict[int, Memory]:
    """Fetch memories of any state by id."""
    if not ids:
        return {}
    listed = {"ids": list(ids)}
    rows = work.rows(_GET, listed)
    by_kind: defaultdict[Kind, list[int]] = defaultdict(list)
    for row in rows:
        by_kind[row[_KIND]].append(row[_ID])
    details = {
        memory_id: detail
        for kind, of_kind in by_kind.items()
        for memory_id, *detail in work.rows(_GET_DETAIL[kind], {"ids": of_kind})
    }
    names: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    for memory_id, type_, name in work.rows(_GET_NAMES, listed):
        named, field = names[memory_id], _FIELD_OF[type_]
        named[field] = (*named.get(field, ()), name)
    return {
        row[_ID]: _memory(row, details[row[_ID]], names=names[row[_ID]])
        for row in rows
        # What has lost its body cannot be shown; `doctor` tells of it.
        if row[_ID] in details
    }


def _memory(row: Sequence[Any], detail: Sequence[Any], *, names: dict[str, Any]) -> Memory:
    """Put the rows of one memory together."""
    kind: Kind = row[_KIND]
    body, *columns = detail
    own = KINDS[kind].detail(**dict(zip(COLUMNS[kind], columns, strict=True)))
    return Memory(**dict(zip(PROJECTED, row, strict=True)), body=body, detail=own, **names)
