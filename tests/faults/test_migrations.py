"""An interrupted migration leaves the store as it was, and the next opening finishes it."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

import commonbrain
from commonbrain.storage.sql.schema_version import SCHEMA_VERSION
from commonbrain.storage.sqlite.driver import driver
from commonbrain.testing.builders import a_brain, use_store_opener
from tests.faults.mounts import small_disk
from tests.faults.workers import PROCESSES
from tests.laid_out_stores import lay_out_store
from tests.later_migrations import LATER, open_later
from tests.processes import TIMEOUT_S, clean_environment

STATEMENTS = (
    ("CREATE TABLE", "ALTER TABLE"),
    ("CREATE INDEX", "CREATE UNIQUE INDEX"),
    ("INSERT INTO alembic_version", "UPDATE alembic_vers"),
)
"""The first of its sort of them that a migration makes is where it ends."""
KETTLE = "The kettle is in the blue cupboard."


@pytest.fixture
def lays_out_stores() -> bool:
    """Stores are made by migrations here, as those of users are."""
    return False


class Interrupted(Exception):
    """The power went, or a disk did not answer."""


@pytest.fixture(autouse=True)
def opens_as_later_version() -> Iterator[None]:
    with use_store_opener(open_later):
        yield


@pytest.fixture
def older(tmp_path: Path) -> bytes:
    """The file of a store of this version, with a tenant."""
    path = tmp_path / "older.db"
    lay_out_store(path)
    with closing(driver().connect(str(path))) as raw, raw:
        row = "'somebody', 0, x'00'"
        raw.execute(f"INSERT INTO tenants (id, created_at, audit_key) VALUES ({row})")  # noqa: S608
    return path.read_bytes()


@contextmanager
def interrupted_at(words: tuple[str, ...], *, kills: bool) -> Generator[None]:
    """End whatever first runs a statement that begins so: by an exception, or the process."""

    def watch(_connection: object, _cursor: object, statement: str, *_more: Any) -> None:  # noqa: ANN401
        if not statement.lstrip().startswith(words):
            return
        if kills:
            os.kill(os.getpid(), signal.SIGKILL)
        raise Interrupted

    event.listen(sa.Engine, "after_cursor_execute", watch)
    try:
        yield
    finally:
        event.remove(sa.Engine, "after_cursor_execute", watch)


def open_and_die(path: Path, words: tuple[str, ...]) -> None:
    """Open a store, as a process that is killed in the middle of its migration."""
    with use_store_opener(open_later), interrupted_at(words, kills=True):
        a_brain(path)


def schema(path: Path) -> list[tuple[object, ...]]:
    """Read the whole schema, and the rows that must not be lost."""
    with closing(driver().connect(str(path))) as raw:
        rows = list(raw.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name"))
        if "tenants" in {name for _, name, _ in rows}:
            rows += raw.execute("SELECT * FROM tenants")
            rows += raw.execute("SELECT * FROM alembic_version")
    return rows


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("kills", [False, True])
def test_interrupted_migration_is_rolled_back_whole(
    tmp_path: Path,
    older: bytes,
    subtests: pytest.Subtests,
    *,
    kills: bool,
    is_new: bool,
) -> None:
    for number, words in enumerate(STATEMENTS):
        with subtests.test(statement=words[0]):
            path = tmp_path / f"{number}.db"
            if not is_new:
                path.write_bytes(older)
            before = schema(path)

            if kills:
                process = PROCESSES.Process(target=open_and_die, args=(path, words))
                process.start()
                process.join(TIMEOUT_S)
                assert process.exitcode == -signal.SIGKILL
            else:
                with interrupted_at(words, kills=False), pytest.raises(Interrupted):
                    a_brain(path)

            assert schema(path) == before
            with a_brain(path) as brain:
                assert brain.remember(KETTLE, kind="fact").items[0].status == "stored"
                assert brain.recall("kettle").items
                assert brain.doctor().is_sound
            assert any(row[0] == "somebody" for row in schema(path)) is not is_new


def version_in(path: Path) -> str:
    with closing(driver().connect(str(path))) as raw:
        return raw.execute("SELECT version_num FROM alembic_version").fetchone()[0]


@pytest.mark.requirement("MG-09")
def test_migration_is_undone_by_restoring_the_backup_that_it_makes(
    path: Path, older: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_bytes(older)
    backup = path.with_name(f"{path.name}.schema-{SCHEMA_VERSION}.bak")

    a_brain(path).close()

    assert version_in(path) == LATER
    assert f"the store as it was is in {backup}" in caplog.text
    restored = commonbrain.restore(backup, path)
    assert version_in(path) == SCHEMA_VERSION
    assert any(row[0] == "somebody" for row in schema(path))
    assert version_in(Path(restored.kept or "")) == LATER


@pytest.mark.requirement("MG-09")
def test_new_store_and_store_of_this_version_are_not_backed_up(path: Path) -> None:
    a_brain(path).close()
    a_brain(path).close()

    assert list(path.parent.glob("*.bak")) == []


@pytest.mark.requirement("MG-09")
def test_backups_of_the_last_three_migrations_are_stored(path: Path, older: bytes) -> None:
    for version in ("0001", "0002", "0003"):
        path.with_name(f"{path.name}.schema-{version}.bak").write_text("old")
    path.write_bytes(older)

    a_brain(path).close()

    backups = sorted(one.name for one in path.parent.glob("*.bak"))
    assert backups == [
        f"{path.name}.schema-{version}.bak" for version in ("0002", "0003", SCHEMA_VERSION)
    ]


@pytest.mark.requirement("MG-09")
def test_store_on_a_full_disk_is_migrated_without_a_backup_and_with_a_warning(
    tmp_path: Path, older: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with small_disk(tmp_path / "disk", size="1200k") as disk:
        (disk / "brain.db").write_bytes(older)

        a_brain(disk / "brain.db").close()

        assert version_in(disk / "brain.db") == LATER
        assert list(disk.glob("*.bak")) == []
    assert "without a backup: it needs" in caplog.text


@pytest.mark.requirement("MG-09")
def test_program_prints_on_stderr_where_the_backup_of_a_migration_is(
    path: Path, older: bytes
) -> None:
    path.write_bytes(older)

    # A process of its own: the handler of its log writes to the stderr that it starts with.
    done = subprocess.run(
        [sys.executable, "-m", "tests.later_migrations", str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
        env=clean_environment(),
    )

    assert f"{path.name}.schema-{SCHEMA_VERSION}.bak" in done.stderr.replace("\n", "")
