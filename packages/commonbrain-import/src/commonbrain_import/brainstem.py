"""Brainstem: the memories of one tenant in its SQLite database.

Written by `src/brainstem/store.py` and `graph.py` of https://github.com/hookdump/Brainstem (0.3.0),
schema in `migrations/0001_initial.sql`. A database may hold several tenants, who must not see each
other's memories; the source then names one: `brainstem.db#t_123`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import EventDetail, Kind, kind_and_label
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Scope, Trust
from commonbrain.transfer.importer import (
    Found,
    Omitted,
    Piece,
    Unreadable,
    file_found,
    split_part,
)
from commonbrain.transfer.importers.markdown import name, source_reference
from commonbrain_import.databases import (
    Meter,
    Row,
    SqliteTables,
    fitted,
    flag_in,
    names_in,
    omissions,
    one_name,
    open_sqlite,
    readable,
    ruled,
    share_in,
    text_in,
    time_in,
)

_HINT: Final = "Name the file of BRAINSTEM_SQLITE_PATH, by default brainstem.db."
_COLUMNS: Final = (
    *("memory_id", "tenant_id", "agent_id", "type", "scope", "text", "trust_level", "confidence"),
    *("salience", "source_ref", "created_at", "expires_at", "tombstoned"),
)
_TENANTS_SHOWN_MAX: Final = 20
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

    def find(self, home: Path) -> Iterator[Found]:
        """Return the database in the home folder; elsewhere it has no usual place."""
        yield from file_found(home / "brainstem.db")

    def read(self, source: Path, project: str | None) -> Iterator[Piece]:
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
            chosen = _choose_tenant(tables, file, tenant=tenant)
            yield from _read(tables, chosen, project=project)


def _choose_tenant(tables: SqliteTables, file: Path, *, tenant: str | None) -> str | None:
    rows = tables.rows("memory_items", ("tenant_id",), order="rowid")
    # A damaged row is not read later either, of any tenant or user.
    tenants = sorted({text_in(row, "tenant_id") for row in rows if not isinstance(row, Unreadable)})
    shown = ", ".join(tenants[:_TENANTS_SHOWN_MAX])
    if tenant is not None and tenant not in tenants:
        raise InvalidInputError(
            f"{file} has no tenant {tenant[:40]!r}.", hint=f"It has {shown or 'none'}."
        )
    if tenant is None and len(tenants) > 1:
        raise InvalidInputError(
            f"{file} holds {len(tenants)} tenants, whose memories must stay apart.",
            hint=f"Name one, such as {file.name}#{tenants[0]}; it has {shown}.",
        )
    return tenant or next(iter(tenants), None)


def _read(tables: SqliteTables, tenant: str | None, *, project: str | None) -> Iterator[Piece]:
    meter = Meter(total=tables.count("memory_items"))
    deleted = others = shared = unranked = 0
    for row in readable(tables, "memory_items", columns=_COLUMNS, order="rowid", meter=meter):
        if isinstance(row, Piece):
            yield row
        elif text_in(row, "tenant_id") != (tenant or ""):
            others += 1
        elif flag_in(row, "tombstoned"):
            deleted += 1
        else:
            shared += text_in(row, "scope") == Scope.GLOBAL
            unranked += text_in(row, "type") != Kind.EVENT and share_in(row, "salience") is not None
            yield from (meter.piece(content) for content in _contents(row, project=project))
    counted = {
        "deleted memories": deleted,
        "memories of other tenants": others,
        "global scopes, stored for the team": shared,
        "salience of other kinds than events": unranked,
    }
    for what, count in counted.items():
        if count:
            yield meter.piece(Omitted(what=what, count=count))
    yield from map(meter.piece, omissions(tables, _OMITTED))


def _contents(row: Row, *, project: str | None) -> Iterator[Draft | Unreadable]:
    where = source_reference("brainstem", text_in(row, "memory_id"))
    body = text_in(row, "text")
    if not body:
        yield Unreadable(where=where, reason="The memory has no text.")
        return
    named = kind_and_label(text_in(row, "type")) or (Kind.EVENT, text_in(row, "type"))
    source = text_in(row, "source_ref")
    is_event = named[0] is Kind.EVENT
    draft = Draft(
        body=body,
        kind=named[0],
        label=one_name(named[1] or ""),
        project=name(project) if project else None,
        scope=Scope.PRIVATE if text_in(row, "scope") == Scope.PRIVATE else Scope.TEAM,
        # What came from the web stays suspect; a higher claim is not the importer's to make.
        trust=Trust.UNTRUSTED_WEB if text_in(row, "trust_level") == "untrusted_web" else None,
        confidence=share_in(row, "confidence"),
        tags=names_in([f"source:{source}"]) if source else (),
        source_ref=where,
        occurred_at=time_in(row, "created_at"),
        expires_at=time_in(row, "expires_at"),
        author=one_name(text_in(row, "agent_id")),
        detail=EventDetail(importance=share_in(row, "salience")) if is_event else None,
    )
    yield from fitted(ruled(draft) if draft.kind is Kind.RULE else draft)


IMPORTER: Final = BrainstemDatabase()
