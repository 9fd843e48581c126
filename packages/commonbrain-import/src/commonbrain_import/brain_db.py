"""brain-db: its database, the older files that it was made from, and its JSON sidecars.

Written by `extensions/cortex/python/` of https://github.com/heliosarchitect/openclaw: `brain.py`
(brain.db), `synapse_manager.py` before 59b8bc98 (synapse.json), `stm_manager.py` before 015bdbe1
(stm.json), `atom_manager.py` (.atoms.db), `embeddings_manager.py` (.embeddings.db) and
`working_memory_sync.py` (working_memory.json); `brain.py` also reads categories.json.

A folder may hold several of them. What `migrate.py` copied into brain.db has the same reference
there as in the file that it came from, so it is stored once. Times without a zone are in UTC.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Found, Omitted, Piece, Relation, Unreadable
from commonbrain.transfer.importers.json_lines import as_list, as_object
from commonbrain.transfer.importers.markdown import is_inside, link_outside, name
from commonbrain.transfer.snapshots import is_sqlite
from commonbrain_import.brain_db_drafts import (
    PIN,
    answer_draft,
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
from commonbrain_import.databases import (
    Meter,
    Row,
    SqliteTables,
    fitted,
    names_in,
    number_in,
    omissions,
    open_sqlite,
    readable,
    row_count,
    share_in,
    text_in,
)
from commonbrain_import.json_files import BoundedJson

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

    def find(self, home: Path) -> Iterator[Found]:
        """Return the folder in OpenClaw's workspace if one of the files is there."""
        folder = home / ".openclaw" / "workspace" / "memory"
        sizes = [path.stat().st_size for path in _files_in(folder)]
        if sizes:
            yield Found(path=folder, count=len(sizes), size_bytes=sum(sizes))

    def read(self, source: Path, project: str | None) -> Iterator[Piece]:
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
                content = piece.content
                if project and isinstance(content, Draft):
                    content = replace(content, project=name(project))
                progress = min((before + piece.progress * size) / bytes_total, 1.0)
                yield replace(piece, content=content, progress=progress)
            before += size


_Reader = Callable[[Path], Iterator[Piece]]


def _files_in(folder: Path) -> list[Path]:
    named = [folder / one for one in _FILES]
    return [one for one in named if one.is_file() and is_inside(one, folder)]


def _read_file(file: Path, reader: "_Reader | str") -> Iterator[Piece]:
    if isinstance(reader, str):
        yield Piece(content=Unreadable(where=file.name, reason=reader), progress=1.0)
    else:
        yield from reader(file)


def _reader_of(file: Path) -> "_Reader | str":
    """Return what reads a file, by what is in it, or why nothing does."""
    if not file.is_file():
        return f"there is no file {file}."
    if is_sqlite(file):
        with open_sqlite(file, hint=_HINT) as tables:
            fitting = [reader for needed, reader in _DATABASES if needed <= set(tables.columns)]
        return fitting[0] if fitting else f"{file.name} has other tables."
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


def _read_database(file: Path) -> Iterator[Piece]:
    with open_sqlite(file, hint=_HINT) as tables:
        meter = Meter(total=row_count(tables, _READ))
        yield from _messages(tables, meter)
        yield from _acks(tables, meter)
        for table, (columns, make) in _TABLES.items():
            for row in readable(tables, table, columns=columns, order="rowid", meter=meter):
                yield from [row] if isinstance(row, Piece) else _pieces(make(row), meter)
        yield from _provenance(tables, meter)
        yield from _links(tables, meter)
        yield from map(meter.piece, _omitted(tables))


def _pieces(contents: Iterator[Draft | Unreadable], meter: Meter) -> Iterator[Piece]:
    """Make pieces; a draft without a kind is a pin, whose words decide."""
    for content in contents:
        is_pinned = isinstance(content, Draft) and content.label == PIN
        yield meter.piece(content, is_pinned=is_pinned)


_MESSAGE_COLUMNS: Final = (
    *("id", "thread_id", "parent_id", "from_agent", "to_agent", "priority", "subject", "body"),
    *("created_at", "expires_at", "task_status", "result", "context"),
)


def _messages(tables: SqliteTables, meter: Meter) -> Iterator[Piece]:
    for row in readable(tables, "messages", columns=_MESSAGE_COLUMNS, order="rowid", meter=meter):
        if isinstance(row, Piece):
            yield row
            continue
        thread = _thread_row(tables, text_in(row, "thread_id"))
        yield from _pieces(message_drafts(row, thread), meter)


def _thread_row(tables: SqliteTables, id_: str) -> Row:
    """Return the subject and tags of a thread."""
    there = [one for one in ("subject", "tags") if one in tables.columns.get("threads", ())]
    if not there:
        return {}
    statement = f"SELECT {', '.join(there)} FROM threads WHERE id = ?"  # noqa: S608 two constants
    values = tables.connection.execute(statement, (id_,)).fetchone()
    return dict(zip(there, values, strict=True)) if values else {}


def _acks(tables: SqliteTables, meter: Meter) -> Iterator[Piece]:
    """Yield the answers to messages as messages of their threads, and count the silent ones."""
    columns = ("message_id", "agent_id", "ack_body", "acked_at")
    silent = 0
    for row in readable(tables, "acks", columns=columns, order="rowid", meter=meter):
        if isinstance(row, Piece):
            yield row
            continue
        statement = "SELECT thread_id, subject FROM messages WHERE id = ?"
        answered = tables.connection.execute(statement, (row.get("message_id"),)).fetchone()
        names = ("thread_id", "subject")
        answer = answer_draft(row, dict(zip(names, answered, strict=True)) if answered else {})
        silent += answer is None
        if answer is not None:
            yield from map(meter.piece, fitted(answer))
    if silent:
        yield meter.piece(Omitted(what="acknowledgements without a text", count=silent))


_Make = Callable[[Row], Iterator[Draft | Unreadable]]
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


def _provenance(tables: SqliteTables, meter: Meter) -> Iterator[Piece]:
    """Yield what entries and atoms were made from, and which message answers which."""
    derived = ("id", "content", "created_at", "source_message_id", "source_memory_id")
    for table, own in (("stm", "stm"), ("atoms", "atom")):
        for row in tables.rows(table, derived, order="rowid"):
            if isinstance(row, Unreadable):
                continue  # Reported when the drafts were read.
            first = memory_ref(row) if own == "stm" else reference(f"atom/{text_in(row, 'id')}")
            second = reference_of(text_in(row, "source_message_id", "source_memory_id"))
            if second is not None:
                relation = Relation(first=first, second=second, type=LinkType.DERIVED_FROM)
                yield meter.piece(relation)
    for row in tables.rows("messages", ("id", "parent_id"), order="rowid"):
        if not isinstance(row, Unreadable) and text_in(row, "parent_id"):
            first, second = (
                reference(f"message/{text_in(row, one)}") for one in ("id", "parent_id")
            )
            yield meter.piece(Relation(first=first, second=second, type=LinkType.ABOUT))


def _links(tables: SqliteTables, meter: Meter) -> Iterator[Piece]:
    """Yield the causal links between atoms."""
    columns = ("from_atom_id", "to_atom_id", "link_type", "strength")
    for table in ("atom_links", "causal_links"):
        for row in readable(tables, table, columns=columns, order="rowid", meter=meter):
            if isinstance(row, Piece):
                yield row
                continue
            sort = text_in(row, "link_type") or LinkType.CAUSES
            relation = Relation(
                first=reference(f"atom/{text_in(row, 'from_atom_id')}"),
                second=reference(f"atom/{text_in(row, 'to_atom_id')}"),
                type=LinkType(sort) if sort in tuple(LinkType) else LinkType.RELATES_TO,
                strength=share_in(row, "strength"),
            )
            yield meter.piece(relation)


def _omitted(tables: SqliteTables) -> Iterator[Omitted]:
    """Count what is not carried over, and the rows of tables that later versions have added."""
    yield from omissions(tables, _OMITTED)
    named = {table for table, column in _OMITTED.values() if column is None}
    others = [
        one
        for one in tables.columns
        if one not in _READ | named and "_fts" not in one and not one.startswith("sqlite_")
    ]
    yield from omissions(tables, {f"rows of the table {one}": (one, None) for one in others})


_DATABASES: Final[tuple[tuple[frozenset[str], _Reader], ...]] = tuple(
    (frozenset(needed), _read_database)
    for needed in ({"messages", "threads"}, {"atoms", "causal_links"}, {"memories"})
)
"""The tables by which a database is known; all are read alike, as far as they are there."""


# JSON files


def _elements(file: Path, key: str) -> Iterator[tuple[Row | Unreadable, float]]:
    """Yield the objects of a list one by one, each with the share of the file read so far."""
    size = max(file.stat().st_size, 1)
    done = 0
    with file.open("rb") as stream:
        try:
            for value in _ijson().items(BoundedJson(stream), f"{key}.item"):
                done += 1
                row = as_object(value)
                wrong = Unreadable(where=f"{file.name}, {key} {done}", reason="It is no object.")
                yield wrong if row is None else row, stream.tell() / size
        except (_ijson().JSONError, ValueError) as error:
            reason = f"From here on it cannot be read: {str(error).partition(chr(10))[0]}"
            yield Unreadable(where=f"{file.name}, after {key} {done}", reason=reason), 1.0


def _read_list(file: Path, key: str, *, make: _Make) -> Iterator[Piece]:
    counts = 0
    for row, progress in _elements(file, key):
        contents = iter([row]) if isinstance(row, Unreadable) else make(row)
        counts += not isinstance(row, Unreadable) and bool(number_in(row, "access_count"))
        for piece in _pieces(contents, Meter(total=1)):
            yield replace(piece, progress=min(progress, 1.0))
    if counts:
        yield Piece(content=Omitted(what="access counts", count=counts), progress=1.0)


def _read_synapse(file: Path) -> Iterator[Piece]:
    """Yield messages with their answers, and count the receipts."""
    receipts = 0
    yield from _read_list(file, "messages", make=_message_and_answer)
    for row, _ in _elements(file, "messages"):
        receipts += 0 if isinstance(row, Unreadable) else len(as_list(row.get("read_by")) or ())
    if receipts:
        yield Piece(content=Omitted(what="read receipts", count=receipts), progress=1.0)


def _message_and_answer(row: Row) -> Iterator[Draft | Unreadable]:
    yield from message_drafts(row, {})
    readers = names_in(row.get("read_by"))
    # As `migrate.py` does: the file does not say who of its readers acknowledged a message.
    agent = next(iter(readers), text_in(row, "to") or "unknown")
    answered = {**row, "message_id": row.get("id"), "agent_id": agent}
    answer = answer_draft({**answered, "acked_at": row.get("timestamp")}, row)
    if answer is not None:
        yield from fitted(answer)


def _read_categories(file: Path) -> Iterator[Piece]:
    with file.open("rb") as stream:
        try:
            for key, value in cast(
                "Iterator[tuple[str, object]]", _ijson().kvitems(BoundedJson(stream), "categories")
            ):
                row = {**(as_object(value) or {}), "name": key}
                yield from _pieces(category_drafts(row), Meter(total=1))
        except (_ijson().JSONError, ValueError) as error:
            reason = f"From here on it cannot be read: {str(error).partition(chr(10))[0]}"
            yield Piece(content=Unreadable(where=file.name, reason=reason), progress=1.0)


_JSON_FILES: Final[Mapping[str, _Reader]] = {
    "messages": _read_synapse,
    "short_term_memory": lambda file: _read_list(file, "short_term_memory", make=memory_drafts),
    "items": lambda file: _read_list(file, "items", make=pin_drafts),
    "categories": _read_categories,
}


IMPORTER: Final = BrainDb()
