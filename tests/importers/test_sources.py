"""Where a source lies: shown without its password, and uploaded whole or not at all."""

import sqlite3
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import database_url, shown_source


@pytest.mark.parametrize(
    "source",
    [
        "postgresql://ada:s3cret@db.example:5433/brain?password=s3cret",
        "postgresql://ada:12/s3cret@db.example/brain",
        "postgresql://ada:1?s3cret@db.example/brain",
        "postgresql://ada:1#s3cret@db.example/brain",
        "postgresql://ada:p@s3cret@db.example/brain",
        "host=db.example password=s3cret",
    ],
)
def test_the_password_of_a_database_is_not_shown(source: str) -> None:
    assert database_url(source) == source
    assert "s3cret" not in shown_source(source)


def test_a_database_is_shown_by_user_host_and_name() -> None:
    shown = shown_source(Path("postgresql://ada:s3cret@db.example:5433/brain"))
    assert shown == "postgresql://ada@db.example:5433/brain"


def test_a_database_with_changes_in_a_file_of_their_own_is_not_uploaded(
    brain: Brain, tmp_path: Path
) -> None:
    source = tmp_path / "claude-mem.db"
    with sqlite3.connect(source) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE observations (id INTEGER)")
        writer.commit()
        with pytest.raises(InvalidInputError, match=r"claude-mem\.db-wal"):
            brain.jobs.import_("claude-mem", source)
    writer.close()


def test_a_folder_with_a_hidden_database_is_not_uploaded(brain: Brain, tmp_path: Path) -> None:
    (tmp_path / ".atoms.db").write_bytes(b"SQLite format 3\x00")
    with pytest.raises(InvalidInputError, match=r"\.atoms\.db"):
        brain.jobs.import_("brain-db", tmp_path)
