"""brain-db: its database, the older files that it was made from, and its JSON sidecars.

Written by `extensions/cortex/python/` of https://github.com/heliosarchitect/openclaw: `brain.py`
(brain.db), `synapse_manager.py` before 59b8bc98 (synapse.json), `stm_manager.py` before 015bdbe1
(stm.json), `atom_manager.py` (.atoms.db), `embeddings_manager.py` (.embeddings.db) and
`working_memory_sync.py` (working_memory.json); `brain.py` also reads categories.json.

A folder may hold several of them. What `migrate.py` copied into brain.db has the same reference
there as in the file that it came from, so it is stored once. Times without a zone are in UTC.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import (
    Content,
    DetectedSource,
    ImportItem,
    SourceRelation,
    Unreadable,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.json_lines import as_list, as_object
from commonbrain.transfer.importers.markdown import is_inside, link_outside
from commonbrain.transfer.snapshots import is_sqlite
from commonbrain_import.brain_db_drafts import (
    answer_drafts,
    atom_drafts,
    category_drafts,
    insight_drafts,
    memory_drafts,
    memory_ref,
    message_drafts,
    pin_drafts,
    reference,
    reference_of,
    task_drafts,
)
from commonbrain_import.databases import SqliteTables, TableMeter, omissions, open_sqlite, row_count
from commonbrain_import.json_files import BoundedJson, Element, read_elements
from commonbrain_import.rows import Row, names_in, number_in, share_in, text_in

_HINT: Final = (
    "Name the folder of brain.db (by default ~/.openclaw/workspace/memory), or one of "
    "brain.db, synapse.json, stm.json, .atoms.db, .embeddings.db, working_memory.json and "
    "categories.json in it."
)
_FILES: Final = (
    *("brain.db", "synapse.json", "stm.json", ".embeddings.db", ".atoms.db"),
    *("working_memory.json", "categories.json"),
)
"""In an order in which relations follow what they relate: atoms come from the texts before them."""
_JSON_KEYS: Final = {
    "messages": "body",
    "short_term_memory": "content",
    "items": "content",
    "categories": "description",
}
"""The keys of the lists in the JSON files, which say what file it is, and of the texts in them."""
_OMITTED: Final = {
    "vectors": ("embeddings", None),
    "read receipts": ("read_receipts", None),
    "access counts of short-term memory": ("stm", "access_count"),
    "access counts of atoms": ("atoms", "access_count"),
    "access counts": ("memories", "access_count"),
    "vectors of atoms": ("atoms", "subject_embedding"),
    "metadata of messages": ("messages", "metadata"),
    "templates of tasks": ("todo_templates", None),
    "states of sessions": ("session_states", None),
}
_DATABASES: Final = (("messages", "threads"), ("atoms", "causal_links"), ("memories",))
"""The tables by which a database is known; all are read alike, as far as they are there."""
_READ: Final = frozenset(
    {
        *("messages", "threads", "acks", "stm", "atoms", "causal_links", "atom_links", "memories"),
        *("todos", "insights", "working_memory", "categories"),
    }
)


@dataclass(frozen=True, slots=True)
class BrainDb:
    """Reads a folder of brain-db's files, or one of them."""

    name: str = "brain-db"
    purpose: str = "brain-db: brain.db and the JSON and SQLite files before it"
    has_relations: bool = True
    hidden_files: frozenset[str] = frozenset({".atoms.db", ".embeddings.db"})

    def find(self, home: Path) -> Iterator[DetectedSource]:
        """Return the folder in OpenClaw's workspace if one of the files is there."""
        folder = home / ".openclaw" / "workspace" / "memory"
        sizes = [path.stat().st_size for path in _files_in(folder)]
        if sizes:
            yield DetectedSource(path=folder, count=len(sizes), size_bytes=sum(sizes))

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield messages, short-term memory, pins, tasks and atoms, then how they are related.

        Raises:
            InvalidInputError: there is no file of brain-db; raised before the first piece.

        """
        files = _files_in(source) if source.is_dir() else [source]
        known = [(file, _reader_of(file)) for file in files]
        wrong = next((one for _, one in known if isinstance(one, str)), f"{source} has none of it.")
        if all(isinstance(reader, str) for _, reader in known):
            raise InvalidInputError(f"This is not of brain-db: {wrong}", hint=_HINT)
        links = [source / one for one in _FILES if (source / one).is_symlink()]
        yield from (link_outside(one, source) for one in links if not is_inside(one, source))
        bytes_total, before = max(sum(file.stat().st_size for file in files), 1), 0
        for file, reader in known:
            size = file.stat().st_size
            for piece in _read_file(file, reader):
                progress = min((before + piece.progress * size) / bytes_total, 1.0)
                yield replace(piece, progress=progress)
            before += size


_Reader = Callable[[Path], Iterator[ImportItem]]


def _files_in(folder: Path) -> list[Path]:
    named = [folder / one for one in _FILES]
    return [one for one in named if one.is_file() and is_inside(one, folder)]


def _read_file(file: Path, reader: "_Reader | str") -> Iterator[ImportItem]:
    if isinstance(reader, str):
        yield ImportItem(content=Unreadable(where=file.name, reason=reader), progress=1.0)
    else:
        yield from reader(file)


def _reader_of(file: Path) -> "_Reader | str":
    """Return what reads a file, by what is in it, or why nothing does."""
    if not file.is_file():
        return f"there is no file {file}."
    if is_sqlite(file):
        with open_sqlite(file, hint=_HINT) as tables:
            is_known = any(set(needed) <= set(tables.columns) for needed in _DATABASES)
        return _read_database if is_known else f"{file.name} has other tables."
    try:
        with file.open("rb") as stream:
            key = _key_of(_ijson().parse(BoundedJson(stream)))
    except (_ijson().JSONError, ValueError, OSError) as error:
        return f"{file.name} is neither SQLite nor JSON: {str(error).partition(chr(10))[0]}"
    if key is None:
        return f"{file.name} has none of the lists {', '.join(_JSON_KEYS)} with texts in it."
    return _JSON_FILES[key]


def _key_of(events: Iterator[tuple[str, str, object]]) -> str | None:
    """Return the key of the list in a file, if its first element has a text or it is empty."""
    key = None
    for prefix, event, value in events:
        if key is None:
            if prefix == "" and event == "map_key" and value in _JSON_KEYS:
                key = str(value)
        elif event == "map_key" and value == _JSON_KEYS[key]:
            return key
        elif event == "end_map" and prefix != key:
            return None
        elif event in {"end_array", "end_map"} and prefix == key:
            return key
    return None


def _ijson() -> Any:  # noqa: ANN401 it brings no types
    return import_module("ijson")  # It is not needed to start.


# brain.db


def _read_database(file: Path) -> Iterator[ImportItem]:
    with open_sqlite(file, hint=_HINT) as tables:
        reader = _TableReader(tables=tables)
        read: tuple[tuple[str, Sequence[str], Callable[[Row], Iterator[Content]]], ...] = (
            ("messages", _MESSAGE_COLUMNS, reader.message),
            ("acks", ("message_id", "agent_id", "ack_body", "acked_at"), reader.answer),
            *((table, columns, make) for table, (columns, make) in _TABLES.items()),
            ("stm", _DERIVED_COLUMNS, _entry_origin),
            ("atoms", _DERIVED_COLUMNS, _atom_origin),
            ("messages", ("id", "parent_id"), _parent),
            ("atom_links", _LINK_COLUMNS, _link),
            ("causal_links", _LINK_COLUMNS, _link),
        )
        meter = TableMeter(total=row_count(tables, [table for table, _, _ in read]))
        for table, columns, make in read:
            yield from meter.read(tables, table, columns=columns, make=make, order="rowid")
        reader.tally.update(_omissions(tables))
        yield from reader.tally.pieces()


_MESSAGE_COLUMNS: Final = (
    *("id", "thread_id", "parent_id", "from_agent", "to_agent", "priority", "subject", "body"),
    *("created_at", "expires_at", "task_status", "result", "context"),
)
_DERIVED_COLUMNS: Final = ("id", "content", "created_at", "source_message_id", "source_memory_id")
_LINK_COLUMNS: Final = ("from_atom_id", "to_atom_id", "link_type", "strength")


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableReader:
    """Makes drafts of what belongs to threads, and counts what is left out."""

    tables: SqliteTables
    tally: Tally = field(default_factory=Tally)

    def message(self, row: Row) -> Iterator[Content]:
        return message_drafts(row, self._row_of("threads", row.get("thread_id")))

    def answer(self, row: Row) -> Iterator[Content]:
        """Make an answer a message of its thread, and count one without a text."""
        if text_in(row, "ack_body"):
            return answer_drafts(row, self._row_of("messages", row.get("message_id")))
        self.tally["acknowledgements without a text"] += 1
        return iter(())

    def _row_of(self, table: str, id_: object) -> Row:
        """Return what a row says of a thread."""
        known = self.tables.columns.get(table, ())
        there = [one for one in ("thread_id", "subject", "tags") if one in known]
        if not there:
            return {}
        statement = f"SELECT {', '.join(there)} FROM {table} WHERE id = ?"  # noqa: S608 constants
        values = self.tables.connection.execute(statement, (id_,)).fetchone()
        return dict(zip(there, values, strict=True)) if values else {}


_Make = Callable[[Row], Iterator[Draft]]
_MEMORY_COLUMNS: Final = (
    *("id", "content", "categories", "category", "importance", "created_at", "timestamp"),
    *("expires_at", "source", "confidence"),
)
_ATOM_COLUMNS: Final = (
    *("id", "subject", "action", "outcome", "consequences", "confidence", "source", "created_at"),
    *("action_timestamp", "outcome_delay_seconds", "consequence_delay_seconds"),
)
_TABLES: Final[Mapping[str, tuple[tuple[str, ...], _Make]]] = {
    "stm": (_MEMORY_COLUMNS, memory_drafts),
    "memories": (_MEMORY_COLUMNS, memory_drafts),
    "insights": (
        ("id", "type", "title", "body", "confidence", "expires_at", "generated_at", "created_at"),
        insight_drafts,
    ),
    "todos": (
        (
            *("id", "title", "description", "status", "priority", "assigned_to", "tags", "due_at"),
            "created_at",
        ),
        task_drafts,
    ),
    "working_memory": (("label", "content", "pinned_at"), pin_drafts),
    "categories": (("name", "description", "keywords", "created_at"), category_drafts),
    "atoms": (_ATOM_COLUMNS, atom_drafts),
}


def _entry_origin(row: Row) -> Iterator[SourceRelation]:
    return _origin(row, memory_ref(row))


def _atom_origin(row: Row) -> Iterator[SourceRelation]:
    return _origin(row, _atom_ref(row, "id"))


def _origin(row: Row, first: str) -> Iterator[SourceRelation]:
    """Yield what an entry or an atom was made from."""
    second = reference_of(text_in(row, "source_message_id", "source_memory_id"))
    if second is not None:
        yield SourceRelation(first=first, second=second, type=LinkType.DERIVED_FROM)


def _parent(row: Row) -> Iterator[SourceRelation]:
    """Yield which message this one answers."""
    if text_in(row, "parent_id"):
        first, second = (reference(f"message/{text_in(row, one)}") for one in ("id", "parent_id"))
        yield SourceRelation(first=first, second=second, type=LinkType.ABOUT)


def _link(row: Row) -> Iterator[SourceRelation]:
    """Yield the causal link between two atoms."""
    sort = text_in(row, "link_type") or LinkType.CAUSES
    yield SourceRelation(
        first=_atom_ref(row, "from_atom_id"),
        second=_atom_ref(row, "to_atom_id"),
        type=LinkType(sort) if sort in tuple(LinkType) else LinkType.RELATES_TO,
        strength=share_in(row, "strength"),
    )


def _atom_ref(row: Row, column: str) -> str:
    return reference(f"atom/{text_in(row, column)}")


def _omissions(tables: SqliteTables) -> Mapping[str, int]:
    """Count what is not carried over, and the rows of tables that later versions have added."""
    named = {table for table, column in _OMITTED.values() if column is None}
    others = [
        one
        for one in tables.columns
        if one not in _READ | named and "_fts" not in one and not one.startswith("sqlite_")
    ]
    added = {f"rows of the table {one}": (one, None) for one in others}
    return omissions(tables, {**_OMITTED, **added})


# JSON files


@dataclass(frozen=True, slots=True, kw_only=True)
class _JsonReader:
    """Makes drafts of one list in a JSON file, and counts what is left out."""

    key: str
    make: _Make
    tally: Tally = field(default_factory=Tally)

    def read(self, element: Element) -> Iterator[Content]:
        row = as_object(element.value)
        if element.key != self.key:
            return
        if row is None:
            where = f"{self.key} {element.number}"
            yield Unreadable(where=where, reason="It is no object.")
        elif element.is_in_list:
            self.tally["access counts"] += bool(number_in(row, "access_count"))
            self.tally["read receipts"] += len(as_list(row.get("read_by")) or ())
            yield from self.make(row)
        else:
            for name, value in row.items():
                yield from self.make({**(as_object(value) or {}), "name": name})


def _read_json(file: Path, *, key: str, make: _Make) -> Iterator[ImportItem]:
    reader = _JsonReader(key=key, make=make)
    yield from read_elements(file, reader.read, hint=_HINT)
    yield from reader.tally.pieces()


def _message_and_answer(row: Row) -> Iterator[Draft]:
    yield from message_drafts(row, {})
    if text_in(row, "ack_body"):
        readers = names_in(row.get("read_by"))
        # As `migrate.py` does: the file does not say who of its readers acknowledged a message.
        agent = next(iter(readers), text_in(row, "to") or "unknown")
        answered = {**row, "message_id": row.get("id"), "agent_id": agent}
        yield from answer_drafts({**answered, "acked_at": row.get("timestamp")}, row)


_JSON_FILES: Final[Mapping[str, _Reader]] = {
    key: partial(_read_json, key=key, make=make)
    for key, make in {
        "messages": _message_and_answer,
        "short_term_memory": memory_drafts,
        "items": pin_drafts,
        "categories": category_drafts,
    }.items()
}


IMPORTER: Final = BrainDb()
