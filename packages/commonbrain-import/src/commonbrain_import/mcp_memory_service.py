"""mcp-memory-service: its SQLite database, with links, versions and beliefs.

The tables are those of doobidoo/mcp-memory-service 12.4 (src/mcp_memory_service/storage/mixins/
migrations.py and storage/migrations/*.sql) and of earlier versions, which lack some columns. Its
vectors are in a virtual table that is not read. A memory that another one replaces is superseded; a
belief becomes a fact, derived from its observations, and a candidate if it is one there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import kind_and_label
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft
from commonbrain.text.classification import classify
from commonbrain.transfer.importer import (
    Content,
    Found,
    Omitted,
    Piece,
    Relation,
    Unreadable,
    file_found,
)
from commonbrain.transfer.importers.json_lines import as_object
from commonbrain.transfer.importers.markdown import source_reference
from commonbrain_import.databases import (
    Meter,
    Row,
    SqliteTables,
    fitted,
    ids_in,
    json_in,
    names_in,
    omissions,
    one_name,
    open_sqlite,
    readable,
    row_count,
    share_in,
    text_in,
    time_in,
)
from commonbrain_import.graphs import link_type

_HINT: Final = "Give the sqlite_vec.db of mcp-memory-service."
_MEMORIES: Final = (
    *("id", "content_hash", "content", "tags", "memory_type", "metadata", "created_at"),
    *("created_at_iso", "deleted_at", "confidence", "superseded_by", "store"),
)
_EDGES: Final = ("source_hash", "target_hash", "similarity", "relationship_type")
_BELIEFS: Final = (
    *("belief_hash", "content", "confidence", "status", "created_at"),
    *("derived_from", "contradicted_by"),
)
_KINDS: Final = {"error": "incident", "learning": "insight", "planning": "plan", "todo": "task"}
"""Its types with another name here; others are kinds or labels here, or become labels."""
_CERTAIN: Final = 1.0
"""Its default, which says nothing about a memory."""
_SYMMETRIC: Final = frozenset({LinkType.RELATES_TO, LinkType.CONFLICTS_WITH})
"""Links that it stores in both directions."""
_FOLDERS: Final = (
    ".local/share/mcp-memory",
    "Library/Application Support/mcp-memory",
    "AppData/Local/mcp-memory",
)
"""Where it stores by default (src/mcp_memory_service/config/base.py)."""
_OMITTED: Final = {
    "deleted memories": ("memories", "deleted_at"),
    "vectors": ("memory_embeddings_rowids", None),
}
"""The second is an ordinary table behind the virtual one."""
_NO_TAG: Final = "untagged"
"""The tag that it gives to a memory without one."""


@dataclass(frozen=True, slots=True)
class McpMemoryService:
    """Reads the database of mcp-memory-service."""

    name: str = "mcp-memory-service"
    purpose: str = "The database of mcp-memory-service: sqlite_vec.db"
    has_relations: bool = True

    def find(self, home: Path) -> Iterator[Found]:
        """Return the databases at the default paths of Linux, macOS and Windows."""
        for folder in _FOLDERS:
            yield from file_found(home / folder / "sqlite_vec.db")

    def read(self, source: Path, project: str | None) -> Iterator[Piece]:
        """Yield the memories in the order in which they were stored, then beliefs and relations.

        Raises:
            InvalidInputError: the file is missing, or not such a database; raised before the first
                piece.

        """
        with open_sqlite(source, hint=_HINT) as tables:
            if not {"content_hash", "content"} <= set(tables.columns.get("memories", ())):
                raise InvalidInputError(
                    f"{source} is not a database of mcp-memory-service.", hint=_HINT
                )
            meter = Meter(total=2 * row_count(tables, ("memories",)) + row_count(tables, _OTHERS))
            yield from _memories(tables, meter, project=project)
            yield from _beliefs(tables, meter, project=project)
            yield from _supersessions(tables, meter)
            yield from _links(tables, meter)
            for one in omissions(tables, _OMITTED):
                yield meter.piece(one)


_OTHERS: Final = ("beliefs", "beliefs", "memory_graph")
"""The tables that are read after the memories, by how often they are read."""


def _memories(tables: SqliteTables, meter: Meter, *, project: str | None) -> Iterator[Piece]:
    metadata_count = 0
    for row in readable(tables, "memories", columns=_MEMORIES, order="id", meter=meter):
        if isinstance(row, Piece):
            yield row
        elif not row.get("deleted_at"):
            metadata_count += len(as_object(json_in(row, "metadata")) or ())
            for content in _memory(row, project=project):
                yield meter.piece(content)
    if metadata_count:
        yield meter.piece(Omitted(what="values of metadata", count=metadata_count))


def _memory(row: Row, *, project: str | None) -> Iterator[Content]:
    body, type_ = text_in(row, "content"), text_in(row, "memory_type")
    where = _reference(text_in(row, "content_hash"))
    if not body:
        yield Unreadable(where=where, reason="The memory has no text.")
        return
    kind, label = kind_and_label(_KINDS.get(type_, type_)) or (classify(body), type_ or None)
    store = text_in(row, "store")
    confidence = share_in(row, "confidence")
    yield from fitted(
        Draft(
            body=body,
            kind=kind,
            label=one_name(label or ""),
            project=one_name(project or ("" if store == "default" else store)),
            confidence=None if confidence == _CERTAIN else confidence,
            tags=names_in([one for one in text_in(row, "tags").split(",") if one != _NO_TAG]),
            source_ref=where,
            occurred_at=time_in(row, "created_at", "created_at_iso"),
        )
    )


def _beliefs(tables: SqliteTables, meter: Meter, *, project: str | None) -> Iterator[Piece]:
    superseded = 0
    for row in readable(tables, "beliefs", columns=_BELIEFS, order="id", meter=meter):
        if isinstance(row, Piece):
            yield row
            continue
        status, body = text_in(row, "status"), text_in(row, "content")
        where = _reference(text_in(row, "belief_hash"))
        if status == "superseded":
            superseded += 1
        elif not body:
            yield meter.piece(Unreadable(where=where, reason="The belief has no text."))
        else:
            draft = Draft(
                body=body,
                kind=classify(body),
                label="belief",
                project=one_name(project or ""),
                confidence=share_in(row, "confidence"),
                source_ref=where,
                occurred_at=time_in(row, "created_at"),
                is_candidate=status == "candidate",
            )
            yield from map(meter.piece, fitted(draft))
    yield from map(meter.piece, _grounds(tables, meter))
    if superseded:
        yield meter.piece(Omitted(what="superseded beliefs", count=superseded))


def _grounds(tables: SqliteTables, meter: Meter) -> Iterator[Content]:
    """Relate beliefs to the memories that they are derived from, or contradicted by."""
    for row in readable(tables, "beliefs", columns=_BELIEFS, order="id", meter=meter):
        if isinstance(row, Piece) or text_in(row, "status") == "superseded":
            continue
        first = _reference(text_in(row, "belief_hash"))
        for column, type_ in (
            ("derived_from", LinkType.DERIVED_FROM),
            ("contradicted_by", LinkType.CONFLICTS_WITH),
        ):
            for second in ids_in(json_in(row, column)):
                yield Relation(first=first, second=_reference(second), type=type_)


def _supersessions(tables: SqliteTables, meter: Meter) -> Iterator[Piece]:
    columns = ("id", "content_hash", "superseded_by", "deleted_at")
    for row in readable(tables, "memories", columns=columns, order="id", meter=meter):
        if isinstance(row, Piece) or row.get("deleted_at"):
            continue
        newer = text_in(row, "superseded_by")
        if newer:
            old = _reference(text_in(row, "content_hash"))
            yield meter.piece(Relation(first=_reference(newer), second=old, type=None))


def _links(tables: SqliteTables, meter: Meter) -> Iterator[Piece]:
    for row in readable(tables, "memory_graph", columns=_EDGES, order="rowid", meter=meter):
        if isinstance(row, Piece):
            yield row
            continue
        first, second = text_in(row, "source_hash"), text_in(row, "target_hash")
        type_ = link_type(text_in(row, "relationship_type"))
        if type_ in _SYMMETRIC and first > second and _has_edge(tables, first=second, second=first):
            continue
        strength = share_in(row, "similarity")
        yield meter.piece(
            Relation(
                first=_reference(first), second=_reference(second), type=type_, strength=strength
            )
        )


def _has_edge(tables: SqliteTables, *, first: str, second: str) -> bool:
    cursor = tables.connection.execute(
        "SELECT 1 FROM memory_graph WHERE source_hash = ? AND target_hash = ?", (first, second)
    )
    return cursor.fetchone() is not None


def _reference(hash_: str) -> str:
    return source_reference("mcp-memory-service", hash_)


IMPORTER: Final = McpMemoryService()
