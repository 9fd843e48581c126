"""Checks of Postgres: the role, and whether indexes agree with rows."""

from collections.abc import Callable, Iterator
from typing import Final

from sqlalchemy import Connection, text

from commonbrain.model.kinds import CausalField
from commonbrain.model.memory import FINDABLE_STATES
from commonbrain.storage.interface import Finding
from commonbrain_server.postgres.roles import role_of

# ruff: noqa: S608 the statements are built from constants of this file alone
_STATES: Final = ", ".join(f"'{state}'" for state in sorted(FINDABLE_STATES))
_INDEXED: Final = f"m.state IN ({_STATES})"
_REPAIR: Final = "brain doctor --repair rebuilds derived data from the rows."
_ENGINE: Final = text(
    "SELECT current_setting('server_version'), "
    "(SELECT extversion FROM pg_extension WHERE extname = 'vector')"
)
_MISSING: Final = (
    f"SELECT count(*) FROM memories m WHERE m.tenant_id = :tenant AND {_INDEXED}{{0}} "
    "AND NOT EXISTS (SELECT 1 FROM {1} t "
    "WHERE t.tenant_id = m.tenant_id AND t.memory_id = m.id)"
)
_NO_MEMORY: Final = (
    "NOT EXISTS (SELECT 1 FROM memories m WHERE m.tenant_id = t.tenant_id "
    f"AND m.id = t.memory_id AND {_INDEXED})"
)
_STALE: Final = f"SELECT count(*) FROM {{0}} t WHERE t.tenant_id = :tenant AND {_NO_MEMORY}"
_VECTORS: Final = f"{_STALE} AND t.vector IS NOT NULL"
_SIZES: Final = (
    "SELECT count(*) FROM {0} t JOIN spaces s ON s.id = t.space_id WHERE t.tenant_id = :tenant "
    "AND t.vector IS NOT NULL AND vector_dims(t.vector) <> s.dimensions"
)
_COUNTS: Final = {
    "full text": ("memories missing from the full text", _MISSING.format("", "memory_text")),
    "full text, stale": (
        "entries of the full text without a memory",
        _STALE.format("memory_text"),
    ),
    "fields": (
        "atoms missing from the full text of fields",
        _MISSING.format(" AND m.kind = 'atom'", "atom_text"),
    ),
    "fields, stale": (
        "entries of the full text of fields without an atom",
        _STALE.format("atom_text"),
    ),
    "vectors": ("vectors of memories that cannot be found", _VECTORS.format("vectors")),
    "vectors, space": ("vectors of another size than their space's", _SIZES.format("vectors")),
    "vectors of fields": (
        "vectors of atoms that cannot be found",
        _VECTORS.format("field_vectors"),
    ),
    "vectors of fields, space": (
        "vectors of fields of another size than their space's",
        _SIZES.format("field_vectors"),
    ),
}
_HAS_FIELDS: Final = " OR ".join(f"a.{name} <> ''" for name in CausalField)
_EMBEDDED: Final = (
    "EXISTS (SELECT 1 FROM {0} v WHERE v.tenant_id = m.tenant_id AND v.memory_id = m.id "
    "AND v.space_id = :space AND v.vector IS NOT NULL)"
)
_WAITING: Final = text(
    f"SELECT count(*) FROM memories m WHERE m.tenant_id = :tenant AND {_INDEXED} "
    f"AND (NOT {_EMBEDDED.format('vectors')} OR (m.kind = 'atom' AND EXISTS "
    "(SELECT 1 FROM atoms a WHERE a.tenant_id = m.tenant_id AND a.memory_id = m.id "
    f"AND ({_HAS_FIELDS})) AND NOT {_EMBEDDED.format('field_vectors')}))"
)
_CLEAR: Final = tuple(
    text(f"DELETE FROM {table} t WHERE t.tenant_id = :tenant AND {_NO_MEMORY}")
    for table in ("memory_text", "atom_text")
)


def examine_postgres(
    connection: Connection, space_id: int, *, tenants: Callable[[], Iterator[str]]
) -> list[Finding]:
    """Check the engine, the role, and the derived data of each tenant."""
    counts = dict.fromkeys(_COUNTS, 0)
    waiting = 0
    for tenant in tenants():
        own = {"tenant": tenant}
        for check, (_, query) in _COUNTS.items():
            counts[check] += connection.execute(text(query), own).scalar_one()
        waiting += connection.execute(_WAITING, own | {"space": space_id}).scalar_one()
    return [
        _engine(connection),
        _role(connection),
        *(_count(check, count) for check, count in counts.items()),
        Finding(
            check="embeddings",
            is_sound=True,
            detail=f"{waiting} memories wait for one",
            hint="brain doctor --repair embeds them." if waiting else "",
        ),
    ]


def clear_text(connection: Connection, tenant: str) -> None:
    """Remove full-text entries of a tenant without a memory."""
    for statement in _CLEAR:
        connection.execute(statement, {"tenant": tenant})


def _engine(connection: Connection) -> Finding:
    version, vector = connection.execute(_ENGINE).one()
    return Finding(check="engine", is_sound=True, detail=f"Postgres {version}, pgvector {vector}")


def _role(connection: Connection) -> Finding:
    role = role_of(connection)
    return Finding(
        check="role",
        is_sound=role.is_confined,
        detail=f"{role.name} "
        + ("is under row-level security" if role.is_confined else role.why_not),
        hint="" if role.is_confined else "brain store upgrade --grant ROLE makes one that is.",
    )


def _count(check: str, count: int) -> Finding:
    what, _ = _COUNTS[check]
    hint = _REPAIR if count else ""
    return Finding(check=check, is_sound=count == 0, detail=f"{count} {what}", hint=hint)
