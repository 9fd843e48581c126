"""Brainstem: the memories of one tenant in its SQLite database.

Written by `src/brainstem/store.py` and `graph.py` of https://github.com/hookdump/Brainstem (0.3.0),
schema in `migrations/0001_initial.sql`. A database may hold several tenants, who must not see each
other's memories; the source then names one: `brainstem.db#t_123`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import EventDetail, Kind, kind_and_label
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Scope, Trust
from commonbrain.transfer.importer import (
    Content,
    DetectedSource,
    ImportItem,
    Unreadable,
    file_found,
    name_or_none,
    source_reference,
    split_part,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain_import.databases import (
    SqliteTables,
    TableMeter,
    check_part,
    omissions,
    open_sqlite,
)
from commonbrain_import.rows import Row, flag_in, names_in, share_in, text_in, time_in

_HINT: Final = "Name the file of BRAINSTEM_SQLITE_PATH, by default brainstem.db."
_COLUMNS: Final = (
    *("memory_id", "tenant_id", "agent_id", "type", "scope", "text", "trust_level", "confidence"),
    *("salience", "source_ref", "created_at", "expires_at", "tombstoned"),
)
_OMITTED: Final = {
    "links computed from shared words": ("graph_edges", None),
    "terms of the link graph": ("graph_terms", None),
    "replies for idempotency keys": ("idempotency_records", None),
    "versions of trained models": ("model_registry_state", None),
    "signals of trained models": ("model_registry_signal", None),
    "events of trained models": ("model_registry_event", None),
}


@dataclass(frozen=True, slots=True)
class BrainstemDatabase:
    """Reads the SQLite database of a Brainstem server."""

    name: str = "brainstem"
    purpose: str = "Brainstem's SQLite database: brainstem.db"
    has_relations: bool = False
    reads_part: bool = True

    def find(self, home: Path) -> Iterator[DetectedSource]:
        """Return the database in the home folder; elsewhere it has no usual place."""
        yield from file_found(home / "brainstem.db")

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the memories of one tenant in the order of their creation.

        Raises:
            InvalidInputError: the file is missing or no database of Brainstem, or it holds several
                tenants and the source does not name one; raised before the first piece.

        """
        # There may be a file of that very name.
        file, tenant = (source, None) if source.exists() else split_part(source)
        with open_sqlite(file, hint=_HINT) as tables:
            if not {"memory_id", "text"} <= set(tables.columns.get("memory_items", ())):
                raise InvalidInputError(f"{file} is no database of Brainstem.", hint=_HINT)
            chosen = check_part(_tenants(tables), file, part=tenant, called="tenant")
            reader = _Reader(tenant=chosen)
            meter = TableMeter(total=tables.count("memory_items"))
            yield from meter.read(
                tables, "memory_items", columns=_COLUMNS, order="rowid", make=reader.read
            )
            reader.tally.update(omissions(tables, _OMITTED))
            yield from reader.tally.pieces()


def _tenants(tables: SqliteTables) -> set[str]:
    rows = tables.rows("memory_items", ("tenant_id",), order="rowid")
    # A damaged row is not read later either, of any tenant or user.
    return {text_in(row, "tenant_id") for row in rows if not isinstance(row, Unreadable)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Makes drafts of one tenant's memories, and counts what is left out."""

    tenant: str
    tally: Tally = field(default_factory=Tally)

    def read(self, row: Row) -> Iterator[Content]:
        if text_in(row, "tenant_id") != self.tenant:
            self.tally["memories of other tenants"] += 1
        elif flag_in(row, "tombstoned"):
            self.tally["deleted memories"] += 1
        else:
            is_shared = text_in(row, "scope") == Scope.GLOBAL
            self.tally["global scopes, stored for the team"] += is_shared
            is_ranked = share_in(row, "salience") is not None
            is_unranked = is_ranked and text_in(row, "type") != Kind.EVENT
            self.tally["salience of other kinds than events"] += is_unranked
            yield from _contents(row)


def _contents(row: Row) -> Iterator[Draft | Unreadable]:
    named = kind_and_label(text_in(row, "type")) or (Kind.EVENT, text_in(row, "type"))
    source = text_in(row, "source_ref")
    is_event = named[0] is Kind.EVENT
    draft = Draft(
        body=text_in(row, "text"),
        kind=named[0],
        label=name_or_none(named[1]),
        scope=Scope.PRIVATE if text_in(row, "scope") == Scope.PRIVATE else Scope.TEAM,
        # What came from the web stays suspect; a higher claim is not the importer's to make.
        trust=Trust.UNTRUSTED_WEB if text_in(row, "trust_level") == "untrusted_web" else None,
        confidence=share_in(row, "confidence"),
        tags=names_in([f"source:{source}"]) if source else (),
        source_ref=source_reference("brainstem", text_in(row, "memory_id")),
        occurred_at=time_in(row, "created_at"),
        expires_at=time_in(row, "expires_at"),
        author=name_or_none(text_in(row, "agent_id")),
        detail=EventDetail(importance=share_in(row, "salience")) if is_event else None,
    )
    yield draft


IMPORTER: Final = BrainstemDatabase()
