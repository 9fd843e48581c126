"""Brainstem: the sample is what its own store wrote, see `make/make_brainstem.py`."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from import_samples import IMPORTERS, SAMPLES, by_body, kinds, load, omitted, only, read

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.scope import Scope, Trust
from commonbrain.transfer.importer import Unreadable


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return load(SAMPLES / "brainstem" / "brainstem.sql", tmp_path / "brainstem.db")


def test_memories_of_brainstem_are_imported_with_their_metadata(database: Path) -> None:
    pieces = read("brainstem", database)
    assert kinds(pieces) == {"event": 1, "fact": 2, "rule": 1, "episode": 1}
    texts = by_body(pieces)
    event = texts["The user wants the migration done before April planning."]
    assert event.salience is not None
    assert (event.author, event.original_ref) == ("a_ops", "trace_8742")
    assert event.trust is Trust.TRUSTED_TOOL
    assert event.occurred_at is not None
    fact = texts["The staging database runs Postgres 16 in Frankfurt."]
    assert fact.expires_at is not None
    assert fact.expires_at.year == 2031
    assert fact.confidence is not None
    rule = texts["Never deploy on a Friday after noon."]
    assert (rule.kind, rule.label, rule.severity) == ("rule", "policy", "BLOCKER")
    assert texts["A blog says the cluster will be deprecated next year."].trust is (
        Trust.UNTRUSTED_WEB
    )
    scopes = [one.scope for one in texts.values()]
    assert (scopes.count(Scope.PRIVATE), scopes.count(Scope.GLOBAL)) == (1, 1)


def test_deleted_and_computed_rows_of_brainstem_are_counted_as_omitted(database: Path) -> None:
    counted = omitted(read("brainstem", database))
    assert counted["deleted memories"] == 1
    assert counted["replies for idempotency keys"] == 6
    assert counted["links computed from shared words"] > 0
    assert "The staging database runs MySQL." not in by_body(read("brainstem", database))


def test_column_of_a_later_version_of_brainstem_is_counted(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("ALTER TABLE memory_items ADD COLUMN mood TEXT DEFAULT 'calm'")
    counted = omitted(read("brainstem", database))
    assert counted["mood of memory_items"] == 6


def test_tenant_must_be_named_if_a_brainstem_database_has_several(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE memory_items SET tenant_id = 't_9' WHERE agent_id = 'a_ops'")
    with pytest.raises(InvalidInputError, match="2 tenants") as refused:
        read("brainstem", database)
    assert "brainstem.db#t_123" in (refused.value.hint or "")
    pieces = read("brainstem", database.with_name("brainstem.db#t_9"))
    assert {one.author for one in by_body(pieces).values()} == {"a_ops"}
    assert omitted(pieces)["memories of other tenants"] == 3
    with pytest.raises(InvalidInputError, match="no tenant"):
        read("brainstem", database.with_name("brainstem.db#t_0"))


def test_importing_from_brainstem_twice_stores_each_memory_once(
    brain: Brain, database: Path
) -> None:
    first = brain.import_("brainstem", database, project="harbour")
    assert (first.read, first.stored, first.rejected, first.unreadable) == (5, 5, 0, 0)
    assert first.carried["authors"] == 5
    assert brain.import_("brainstem", database, project="harbour").stored == 0
    assert brain.status().memories == 5


def test_dry_run_of_a_brainstem_import_stores_nothing(brain: Brain, database: Path) -> None:
    assert brain.import_("brainstem", database, dry_run=True).stored == 5
    assert brain.status().memories == 0


def test_database_in_use_is_read_with_its_last_commit(database: Path) -> None:
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE memory_items SET text = 'The cranes stand still.' WHERE rowid = 1")
        writer.commit()
        before = database.stat().st_mtime_ns
        assert "The cranes stand still." in by_body(read("brainstem", database))
        assert database.stat().st_mtime_ns == before


def test_write_ahead_log_without_its_index_is_read_without_changing_the_folder(
    database: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "backup"
    folder.mkdir()
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE memory_items SET text = 'The cranes stand still.' WHERE rowid = 1")
        writer.commit()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{database}{suffix}", folder / f"brainstem.db{suffix}")
    assert "The cranes stand still." in by_body(read("brainstem", folder / "brainstem.db"))
    assert sorted(path.name for path in folder.iterdir()) == ["brainstem.db", "brainstem.db-wal"]


def test_damaged_table_is_imported_up_to_the_damage(tmp_path: Path) -> None:
    database = tmp_path / "brainstem.db"
    dump = (SAMPLES / "brainstem" / "brainstem.sql").read_text()
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(dump.replace("COMMIT;", ""))
        connection.executemany(
            "INSERT INTO memory_items VALUES (?, 't_123', 'a', 'fact', 'team', ?, 'user_claim', "
            "0.5, 0.5, NULL, '2026-02-01T00:00:00+00:00', NULL, 0)",
            ((f"mem_{n}", f"Berth {n} is {n} metres long. {'x' * 200}") for n in range(400)),
        )
    content = bytearray(database.read_bytes())
    for page in range(len(content) // 4096 // 2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    database.write_bytes(content)
    pieces = read("brainstem", database)
    assert [one.where.partition(",")[0] for one in only(Unreadable, pieces)] == ["memory_items"]
    assert len(by_body(pieces)) > 5


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\x00 torn"])
def test_foreign_database_is_refused_by_brainstem_with_the_next_step(
    tmp_path: Path, content: bytes
) -> None:
    wrong = tmp_path / "brainstem.db"
    wrong.write_bytes(content)
    with pytest.raises(InvalidInputError) as refused:
        read("brainstem", wrong)
    assert "BRAINSTEM_SQLITE_PATH" in (refused.value.hint or "")
    with pytest.raises(InvalidInputError, match="no file"):
        read("brainstem", tmp_path / "none.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
        connection.commit()
    with pytest.raises(InvalidInputError, match="no database of Brainstem"):
        read("brainstem", tmp_path / "other.db")


def test_brainstem_is_found_in_the_home_folder(database: Path, tmp_path: Path) -> None:
    (source,) = IMPORTERS["brainstem"].find(tmp_path)
    assert (source.path, source.count) == (database, 1)
    assert list(IMPORTERS["brainstem"].find(tmp_path / "elsewhere")) == []
