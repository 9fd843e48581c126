"""Brainstem: the memories of one tenant, from Postgres, a plain dump of it or SQLite.

The schema is that of its specification, section 7 of https://github.com/hookdump/Brainstem; the
SQLite database that its program writes (0.3.0, `migrations/0001_initial.sql`) has fewer tables, and
other names for two columns. A database may hold several tenants, who must not see each other's
memories; the source then names one: `brainstem.db#t_123`.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from commonbrain.model.attachments import attachment_text
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, kind_and_label
from commonbrain.model.limits import ATTACHMENT_BYTES_MAX
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Scope, Trust
from commonbrain.transfer.importer import (
    Content,
    Importer,
    ImportItem,
    SourceRelation,
    check_is_path,
    database_url,
    name_or_none,
    shown_source,
    source_reference,
    split_part,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.json_lines import as_object
from commonbrain.transfer.snapshots import is_sqlite
from commonbrain_import.databases import (
    SqliteTables,
    TableMeter,
    Tables,
    check_part,
    omissions,
    open_sqlite,
    readable,
    row_count,
)
from commonbrain_import.graphs import link_type
from commonbrain_import.postgres_tables import open_postgres
from commonbrain_import.rows import Row, flag_in, json_in, share_in, text_in, time_in

_HINT: Final = (
    "Give the URL of its database, such as postgresql://brainstem@localhost/brainstem, a plain "
    "dump of pg_dump, or the file of BRAINSTEM_SQLITE_PATH, by default brainstem.db."
)
_COLUMNS: Final = (
    "id memory_id tenant_id agent_id type scope text json_payload trust_level confidence salience "
    "source_ref semantic_hash created_at expires_at is_tombstoned tombstoned"
).split()
_EDGE_COLUMNS: Final = "id tenant_id from_memory_id to_memory_id relation_type weight".split()
_OMITTED: Final = {
    "names and policies of tenants, which brain tenant policy sets": ("tenants", None),
    "roles of agents, which brain agent set sets": ("agents", None),
    "audit entries": ("memory_audit_log", None),
    "versions of trained models, which brain train makes anew": ("model_registry", None),
    "links computed from shared words": ("graph_edges", None),
    "terms of the link graph": ("graph_terms", None),
    "replies for idempotency keys": ("idempotency_records", None),
    "states of trained models": ("model_registry_state", None),
    "signals of trained models": ("model_registry_signal", None),
    "events of trained models": ("model_registry_event", None),
}
"""Tables that are not carried over."""


class BrainstemDatabase(Importer):
    """Reads the database of a Brainstem server."""

    name = "brainstem"
    purpose = "Brainstem: a Postgres URL, a plain pg_dump file, or brainstem.db"
    has_relations = True
    reads_part = True
    reads_database = True
    places = ("brainstem.db",)

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the memories of one tenant in the order of their creation, then their links.

        Raises:
            InvalidInputError: the database or the file cannot be read or is not of Brainstem, or it
                holds several tenants and the source does not name one; raised before the first
                piece.

        """
        place, tenant = _split_tenant(source)
        shown = shown_source(place)
        with _opened(place) as tables:
            columns = set(tables.columns.get("memory_items", ()))
            if not ({"id", "memory_id"} & columns and {"tenant_id", "text"} <= columns):
                raise InvalidInputError(f"{shown} is no database of Brainstem.", hint=_HINT)
            chosen = check_part(
                _tenants(tables), shown, part=tenant, called="tenant", format_=self.name
            )
            yield from _pieces(tables, _Reader(tenant=chosen, has_vectors="embedding" in columns))


def _split_tenant(source: Path) -> tuple[str | Path, str | None]:
    """Return a URL or a file, and the tenant that the source names."""
    url = database_url(source)
    if url is None:
        check_is_path(source)
        # There may be a file of that very name.
        return (source, None) if source.exists() else split_part(source)
    address, marked, tenant = url.rpartition("#")
    # Before a server's name, the sign belongs to a password.
    is_named = bool(marked) and "://" in address and "@" not in tenant
    return (address, tenant) if is_named else (url, None)


def _opened(place: str | Path) -> AbstractContextManager[Tables]:
    if isinstance(place, Path) and is_sqlite(place):
        return open_sqlite(place, hint=_HINT)
    return open_postgres(place, hint=_HINT)


def _pieces(tables: Tables, reader: "_Reader") -> Iterator[ImportItem]:
    meter = TableMeter(total=row_count(tables, ("memory_items", "memory_edges")))
    yield from meter.read(
        tables, "memory_items", columns=_COLUMNS, order=_order(tables), make=reader.memory
    )
    yield from meter.read(tables, "memory_edges", columns=_EDGE_COLUMNS, make=reader.edge)
    known = {"memory_items": (*_COLUMNS, "embedding"), "memory_edges": _EDGE_COLUMNS}
    reader.tally.update(omissions(tables, _OMITTED, known=known))
    for what, (table, _) in _OMITTED.items():
        # Of all rows, only those of the tenant are left out here.
        reader.tally[what] = _count(tables, table, tenant=reader.tenant)
    unread = tables.count_unread(("memory_items", "memory_edges"))
    reader.tally["rows of the same tables in other schemas"] += unread
    yield from reader.tally.pieces()


def _order(tables: Tables) -> str:
    # A damaged table of SQLite is read up to the damage, unless it has to be sorted.
    return "rowid" if isinstance(tables, SqliteTables) else "created_at"


def _tenants(tables: Tables) -> set[str]:
    # A damaged row is not read later either, of any tenant or user.
    rows = readable(tables, "memory_items", columns=("tenant_id",), order=_order(tables))
    return {text_in(row, "tenant_id") for row in rows}


def _count(tables: Tables, table: str, *, tenant: str) -> int:
    """Count the rows of a tenant, and those of none; a model may be everyone's."""
    column = "id" if table == "tenants" else "tenant_id"
    if column not in tables.columns.get(table, ()):
        return row_count(tables, (table,))
    rows = readable(tables, table, columns=(column,), order=column)
    return sum(text_in(row, column) in {tenant, ""} for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Makes drafts and relations of one tenant's rows, and counts what is left out."""

    tenant: str
    has_vectors: bool
    tally: Tally = field(default_factory=Tally)

    def memory(self, row: Row) -> Iterator[Content]:
        if text_in(row, "tenant_id") != self.tenant:
            self.tally["memories of other tenants"] += 1
        elif flag_in(row, "is_tombstoned") or flag_in(row, "tombstoned"):
            self.tally["deleted memories"] += 1
        else:
            self.tally["vectors, which are computed anew"] += self.has_vectors
            has_hash = bool(text_in(row, "semantic_hash"))
            self.tally["hashes of texts, which are computed anew"] += has_hash
            yield self._draft(row)

    def _draft(self, row: Row) -> Draft:
        type_, scope, trust = (text_in(row, name) for name in ("type", "scope", "trust_level"))
        kind, label = kind_and_label(type_) or (Kind.EVENT, type_)
        self.tally["unknown scopes, stored for the team"] += scope not in tuple(Scope)
        self.tally["unknown trust levels"] += trust not in tuple(Trust)
        created_at = time_in(row, "created_at")
        origin = text_in(row, "source_ref")
        return Draft(
            body=text_in(row, "text"),
            kind=kind,
            label=name_or_none(label),
            scope=Scope(scope) if scope in tuple(Scope) else Scope.TEAM,
            trust=Trust(trust) if trust in tuple(Trust) else None,
            confidence=share_in(row, "confidence"),
            salience=share_in(row, "salience"),
            source_ref=_ref(row, "id", "memory_id"),
            original_ref=source_reference(origin, "") if origin else None,
            occurred_at=created_at,
            believed_since=created_at,
            expires_at=time_in(row, "expires_at"),
            author=name_or_none(text_in(row, "agent_id")),
            attachment=self._attachment(row),
        )

    def _attachment(self, row: Row) -> Mapping[str, object] | None:
        """Return the payload as an object; what is none has the name of the column there."""
        given = row.get("json_payload")
        if given is None:
            return None
        value = json_in(row, "json_payload")
        payload = as_object(value)
        if payload is None:
            payload = {"json_payload": given if value is None else value}
        try:
            is_large = len(attachment_text(payload).encode()) > ATTACHMENT_BYTES_MAX
        except InvalidInputError:
            is_large = True
        self.tally[f"payloads of more than {ATTACHMENT_BYTES_MAX:,} bytes, or no JSON"] += is_large
        return payload if payload and not is_large else None

    def edge(self, row: Row) -> Iterator[Content]:
        first, second = _ref(row, "from_memory_id"), _ref(row, "to_memory_id")
        if text_in(row, "tenant_id") != self.tenant:
            self.tally["links of other tenants"] += 1
        elif first == second:
            self.tally["links of a memory to itself"] += 1
        else:
            relation = text_in(row, "relation_type")
            type_ = link_type(relation)
            yield SourceRelation(
                first=first,
                second=second,
                type=type_,
                strength=share_in(row, "weight"),
                reason=relation if relation != type_ else None,
            )


def _ref(row: Row, *columns: str) -> str:
    return source_reference("brainstem", text_in(row, *columns))


IMPORTER: Final = BrainstemDatabase()
