"""Reading memories: the rows of each put together, and decoded once."""

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import cache, partial
from itertools import chain
from operator import itemgetter
from threading import Lock
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    CompoundSelect,
    String,
    bindparam,
    cast,
    literal,
    or_,
    select,
    type_coerce,
    union_all,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.memory import Memory
from commonbrain.model.reading import Reading
from commonbrain.model.values import dataclass, field, fields
from commonbrain.storage.schema.memories import DETAILS, EntityType, entities, memories
from commonbrain.storage.schema.types import JsonText, Names, UnreadableValueError, reading
from commonbrain.storage.sql.context import OptionalRows, SqlContext
from commonbrain.storage.sql.statements import Driver, Row, id_list_param, in_ids, read_rows
from commonbrain.text.reading import read_memory
from commonbrain.threads import after_fork

_VERSION: Final = 3
"""To be raised when the same text is read or indexed otherwise; `brain maintain` then does both."""
_START: Final = f"[{_VERSION},"
CURRENT: Final = f"{_START}%"
"""What a current reading is like in SQL."""
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_reading(reading: Reading) -> str:
    """Write a reading."""
    return _encode(
        [
            _VERSION,
            reading.question_share,
            int(reading.names_time),
            reading.times,
            reading.subject_words,
            reading.words,
        ]
    )


def decode_reading(stored: str | None) -> Reading | None:
    """Read what `encode_reading` wrote; None if it is missing, damaged or of another version."""
    if stored is None or not stored.startswith(_START):
        return None
    try:
        _, share, names_time, times, subject, words = json.loads(stored)
        return Reading(
            words=words,
            subject_words=subject,
            question_share=share,
            names_time=bool(names_time),
            times=tuple((since, until) for since, until in times),
        )
    except (ValueError, TypeError):
        return None


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
    field.name for field in fields(Memory) if field.name not in {"body", "detail", "read", *NAMED}
)
_ID: Final = PROJECTED.index("id")
_KIND: Final = PROJECTED.index("kind")
_id_of: Final = itemgetter(_ID)
_required: Final = itemgetter(
    *(at for at, name in enumerate(PROJECTED) if not memories.c[name].nullable)
)
"""Returns the values of a row that cannot be NULL."""
COLUMNS: Final = {kind: policy.columns for kind, policy in KINDS.items()}


def _as_read(column: Column[Any]) -> ColumnElement[Any]:
    """Read a column that holds JSON as text, on every engine."""
    return cast(column, JsonText()) if isinstance(column.type, JSON | Names) else column


_GET: Final = select(*(_as_read(memories.c[name]) for name in PROJECTED), memories.c.reading).where(
    in_ids(memories.c.id)
)
_GET_DETAIL: Final = {
    kind: select(
        table.c.memory_id, table.c.body, *(_as_read(table.c[name]) for name in COLUMNS[kind])
    )
    for kind, table in DETAILS.items()
}
"""The types of the columns of each kind."""
_FIELD_OF: Final = {str(type_): field for field, type_ in NAMED.items()}
_NAMES: Final = "names"
"""The parameter of the ids whose names are read; those of a kind are in one named as the kind."""


class json_list(FunctionElement[str]):  # noqa: N801 a function of SQL
    """Some values as a JSON list, as text."""

    name = "json_list"
    inherit_cache = True
    type = String()


@compiles(json_list)
def _json_array(element: json_list, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"json_array({compiler.process(element.clauses, **more)})"


@cache
def _parts(kinds: frozenset[str], *, has_names: bool) -> CompoundSelect[Any, str, Any, str]:
    """Build the question for the details of some kinds, and for names: one for all.

    Its columns are the memory; the kind, or the type of a name; the body, or the name; and the
    columns of the kind, or the position of a name, as a JSON list.
    """
    rows = [
        select(
            table.c.memory_id,
            literal(kind, String()),
            table.c.body,
            json_list(*(_as_read(table.c[name]) for name in COLUMNS[Kind(kind)])),
        ).where(
            table.c.tenant_id == bindparam("tenant"),
            table.c.memory_id.in_(id_list_param(kind)),
        )
        for kind in sorted(kinds)
        for table in (DETAILS[Kind(kind)],)
    ]
    named = entities.c
    names = select(
        named.memory_id,
        type_coerce(named.type, String),
        named.name,
        json_list(named.position),
    ).where(
        named.tenant_id == bindparam("tenant"),
        named.memory_id.in_(id_list_param(_NAMES)),
        or_(named.type != EntityType.PERSON, named.position > SPEAKER),
    )
    return union_all(*rows, *([names] if has_names else []))


def fetch(work: SqlContext, ids: Sequence[int]) -> dict[int, Memory]:
    """Fetch memories of any state, in ascending order of id."""
    if not ids:
        return {}
    rows = work.raw_rows(_GET, {"ids": list(ids)})
    listed: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows:
        listed[row[_KIND]].append(row[_ID])
    has_names = work.may_have(OptionalRows.ENTITIES)
    with reading():
        question = _parts(frozenset(map(Kind, listed)), has_names=has_names)
    if has_names:
        # Names are asked for whether or not there are rows: how long it takes tells nothing.
        listed[_NAMES] = list(ids)
    details: dict[int, Row] = {}
    names: defaultdict[int, list[Row]] = defaultdict(list)
    for part in work.raw_rows(question, listed) if listed else ():
        if part[1] in _FIELD_OF:
            names[part[0]].append(part)
        else:
            details[part[0]] = part
    stored = [
        _Stored(row, detail, _sorted_names(names[row[_ID]]) if row[_ID] in names else ())
        # Postgres returns rows in whatever order its plan finds them.
        for row in sorted(rows, key=_id_of)
        # A memory without its body cannot be shown; `brain doctor` reports it.
        if (detail := details.get(row[_ID])) is not None
    ]
    return _DECODED.get(stored, driver=work.connection.dialect)


def _sorted_names(parts: Sequence[Row]) -> tuple[str, ...]:
    """Return pairs of type and name, one by one, in the order of their positions."""
    ordered = sorted(parts, key=lambda part: (len(part[3]), part[3]))
    return tuple(chain.from_iterable(part[1:3] for part in ordered))


class _Stored(NamedTuple):
    """The rows of one memory as the driver returns them."""

    row: Row
    detail: Row
    names: tuple[str, ...]
    """Pairs of type and name, one by one."""


def _decode(stored: Sequence[_Stored], *, driver: Driver) -> list[Memory]:
    """Put the rows of each memory together; all rows of a table are converted at once."""
    if any(None in _required(one.row) for one in stored):
        # Where a page is damaged, SQLite reads columns that its row lacks as NULL.
        raise UnreadableValueError("a row lacks some of its values")
    by_kind: defaultdict[str, list[Row]] = defaultdict(list)
    for one in stored:
        id_, kind, body, columns = one.detail
        by_kind[kind].append((id_, body, *json.loads(columns)))
    details = {
        id_: (body, KINDS[kind].detail(**dict(zip(COLUMNS[kind], columns, strict=True))))
        for kind, of_kind in ((Kind(word), rows) for word, rows in by_kind.items())
        for id_, body, *columns in read_rows(of_kind, _GET_DETAIL[kind], dialect=driver)
    }
    commons = read_rows([one.row for one in stored], _GET, dialect=driver)
    memories_: list[Memory] = []
    for one, (*common, stored_reading) in zip(stored, commons, strict=True):
        body, own = details[one.row[_ID]]
        fields_ = dict(zip(PROJECTED, common, strict=True))
        read = partial(_read, stored_reading)
        memories_.append(Memory(**fields_, body=body, detail=own, **_named(one.names), read=read))
    return memories_


def _read(stored: str | None, memory: Memory) -> Reading:
    return decode_reading(stored) or read_memory(memory)


def _named(names: tuple[str, ...]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for type_, name in zip(names[::2], names[1::2], strict=True):
        field_name = _FIELD_OF[type_]
        named[field_name] = (*named.get(field_name, ()), name)
    return named


_TEXT_CHARS_MAX: Final = 4000
"""Longest text, body and own fields together, of a memory to keep decoded."""
_DECODED_MAX: Final = 2048
"""5 MB with notes of 60 words, at most 32; most of a recall's candidates were read before."""


@dataclass(slots=True)
class _DecodedMemories:
    """The memories that were read last, each with the rows that it was made from.

    A memory is returned only for the same rows, so it is never stale, in any store.
    """

    _known: dict[int, tuple[_Stored, Memory]] = field(
        default_factory=dict[int, "tuple[_Stored, Memory]"]
    )
    _lock: Lock = field(default_factory=Lock)

    def get(self, stored: Sequence[_Stored], *, driver: Driver) -> dict[int, Memory]:
        """Return the memories of some rows, by id and in their order."""
        memories_: dict[int, Memory] = {}
        unknown: list[_Stored] = []
        for one in stored:
            id_ = one.row[_ID]
            known = self._known.get(id_)
            if known is not None and known[0] == one:
                memories_[id_] = known[1]
            else:
                unknown.append(one)
        if not unknown:
            return memories_
        with reading():
            decoded = _decode(unknown, driver=driver)
        memories_ |= {memory.id: memory for memory in decoded}
        with self._lock:
            for one, memory in zip(unknown, decoded, strict=True):
                self._remember(one, memory)
        return {one.row[_ID]: memories_[one.row[_ID]] for one in stored}

    def _remember(self, stored: _Stored, memory: Memory) -> None:
        _, _, body, columns = stored.detail
        if len(body) + len(columns) > _TEXT_CHARS_MAX:
            return
        self._known.pop(memory.id, None)
        if len(self._known) >= _DECODED_MAX:
            del self._known[next(iter(self._known))]
        self._known[memory.id] = stored, memory

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
