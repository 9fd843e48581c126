import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.storage.sqlite.driver import driver
from commonbrain.storage.sqlite.engine import open_sqlite
from commonbrain.testing.builders import FakeClock
from tests.laid_out_stores import lay_out_store
from tests.storage.store_steps import SPACE


def opened_and_closed(path: Path) -> Path:
    open_sqlite(
        path, space=SPACE, clock=FakeClock(), is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S
    ).close()
    return path


def rows(path: Path, query: str) -> list[Any]:
    connection: sqlite3.Connection = driver().connect(path)
    with closing(connection):
        return connection.execute(query).fetchall()


def test_laid_out_store_has_the_schema_and_rows_of_a_migrated_one(tmp_path: Path) -> None:
    migrated = opened_and_closed(tmp_path / "migrated.db")
    lay_out_store(tmp_path / "laid-out.db")
    laid_out = opened_and_closed(tmp_path / "laid-out.db")

    for query in (
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name",
        "SELECT * FROM alembic_version",
        "SELECT * FROM spaces",
        "SELECT id, created_at FROM tenants",
        "PRAGMA journal_mode",
    ):
        assert rows(laid_out, query) == rows(migrated, query)
    assert laid_out.stat().st_mode == migrated.stat().st_mode


def test_laid_out_stores_share_no_audit_key(tmp_path: Path) -> None:
    paths = [tmp_path / "first.db", tmp_path / "second.db"]
    for path in paths:
        lay_out_store(path)
        opened_and_closed(path)

    first, second = (rows(path, "SELECT audit_key FROM tenants") for path in paths)

    assert first != second


def test_laying_out_does_not_change_an_existing_store(path: Path) -> None:
    path.write_bytes(b"something else")

    lay_out_store(path)

    assert path.read_bytes() == b"something else"
    assert list(path.parent.iterdir()) == [path]
