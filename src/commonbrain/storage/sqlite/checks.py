"""Checks of a SQLite file: its integrity, and whether indexes agree with rows."""

from contextlib import suppress
from typing import Final

from sqlalchemy import Connection, exc, text

from commonbrain.model.kinds import CausalField
from commonbrain.model.memory import FINDABLE_STATES
from commonbrain.storage.interface import Finding
from commonbrain.storage.sqlite.file import StoreFile, restore_hint

# Every searchable memory must be in the full text, and nothing else. Contentless FTS5 has one row
# per document in memory_text_docsize.
_STATES: Final = ", ".join(f"'{state}'" for state in sorted(FINDABLE_STATES))
_INDEXED: Final = f"state IN ({_STATES})"
# ruff: noqa: S608 the statements are built from constants of this file alone
REPAIR: Final = "brain doctor --repair rebuilds derived data from the rows."
_STALE_TEXT: Final = f"NOT IN (SELECT id FROM memories WHERE {_INDEXED})"
_STALE_FIELDS: Final = f"NOT IN (SELECT id FROM memories WHERE kind = 'atom' AND {_INDEXED})"
_VECTORS: Final = (
    "SELECT count(*) FROM {0} v JOIN memories m ON m.tenant_id = v.tenant_id "
    f"AND m.id = v.memory_id WHERE v.vector IS NOT NULL AND NOT m.{_INDEXED}"
)
_SIZES: Final = (
    "SELECT count(*) FROM {0} v JOIN spaces s ON s.id = v.space_id "
    "WHERE v.vector IS NOT NULL AND length(v.vector) <> 2 * s.dimensions"
)
_COUNTS: Final = {
    "full text": (
        "memories missing from the full text",
        f"SELECT count(*) FROM memories WHERE {_INDEXED} "
        "AND id NOT IN (SELECT id FROM memory_text_docsize)",
    ),
    "full text, stale": (
        "entries of the full text without a memory",
        f"SELECT count(*) FROM memory_text_docsize WHERE id {_STALE_TEXT}",
    ),
    "fields": (
        "atoms missing from the full text of fields",
        f"SELECT count(*) FROM memories WHERE kind = 'atom' AND {_INDEXED} "
        "AND id NOT IN (SELECT id FROM atom_text_docsize)",
    ),
    "fields, stale": (
        "entries of the full text of fields without an atom",
        f"SELECT count(*) FROM atom_text_docsize WHERE id {_STALE_FIELDS}",
    ),
    "vectors": (
        "vectors of memories that cannot be found",
        _VECTORS.format("vectors"),
    ),
    "vectors, space": (
        "vectors of another size than their space's",
        _SIZES.format("vectors"),
    ),
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


def _embedded(vectors: str) -> str:
    """Return SQL that tests whether memory `m` has vectors in a table."""
    return (
        f"EXISTS (SELECT 1 FROM {vectors} v WHERE v.tenant_id = m.tenant_id "
        "AND v.memory_id = m.id AND v.space_id = :space AND v.vector IS NOT NULL)"
    )


def find_damage(connection: Connection) -> str | None:
    """Return what is damaged in the rows; None if nothing is."""
    run = connection.exec_driver_sql
    pages = [row[0] for row in run("PRAGMA integrity_check(10)")]
    if pages != ["ok"] and not is_derived(pages):
        return "; ".join(pages)
    return "a reference leads nowhere" if run("PRAGMA foreign_key_check").fetchone() else None


def examine_sqlite(connection: Connection, space_id: int, *, file: StoreFile) -> list[Finding]:
    """Check pages, journal mode, references, and data derived from rows."""
    run = connection.exec_driver_sql
    version = run("SELECT sqlite_version()").scalar_one()
    mode = run("PRAGMA journal_mode").scalar_one()
    # A search first: FTS5 compares its cached index with pages that other connections have changed
    # since and reports corruption, unless it was queried in between. Real corruption is reported by
    # the next check.
    with suppress(exc.DatabaseError):
        run("SELECT rowid FROM memory_text WHERE memory_text MATCH 'a' LIMIT 1").all()
        run("SELECT rowid FROM atom_text WHERE atom_text MATCH 'a' LIMIT 1").all()
    pages = [row[0] for row in run("PRAGMA integrity_check(10)")]
    dangling = run("PRAGMA foreign_key_check").fetchmany(10)
    waiting = connection.execute(
        text(
            f"SELECT count(*) FROM memories m WHERE {_INDEXED} AND (NOT {_embedded('vectors')} "
            "OR (kind = 'atom' AND EXISTS (SELECT 1 FROM atoms a WHERE a.tenant_id = m.tenant_id "
            f"AND a.memory_id = m.id AND ({_HAS_FIELDS})) AND NOT {_embedded('field_vectors')}))"
        ),
        {"space": space_id},
    ).scalar_one()
    return [
        Finding(
            check="engine",
            # A read-only file may be in another mode, such as a backup's.
            is_sound=mode == "wal" or file.is_read_only,
            detail=f"SQLite {version}, {mode} mode",
        ),
        _pages(pages, file),
        Finding(
            check="references",
            is_sound=not dangling,
            detail=f"{len(dangling)} dangling",
            hint=restore_hint(file.path) if dangling else "",
        ),
        *(_count(connection, check) for check in _COUNTS),
        Finding(
            check="embeddings",
            is_sound=True,
            detail=f"{waiting} memories wait for one",
            hint="brain doctor --repair embeds them." if waiting else "",
        ),
    ]


def clear_text(connection: Connection) -> None:
    """Remove full-text entries without a memory; clear the index if it is malformed."""
    run = connection.exec_driver_sql
    for name, stale in (("memory_text", _STALE_TEXT), ("atom_text", _STALE_FIELDS)):
        if run(f"PRAGMA integrity_check({name})").scalars().all() == ["ok"]:
            ids = f"SELECT id FROM {name}_docsize WHERE id {stale}"
            run(f"DELETE FROM {name} WHERE rowid IN ({ids})")
        else:
            # A malformed index gives errors or wrong results; an empty one finds less until it is
            # rewritten.
            run(f"INSERT INTO {name} ({name}) VALUES ('delete-all')")


def is_derived(problems: list[str]) -> bool:
    """Return whether the lines of an integrity check are about the full text alone."""
    return all("FTS5 table" in line or line.startswith("fts5:") for line in problems)


def _pages(problems: list[str], file: StoreFile) -> Finding:
    detail = "; ".join(problems)
    if problems == ["ok"]:
        return Finding(check="pages", is_sound=True, detail=detail)
    if is_derived(problems):
        return Finding(check="pages", is_sound=False, detail=detail, hint=REPAIR)
    file.report_damage(detail)
    return Finding(check="pages", is_sound=False, detail=detail, hint=restore_hint(file.path))


def _count(connection: Connection, check: str) -> Finding:
    what, query = _COUNTS[check]
    count = connection.exec_driver_sql(query).scalar_one()
    hint = REPAIR if count else ""
    return Finding(check=check, is_sound=count == 0, detail=f"{count} {what}", hint=hint)
