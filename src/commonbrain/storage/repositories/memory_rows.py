"""Reading memories: the rows of each put together, and decoded once."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any, Final

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    String,
    bindparam,
    cast,
    or_,
    select,
    type_coerce,
)

from commonbrain.forks import after_fork
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.memory import Memory
from commonbrain.storage.schema.memories import DETAILS, EntityType, entities, memories
from commonbrain.storage.schema.types import JsonText, Names, UnreadableValueError, reading
from commonbrain.storage.sql.bulk import LISTED
from commonbrain.storage.sql.context import Driver, Row, SqlContext, read_row

SPEAKER: Final = 0
"""The position of the speaker among the people of a memory; named people come after."""
NAMED: Final = {
    "tags": EntityType.TAG,
    "people": EntityType.PERSON,
    "topics": EntityType.TOPIC,
    "references": EntityType.REFERENCE,
}
"""Fields stored in rows of `entities`."""
# Columns of the row in `memories`, named as the fields.
PROJECTED: Final = tuple(
    field.name for field in fields(Memory) if field.name not in {"body", "detail", *NAMED}
)
_ID: Final = PROJECTED.index("id")
_KIND: Final = PROJECTED.index("kind")
_REQUIRED: Final = tuple(at for at, name in enumerate(PROJECTED) if not memories.c[name].nullable)
COLUMNS: Final = {kind: policy.columns for kind, policy in KINDS.items()}


def _as_read(column: Column[Any]) -> ColumnElement[Any]:
    """Read a column that holds JSON as text, on every engine."""
    return cast(column, JsonText()) if isinstance(column.type, JSON | Names) else column


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


def fetch(work: SqlContext, ids: Sequence[int]) -> dict[int, Memory]:
    """Fetch memories of any state by id."""
    if not ids:
        return {}
    listed = {"ids": list(ids)}
    rows = work.raw_rows(_GET, listed)
    by_kind: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows:
        by_kind[row[_KIND]].append(row[_ID])
    with reading():
        questions = [(_GET_DETAIL[Kind(kind)], of_kind) for kind, of_kind in by_kind.items()]
    details = {
        detail[0]: detail
        for question, of_kind in questions
        for detail in work.raw_rows(question, {"ids": of_kind})
    }
    names: defaultdict[int, tuple[str, ...]] = defaultdict(tuple)
    for memory_id, *named in work.raw_rows(_GET_NAMES, listed):
        names[memory_id] += (*named,)
    driver = work.connection.dialect
    return {
        row[_ID]: _DECODED.get(row, detail, names=names[row[_ID]], driver=driver)
        for row in rows
        # A memory without its body cannot be shown; `brain doctor` reports it.
        if (detail := details.get(row[_ID])) is not None
    }


def _decode(row: Row, detail: Row, *, names: tuple[str, ...], driver: Driver) -> Memory:
    """Put the rows of one memory together; `names` are pairs of type and name, one by one."""
    if any(row[at] is None for at in _REQUIRED):
        # Where a page is damaged, SQLite reads columns that its row lacks as NULL.
        raise UnreadableValueError("a row lacks some of its values")
    kind = Kind(row[_KIND])
    _, body, *columns = read_row(detail, _GET_DETAIL[kind], dialect=driver)
    own = KINDS[kind].detail(**dict(zip(COLUMNS[kind], columns, strict=True)))
    named: dict[str, Any] = {}
    for type_, name in zip(names[::2], names[1::2], strict=True):
        field_name = _FIELD_OF[type_]
        named[field_name] = (*named.get(field_name, ()), name)
    common = dict(zip(PROJECTED, read_row(row, _GET, dialect=driver), strict=True))
    return Memory(**common, body=body, detail=own, **named)


_TEXT_CHARS_MAX: Final = 4000
"""Longest text, body and own fields together, of a memory to keep decoded."""
_DECODED_MAX: Final = 2048
"""5 MB with notes of 60 words, at most 32; most of a recall's candidates were read before."""


@dataclass(slots=True)
class _DecodedMemories:
    """The memories that were read last, each with the rows that it was made from.

    A memory is returned only for the same rows, so it is never stale, in any store.
    """

    _known: dict[int, tuple[Row, Row, tuple[str, ...], Memory]] = field(
        default_factory=dict[int, "tuple[Row, Row, tuple[str, ...], Memory]"]
    )
    _lock: Lock = field(default_factory=Lock)

    def get(self, row: Row, detail: Row, *, names: tuple[str, ...], driver: Driver) -> Memory:
        """Return the memory of some rows."""
        known = self._known.get(row[_ID])
        if known is not None and known[:-1] == (row, detail, names):
            return known[-1]
        with reading():
            memory = _decode(row, detail, names=names, driver=driver)
        if sum(len(one) for one in detail if isinstance(one, str)) <= _TEXT_CHARS_MAX:
            with self._lock:
                self._known.pop(memory.id, None)
                if len(self._known) >= _DECODED_MAX:
                    del self._known[next(iter(self._known))]
                self._known[memory.id] = row, detail, names, memory
        return memory

    def forget(self, memory_id: int) -> None:
        """Drop the text of an erased memory."""
        with self._lock:
            self._known.pop(memory_id, None)

    def renew(self) -> None:
        """Drop everything in a forked child, where the lock may have been held at the fork."""
        self._known, self._lock = {}, Lock()


_DECODED: Final = _DecodedMemories()
after_fork(_DECODED.renew)


def forget_decoded(memory_id: int) -> None:
    """Drop a memory from this process's cache, because its text is erased."""
    _DECODED.forget(memory_id)
