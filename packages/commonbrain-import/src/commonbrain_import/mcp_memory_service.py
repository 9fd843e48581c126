"""mcp-memory-service: its SQLite database, with links, versions and beliefs.

The tables are those of doobidoo/mcp-memory-service 12.4 (src/mcp_memory_service/storage/mixins/
migrations.py and storage/migrations/*.sql) and of earlier versions, which lack some columns. Its
vectors are in a virtual table that is not read. A memory that another one replaces is superseded; a
belief becomes a fact, derived from its observations, and a candidate if it is one there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import kind_and_label
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft
from commonbrain.text.classification import classify
from commonbrain.transfer.importer import (
    Content,
    Importer,
    ImportItem,
    SourceRelation,
    name_or_none,
    source_reference,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.json_lines import as_object
from commonbrain_import.databases import SqliteTables, TableMeter, omissions, open_sqlite, row_count
from commonbrain_import.graphs import link_type
from commonbrain_import.rows import (
    Row,
    ids_in,
    json_in,
    names_in,
    share_in,
    text_in,
    time_in,
)

_HINT: Final = "Give the sqlite_vec.db of mcp-memory-service."
_MEMORIES: Final = (
    "id content_hash content tags memory_type metadata created_at created_at_iso deleted_at "
    "confidence superseded_by store"
).split()
_EDGES: Final = "source_hash target_hash similarity relationship_type".split()
_BELIEFS: Final = (
    "belief_hash content confidence status created_at derived_from contradicted_by"
).split()
_KINDS: Final = {"error": "incident", "learning": "insight", "planning": "plan", "todo": "task"}
"""Its types with another name here; others are kinds or labels here, or become labels."""
_CERTAIN: Final = 1.0
"""Its default, which says nothing about a memory."""
_SYMMETRIC: Final = frozenset({LinkType.RELATES_TO, LinkType.CONFLICTS_WITH})
"""Links that it stores in both directions."""
_OMITTED: Final = {
    "deleted memories": ("memories", "deleted_at"),
    "vectors": ("memory_embeddings_rowids", None),
}
"""The second is an ordinary table behind the virtual one."""
_SUPERSEDED: Final = "superseded"
_NO_TAG: Final = "untagged"
"""The tag that it gives to a memory without one."""


class McpMemoryService(Importer):
    """Reads the database of mcp-memory-service."""

    name = "mcp-memory-service"
    purpose = "The database of mcp-memory-service: sqlite_vec.db"
    has_relations = True
    # By default, see src/mcp_memory_service/config/base.py.
    places = (
        ".local/share/mcp-memory/sqlite_vec.db",
        "Library/Application Support/mcp-memory/sqlite_vec.db",
        "AppData/Local/mcp-memory/sqlite_vec.db",
    )

    def read(self, source: Path) -> Iterator[ImportItem]:
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
            reader = _Reader(tables=tables)
            read = (
                ("memories", _MEMORIES, reader.memory),
                ("beliefs", _BELIEFS, reader.belief),
                ("beliefs", _BELIEFS, _grounds),
                ("memories", _MEMORIES, _supersession),
            )
            names = [table for table, _, _ in read]
            meter = TableMeter(total=row_count(tables, [*names, "memory_graph"]))
            for table, columns, make in read:
                yield from meter.read(tables, table, columns=columns, make=make)
            yield from meter.read(
                tables, "memory_graph", columns=_EDGES, make=reader.link, order="rowid"
            )
            reader.tally.update(omissions(tables, _OMITTED))
            yield from reader.tally.pieces()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Makes drafts and links, and counts what is left out."""

    tables: SqliteTables
    tally: Tally = field(default_factory=Tally)

    def memory(self, row: Row) -> Iterator[Content]:
        if row.get("deleted_at"):
            return
        self.tally["values of metadata"] += len(as_object(json_in(row, "metadata")) or ())
        body, type_ = text_in(row, "content"), text_in(row, "memory_type")
        kind, label = kind_and_label(_KINDS.get(type_, type_)) or (classify(body), type_)
        store = text_in(row, "store")
        confidence = share_in(row, "confidence")
        yield Draft(
            body=body,
            kind=kind,
            label=name_or_none(label),
            project=name_or_none("" if store == "default" else store),
            confidence=None if confidence == _CERTAIN else confidence,
            tags=names_in([one for one in text_in(row, "tags").split(",") if one != _NO_TAG]),
            source_ref=_reference(text_in(row, "content_hash")),
            occurred_at=time_in(row, "created_at", "created_at_iso"),
        )

    def belief(self, row: Row) -> Iterator[Content]:
        status, body = text_in(row, "status"), text_in(row, "content")
        if status == _SUPERSEDED:
            self.tally["superseded beliefs"] += 1
            return
        yield Draft(
            body=body,
            kind=classify(body),
            label="belief",
            confidence=share_in(row, "confidence"),
            source_ref=_reference(text_in(row, "belief_hash")),
            occurred_at=time_in(row, "created_at"),
            is_candidate=status == "candidate",
        )

    def link(self, row: Row) -> Iterator[SourceRelation]:
        first, second = text_in(row, "source_hash"), text_in(row, "target_hash")
        type_ = link_type(text_in(row, "relationship_type"))
        is_repeated = type_ in _SYMMETRIC and first > second
        reverse = {"source_hash": second, "target_hash": first}
        if not (is_repeated and self.tables.where("memory_graph", _EDGES, **reverse)):
            yield SourceRelation(
                first=_reference(first),
                second=_reference(second),
                type=type_,
                strength=share_in(row, "similarity"),
            )


def _grounds(row: Row) -> Iterator[SourceRelation]:
    """Relate a belief to the memories that it is derived from, or contradicted by."""
    columns = {"derived_from": LinkType.DERIVED_FROM, "contradicted_by": LinkType.CONFLICTS_WITH}
    if text_in(row, "status") != _SUPERSEDED:
        first = _reference(text_in(row, "belief_hash"))
        for column, type_ in columns.items():
            for second in ids_in(json_in(row, column)):
                yield SourceRelation(first=first, second=_reference(second), type=type_)


def _supersession(row: Row) -> Iterator[SourceRelation]:
    newer, old = text_in(row, "superseded_by"), _reference(text_in(row, "content_hash"))
    if newer and not row.get("deleted_at"):
        yield SourceRelation(first=_reference(newer), second=old, type=None)


def _reference(hash_: str) -> str:
    return source_reference("mcp-memory-service", hash_)


IMPORTER: Final = McpMemoryService()
