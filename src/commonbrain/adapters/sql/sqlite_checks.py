"""What `doctor` asks of a SQLite file: is it whole, and do its indexes agree with its rows?"""

from typing import Final

from sqlalchemy import Connection, text

from commonbrain.ports.store import Finding

# Every memory that can be found must stand in the full text, and nothing else may. Contentless
# FTS5 keeps one row per document in memory_text_docsize. The states are those that are indexed.
_INDEXED: Final = "state IN ('active', 'archived', 'superseded')"
# ruff: noqa: S608 the statements are put together from constants of this file alone
_COUNTS: Final = {
    "full text": (
        "memories missing from the full text",
        f"SELECT count(*) FROM memories WHERE {_INDEXED} "
        "AND id NOT IN (SELECT id FROM memory_text_docsize)",
    ),
    "full text, stale": (
        "entries of the full text without a memory",
        "SELECT count(*) FROM memory_text_docsize WHERE id NOT IN "
        f"(SELECT id FROM memories WHERE {_INDEXED})",
    ),
    "vectors": (
        "vectors of memories that cannot be found",
        "SELECT count(*) FROM vectors v JOIN memories m "
        "ON m.tenant_id = v.tenant_id AND m.id = v.memory_id "
        f"WHERE v.vector IS NOT NULL AND NOT m.{_INDEXED}",
    ),
    "vectors, space": (
        "vectors of another size than their space's",
        "SELECT count(*) FROM vectors v JOIN spaces s ON s.id = v.space_id "
        "WHERE v.vector IS NOT NULL AND length(v.vector) <> 2 * s.dimensions",
    ),
}


def examine_sqlite(connection: Connection, space_id: int) -> list[Finding]:
    """Check the file's pages, its mode, its references, and what is derived from the rows."""
    run = connection.exec_driver_sql
    version = run("SELECT sqlite_version()").scalar_one()
    mode = run("PRAGMA journal_mode").scalar_one()
    pages = [row[0] for row in run("PRAGMA integrity_check(10)")]
    dangling = run("PRAGMA foreign_key_check").fetchmany(10)
    waiting = connection.execute(
        text(
            f"SELECT count(*) FROM memories m WHERE {_INDEXED} AND NOT EXISTS (SELECT 1 FROM "
            "vectors v WHERE v.tenant_id = m.tenant_id AND v.memory_id = m.id "
            "AND v.space_id = :space AND v.vector IS NOT NULL)"
        ),
        {"space": space_id},
    ).scalar_one()
    return [
        Finding(
            check="engine",
            is_sound=mode == "wal",
            detail=f"SQLite {version}, {mode} mode",
        ),
        Finding(check="pages", is_sound=pages == ["ok"], detail="; ".join(pages)),
        Finding(
            check="references",
            is_sound=not dangling,
            detail=f"{len(dangling)} dangling",
        ),
        *(_count(connection, check) for check in _COUNTS),
        Finding(check="embeddings", is_sound=True, detail=f"{waiting} memories wait for one"),
    ]


def _count(connection: Connection, check: str) -> Finding:
    what, query = _COUNTS[check]
    count = connection.exec_driver_sql(query).scalar_one()
    return Finding(check=check, is_sound=count == 0, detail=f"{count} {what}")
