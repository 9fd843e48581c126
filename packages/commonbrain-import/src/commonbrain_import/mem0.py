"""mem0: its JSON export, or the local Qdrant store and history that it keeps on disk.

`Memory.get_all` and the platform's export give the JSON (mem0ai/mem0, mem0/memory/main.py, version
2.2). On disk, `history.db` has the changes of every memory (mem0/memory/storage.py), and a Qdrant
store the current ones with their payload. Previous values become superseded memories. A deleted
memory is not imported. Relations of its graph become facts that state them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.memory import Draft
from commonbrain.model.timestamps import parse_instant
from commonbrain.text.classification import classify
from commonbrain.transfer.importer import (
    Content,
    DetectedSource,
    Importer,
    ImportItem,
    Meter,
    SourceRelation,
    Unreadable,
    file_found,
    files_found,
    name_or_none,
    source_reference,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.json_lines import as_object
from commonbrain.transfer.importers.markdown import is_inside, links_outside
from commonbrain.transfer.snapshots import is_sqlite
from commonbrain_import.databases import SqliteTables, open_sqlite, row_count
from commonbrain_import.graphs import edge_draft
from commonbrain_import.json_files import Element, read_elements
from commonbrain_import.qdrant_points import points
from commonbrain_import.rows import (
    Row,
    fitted,
    flag_in,
    names_in,
    share_in,
    text_in,
    time_in,
)

_HINT: Final = (
    "Give the JSON of get_all or of an export, a history.db, or the folder with it and Qdrant's."
)
_LISTS: Final = frozenset({"", "results", "memories"})
_TEXTS: Final = ("memory", "data", "text")
_HISTORY: Final = (
    "memory_id old_memory new_memory event created_at updated_at is_deleted actor_id"
).split()
_OWN: Final = frozenset(
    {
        *("id", "memory", "data", "text", "hash", "created_at", "updated_at", "score", "metadata"),
        *("user_id", "agent_id", "app_id", "run_id", "actor_id", "role", "attributed_to", "owner"),
        *("expiration_date", "categories", "category", "tags", "text_lemmatized", "confidence"),
        *("memory_type", "immutable", "organization", "type"),
    }
)
"""Fields of a memory that are carried over, or say nothing about it; others are metadata."""
_STORAGE: Final = "storage.sqlite"
_CHANGES: Final = "history.db"


class Mem0(Importer):
    """Reads what mem0 exports, or keeps on disk."""

    name = "mem0"
    purpose = "mem0: its JSON export, or its folder with history.db and Qdrant"
    has_relations = True

    def find(self, home: Path) -> Iterator[DetectedSource]:
        """Return mem0's folder, where `MEM0_DIR` does not name another one."""
        folder = home / ".mem0"
        if any(folder.glob(f"**/{_STORAGE}")):
            yield from files_found(folder, f"**/{_STORAGE}")
        else:
            yield from file_found(folder / _CHANGES)

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the previous values, then the current ones, then which superseded which.

        Raises:
            InvalidInputError: the source is missing, or holds no memory of mem0; raised before the
                first piece.

        """
        reader = _Reader()
        if source.is_file() and not is_sqlite(source):
            yield from read_elements(
                source,
                reader.element,
                hint=_HINT,
                what="export of mem0",
                shows_format=_shows_format,
            )
        else:
            yield from _stored(source, reader)
        yield from reader.omitted.pieces()


def _shows_format(element: Element) -> bool:
    fields = as_object(element.value) if element.is_in_list else None
    known = {"relationship", "relation"} if element.key == "relations" else {*_TEXTS}
    is_ours = element.key in _LISTS or element.key == "relations"
    return is_ours and fields is not None and not known.isdisjoint(fields)


def _stored(source: Path, reader: _Reader) -> Iterator[ImportItem]:
    """Read a folder, or one of its databases."""
    with ExitStack() as stack:
        opened = [
            (path.parent.name, stack.enter_context(open_sqlite(path, hint=_HINT)))
            for path in _databases(source)
        ]
        histories = [one for _, one in opened if "memory_id" in one.columns.get("history", ())]
        stores = [(name, one) for name, one in opened if "points" in one.columns]
        if not (histories or stores):
            raise InvalidInputError(f"{source} holds no database of mem0.", hint=_HINT)
        yield from links_outside(source, _STORAGE, _CHANGES)
        history_count = sum(row_count(one, ("history",)) for one in histories)
        point_count = sum(row_count(one, ("points",)) for _, one in stores)
        meter = Meter(total=2 * history_count + point_count)
        for tables in histories:
            for changes in _histories(tables, meter):
                drafts = reader.previous(changes, is_alone=not stores)
                yield from map(meter.piece, fitted(drafts))
            unread = row_count(tables, ("messages",))
            reader.omitted["messages of the last conversations"] += unread
        for folder, tables in stores:
            for point in points(tables, where=folder):
                meter.done += 1
                yield from map(meter.piece, fitted(reader.point(point)))
        for tables in histories:
            for changes in _histories(tables, meter):
                yield from map(meter.piece, _supersessions(changes))


def _databases(source: Path) -> Sequence[Path]:
    if source.is_dir():
        named = (source.glob(f"**/{one}") for one in (_STORAGE, _CHANGES))
        databases = (path for paths in named for path in paths if path.is_file())
        return sorted(path for path in databases if is_inside(path, source))
    return [source]


def _histories(tables: SqliteTables, meter: Meter) -> Iterator[Sequence[Row]]:
    """Yield the changes of each memory together, in the order of time."""
    columns = ", ".join(one for one in _HISTORY if one in tables.columns["history"])
    cursor = tables.connection.execute(
        f"SELECT {columns} FROM history "  # noqa: S608 our own names
        "ORDER BY memory_id, coalesce(updated_at, created_at), rowid"
    )
    names = columns.split(", ")
    rows = (dict[str, object](zip(names, values, strict=True)) for values in cursor)
    for _, changes in groupby(rows, key=lambda row: row["memory_id"]):
        group = list(changes)
        meter.done += len(group)
        yield group


def _is_deleted(changes: Sequence[Row]) -> bool:
    last = changes[-1]
    return text_in(last, "event") == "DELETE" or flag_in(last, "is_deleted")


def _values(changes: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    """Yield the values that a memory had, each with the change that made it."""
    last = ""
    for change in changes:
        text = text_in(change, "new_memory")
        if text and text != last:
            yield text, change
        last = text or last


def _supersessions(changes: Sequence[Row]) -> Iterator[SourceRelation]:
    if _is_deleted(changes):
        return
    id_ = text_in(changes[-1], "memory_id")
    count = sum(1 for _ in _values(changes))
    for number in range(1, count):
        newer = _version(id_, number + 1) if number + 1 < count else _reference(id_)
        yield SourceRelation(first=newer, second=_version(id_, number), type=None)


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Makes drafts, and counts what is left out."""

    omitted: Tally = field(default_factory=Tally)

    def element(self, element: Element) -> Iterator[Content]:
        """Read an element of an export."""
        fields = as_object(element.value)
        if element.key == "relations" and fields is not None:
            yield _edge(fields)
        elif not element.is_in_list:
            pass  # A count of pages, or the address of the next one.
        elif element.key not in _LISTS:
            self.omitted[f"entries of {element.key}"] += 1
        elif fields is None:
            where = f"{element.key or 'memory'} {element.number}"
            yield Unreadable(where=where, reason="It is not a memory of mem0.")
        else:
            yield self._memory(fields)

    def point(self, point: Row | Unreadable) -> Iterator[Content]:
        """Read a point of the store, which may be one of its entities."""
        if isinstance(point, Unreadable):
            yield point
        elif "linked_memory_ids" in point or ("data" not in point and "memory" not in point):
            self.omitted["entities"] += 1
        else:
            self.omitted["vectors"] += 1
            yield self._memory(point)

    def previous(self, changes: Sequence[Row], *, is_alone: bool) -> Iterator[Content]:
        """Read the earlier values of a memory, and the current one if no store has it."""
        if _is_deleted(changes):
            self.omitted["deleted memories"] += 1
            return
        values = list(_values(changes))
        id_ = text_in(changes[-1], "memory_id")
        for number, (text, change) in enumerate(values, 1):
            is_current = number == len(values)
            if is_current and not is_alone:
                return
            yield _draft(
                text,
                where=_reference(id_) if is_current else _version(id_, number),
                fields={"actor_id": change.get("actor_id")},
                at=time_in(change, "updated_at", "created_at"),
            )

    def _memory(self, fields: Row) -> Draft:
        metadata = as_object(fields.get("metadata")) or {}
        all_fields = {**metadata, **fields}
        self.omitted["values of metadata"] += len(set(all_fields) - _OWN)
        at = time_in(fields, "updated_at", "created_at")
        text, where = text_in(fields, *_TEXTS), _reference(text_in(fields, "id"))
        return _draft(text, where=where, fields=all_fields, at=at)


def _draft(text: str, *, where: str, fields: Row, at: datetime | None) -> Draft:
    return Draft(
        body=text,
        kind=classify(text),
        project=name_or_none(text_in(fields, "app_id")),
        confidence=share_in(fields, "confidence"),
        tags=_tags(fields),
        source_ref=where,
        occurred_at=at,
        expires_at=_expiry(fields),
        author=name_or_none(text_in(fields, "actor_id", "agent_id", "user_id")),
    )


def _edge(fields: Row) -> Draft:
    first, relation = text_in(fields, "source"), text_in(fields, "relationship", "relation")
    return edge_draft(first, relation, second=text_in(fields, "target", "destination"), of="mem0")


def _tags(fields: Row) -> tuple[str, ...]:
    """Return categories and tags, and the user and run that a memory belongs to."""
    given = [one for key in ("categories", "category", "tags") for one in names_in(fields.get(key))]
    owners = {key: text_in(fields, f"{key}_id") for key in ("user", "run")}
    given += [f"{key}:{id_}" for key, id_ in owners.items() if id_]
    return names_in(given)


def _expiry(fields: Row) -> datetime | None:
    """Return the end of the day on which a memory expires."""
    given = text_in(fields, "expiration_date")
    try:
        return parse_instant(given, ends_day=True) if given else None
    except InvalidInputError:
        return None


def _reference(id_: str) -> str:
    return source_reference("mem0", id_)


def _version(id_: str, number: int) -> str:
    return source_reference("mem0", f"{id_}@{number}")


IMPORTER: Final = Mem0()
