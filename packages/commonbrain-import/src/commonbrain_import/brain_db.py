"""brain-db: its database, the older files that it was made from, and its JSON sidecars.

Written by `extensions/cortex/python/` of https://github.com/heliosarchitect/openclaw: `brain.py`
(brain.db), `synapse_manager.py` before 59b8bc98 (synapse.json), `stm_manager.py` before 015bdbe1
(stm.json), `atom_manager.py` (.atoms.db), `embeddings_manager.py` (.embeddings.db) and
`working_memory_sync.py` (working_memory.json); `brain.py` also reads categories.json.

A folder may hold several of them. What `migrate.py` copied into brain.db has the same reference
there as in the file that it came from, so it is stored once. Times without a zone are in UTC.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.links import LinkType
from commonbrain.transfer.importer import (
    Content,
    DetectedSource,
    Importer,
    ImportItem,
    SourceRelation,
    SourceThread,
    Unreadable,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.json_lines import as_object
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
    receipts,
    reference,
    task_drafts,
    thread_key,
    unread_by,
)
from commonbrain_import.databases import SqliteTables, TableMeter, omissions, open_sqlite, row_count
from commonbrain_import.json_files import BoundedJson, Element, read_elements
from commonbrain_import.rows import Row, names_in, share_in, text_in, time_in

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
    "templates of tasks": ("todo_templates", None),
    "states of sessions": ("session_states", None),
}
_DATABASES: Final = (("messages", "threads"), ("atoms", "causal_links"), ("memories",))
"""The tables by which a database is known; all are read alike, as far as they are there."""


class BrainDb(Importer):
    """Reads a folder of brain-db's files, or one of them."""

    name = "brain-db"
    purpose = "brain-db: brain.db and the JSON and SQLite files before it"
    has_relations = True
    hidden_files = frozenset({".atoms.db", ".embeddings.db"})

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


_Make = Callable[[Row], Iterator[Content]]
_MEMORY_COLUMNS: Final = (
    "id content categories category importance created_at timestamp expires_at source "
    "source_message_id confidence access_count last_accessed"
).split()
_LINK_COLUMNS: Final = (
    "id from_atom_id to_atom_id link_type strength last_observed created_at"
).split()
_COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "messages": (
        "id thread_id parent_id from_agent to_agent priority subject body created_at expires_at "
        "task_status result context"
    ).split(),
    # All but the first four follow from its messages.
    "threads": "id subject status tags created_by created_at last_message_at message_count".split(),
    "read_receipts": "message_id agent_id read_at".split(),
    "acks": "message_id agent_id ack_body acked_at".split(),
    "stm": _MEMORY_COLUMNS,
    "memories": _MEMORY_COLUMNS,
    "insights": "id type title body confidence expires_at generated_at created_at".split(),
    "todos": "id title description status priority assigned_to tags due_at created_at".split(),
    "working_memory": "id label content pinned_at".split(),
    "categories": "name description keywords created_at".split(),
    "atoms": (
        "id subject action outcome consequences confidence source created_at action_timestamp "
        "outcome_delay_seconds consequence_delay_seconds source_message_id source_memory_id "
        "source_type access_count"
    ).split(),
    "causal_links": _LINK_COLUMNS,
    "atom_links": _LINK_COLUMNS,
}
"""The columns that are read; what others hold is counted."""
_CLOSED: Final = frozenset({"closed", "resolved", "archived", "done", "completed"})
"""Statuses of a thread that does not go on."""
_SORTS: Final = {"message": "messages", "stm": "stm", "atom": "atoms"}
"""The tables of origins by `atoms.source_type`."""
_PREFIXES: Final = {"syn_": "messages", "stm_": "stm", "emb_": "stm", "atm_": "atoms"}
"""The tables of ids that brain-db made, whichever column has them."""


def _read_database(file: Path) -> Iterator[ImportItem]:
    with open_sqlite(file, hint=_HINT) as tables:
        reader = _TableReader(tables=tables)
        read: tuple[tuple[str, _Make], ...] = (
            ("messages", reader.message),
            ("acks", reader.answer),
            ("stm", memory_drafts),
            ("memories", memory_drafts),
            ("insights", insight_drafts),
            ("todos", task_drafts),
            ("working_memory", pin_drafts),
            ("categories", category_drafts),
            ("atoms", atom_drafts),
            ("stm", reader.entry_origin),
            ("atoms", reader.atom_origins),
            ("messages", _parent),
            ("atom_links", _link),
            ("causal_links", _link),
            ("messages", reader.receipts),
            ("threads", _thread),
        )
        meter = TableMeter(total=row_count(tables, [table for table, _ in read]))
        for table, make in read:
            yield from meter.read(tables, table, columns=_COLUMNS[table], make=make, order="rowid")
        yield from Tally(omissions(tables, _OMITTED, known=_COLUMNS)).pieces()


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableReader:
    """Makes what needs rows of other tables."""

    tables: SqliteTables

    def message(self, row: Row) -> Iterator[Content]:
        return message_drafts(row, self._row_of("threads", row.get("thread_id")))

    def answer(self, row: Row) -> Iterator[Content]:
        """Make an answer a message of its thread; without a text it is a receipt alone."""
        if text_in(row, "ack_body"):
            yield from answer_drafts(row, self._row_of("messages", row.get("message_id")))

    def receipts(self, row: Row) -> Iterator[Content]:
        """Say who read and answered a message, each once, and who has not."""
        readers: dict[str, dict[str, object]] = {}
        for table in ("read_receipts", "acks"):
            for one in self.tables.where(table, _COLUMNS[table], message_id=row.get("id")):
                readers.setdefault(text_in(one, "agent_id"), {}).update(one)
        if "read_receipts" in self.tables.columns:
            yield from unread_by(row, readers)
        for receipt in readers.values():
            yield from receipts(receipt)

    def entry_origin(self, row: Row) -> Iterator[Content]:
        return self._origin(row, memory_ref(row), column="source_message_id", table="messages")

    def atom_origins(self, row: Row) -> Iterator[Content]:
        first = _atom_ref(row, "id")
        yield from self._origin(row, first, column="source_message_id", table="messages")
        yield from self._origin(row, first, column="source_memory_id", table="stm")

    def _origin(self, row: Row, first: str, *, column: str, table: str) -> Iterator[Content]:
        """Yield what an entry or an atom was made from: a row of the table that its column names.

        The program itself puts ids of other tables there, and says so by a type or their prefix.
        """
        id_ = text_in(row, column)
        if not id_:
            return
        if column == "source_message_id":
            table = _SORTS.get(text_in(row, "source_type"), table)
        table = next((t for prefix, t in _PREFIXES.items() if id_.startswith(prefix)), table)
        yield SourceRelation(
            first=first, second=self._reference(table, id_), type=LinkType.DERIVED_FROM
        )

    def _reference(self, table: str, id_: str) -> str:
        if table == "stm" and (row := self._row_of(table, id_)):
            return memory_ref(row)
        places = {"messages": "message", "atoms": "atom"}
        return reference(f"{places.get(table, 'stm')}/{id_.removeprefix('emb_')}")

    def _row_of(self, table: str, id_: object) -> Row:
        """Return the row of an id; empty without one."""
        rows = self.tables.where(table, _COLUMNS[table], id=id_)
        return rows[0] if rows else {}


def _parent(row: Row) -> Iterator[Content]:
    """Yield which message this one answers."""
    if text_in(row, "parent_id"):
        first, second = (reference(f"message/{text_in(row, one)}") for one in ("id", "parent_id"))
        yield SourceRelation(first=first, second=second, type=LinkType.ABOUT)


def _link(row: Row) -> Iterator[Content]:
    """Yield the causal link between two atoms; a type that we do not have becomes its reason."""
    sort = text_in(row, "link_type") or LinkType.CAUSES
    is_known = sort in tuple(LinkType)
    yield SourceRelation(
        first=_atom_ref(row, "from_atom_id"),
        second=_atom_ref(row, "to_atom_id"),
        type=LinkType(sort) if is_known else LinkType.RELATES_TO,
        strength=share_in(row, "strength"),
        reason=None if is_known else sort,
        at=time_in(row, "last_observed", "created_at"),
    )


def _atom_ref(row: Row, column: str) -> str:
    return reference(f"atom/{text_in(row, column)}")


def _thread(row: Row) -> Iterator[Content]:
    yield SourceThread(
        key=thread_key(text_in(row, "id")),
        is_closed=text_in(row, "status").lower() in _CLOSED,
        tags=names_in(row.get("tags")),
    )


# JSON files


@dataclass(frozen=True, slots=True, kw_only=True)
class _JsonReader:
    """Makes drafts of one list in a JSON file, and counts what is left out."""

    key: str
    columns: Collection[str]
    make: _Make

    def __call__(self, file: Path) -> Iterator[ImportItem]:
        tally = Tally()
        yield from read_elements(file, partial(self._read, tally), hint=_HINT)
        yield from tally.pieces()

    def _read(self, tally: Tally, element: Element) -> Iterator[Content]:
        row = as_object(element.value)
        if element.key != self.key:
            tally[f"{element.key} of the file"] += bool(element.value)
        elif row is None:
            where = f"{self.key} {element.number}"
            yield Unreadable(where=where, reason="It is no object.")
        elif element.is_in_list:
            yield from self._made(row, tally)
        else:
            for name, value in row.items():
                yield from self._made({**(as_object(value) or {}), "name": name}, tally)

    def _made(self, row: Row, tally: Tally) -> Iterator[Content]:
        left = (name for name, value in row.items() if value and name not in self.columns)
        tally.update(f"{name} of {self.key}" for name in left)
        return self.make(row)


def _message_and_receipts(row: Row) -> Iterator[Content]:
    """Make a message and what its readers did, when it was sent, as `migrate.py` does."""
    yield from message_drafts(row, {})
    readers = names_in(row.get("read_by"))
    at = row.get("timestamp")
    read_ = [{"message_id": row.get("id"), "agent_id": one, "read_at": at} for one in readers]
    if text_in(row, "ack_body"):
        # The file does not say who of its readers acknowledged a message.
        read_ = read_ or [
            {"message_id": row.get("id"), "agent_id": text_in(row, "to") or "unknown"}
        ]
        read_[0] |= {"ack_body": row.get("ack_body"), "acked_at": at}
        yield from answer_drafts(read_[0], row)
    yield from unread_by(row, [str(one["agent_id"]) for one in read_])
    for receipt in read_:
        yield from receipts(receipt)


_JSON_FILES: Final[Mapping[str, _Reader]] = {
    key: _JsonReader(key=key, columns=columns, make=make)
    for key, columns, make in (
        (
            "messages",
            # Its status follows from its readers.
            (*_COLUMNS["messages"], "from", "to", "timestamp", "read_by", "ack_body", "status"),
            _message_and_receipts,
        ),
        ("short_term_memory", _MEMORY_COLUMNS, memory_drafts),
        ("items", (*_COLUMNS["working_memory"], "pinnedAt"), pin_drafts),
        ("categories", _COLUMNS["categories"], category_drafts),
    )
}


IMPORTER: Final = BrainDb()
