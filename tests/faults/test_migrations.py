"""A migration that is interrupted leaves the store as it was, and the next opening finishes it."""

import os
import signal
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import event

from commonbrain.storage.sql.schema_version import MIGRATIONS, SCHEMA_VERSION
from commonbrain.storage.sqlite.driver import driver
from commonbrain.testing.builders import a_brain
from tests.faults.workers import PROCESSES
from tests.processes import PATIENCE_S

STATEMENTS = (
    ("CREATE TABLE", "ALTER TABLE"),
    ("CREATE INDEX", "CREATE UNIQUE INDEX"),
    ("INSERT INTO alembic_version",),
    ("UPDATE alembic_vers",),
)
"""The first of its sort of them that the newest migration makes is where it ends."""
KETTLE = "The kettle is in the blue cupboard."


class Interrupted(Exception):
    """The power went, or a disk did not answer."""


def config() -> Config:
    made = Config()
    made.set_main_option("script_location", str(MIGRATIONS))
    return made


def previous() -> str | None:
    """The version before the newest, None when it is the first."""
    down = ScriptDirectory.from_config(config()).get_revision(SCHEMA_VERSION).down_revision
    assert down is None or isinstance(down, str)
    return down


def an_older_store(path: Path) -> None:
    """Make a store of the version before the newest; an empty file when there is none."""
    engine = sa.create_engine(f"sqlite:///{path}", module=driver())
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS scratch (x)")
        connection.exec_driver_sql("DROP TABLE scratch")
        if version := previous():
            made = config()
            made.attributes["connection"] = connection
            command.upgrade(made, version)
            row = "'somebody', 0, x'00'"
            connection.exec_driver_sql(
                f"INSERT INTO tenants (id, created_at, audit_key) VALUES ({row})"  # noqa: S608
            )
    engine.dispose()


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
    with interrupted_at(words, kills=True):
        a_brain(path)


def schema(path: Path) -> list[tuple[object, ...]]:
    """Read all that the schema says, and the rows that must not be lost."""
    with closing(driver().connect(str(path))) as raw:
        said = list(raw.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name"))
        if "tenants" in {name for _, name, _ in said}:
            said += raw.execute("SELECT * FROM tenants")
            said += raw.execute("SELECT * FROM alembic_version")
    return said


def runs(words: tuple[str, ...]) -> bool:
    """Say whether the newest migration makes such a statement."""
    if previous() is None:
        return words != STATEMENTS[3]
    script = ScriptDirectory.from_config(config()).get_revision(SCHEMA_VERSION)
    source = Path(script.path).read_text("utf-8")
    makes: dict[tuple[str, ...], bool] = {
        STATEMENTS[0]: "op.add_column" in source or "op.create_table" in source,
        STATEMENTS[1]: "op.create_index" in source,
        STATEMENTS[2]: False,
        STATEMENTS[3]: True,
    }
    return makes[words]


@pytest.mark.parametrize("words", [words for words in STATEMENTS if runs(words)])
@pytest.mark.parametrize("kills", [False, True])
def test_an_interrupted_migration_is_rolled_back_whole(
    path: Path, words: tuple[str, ...], *, kills: bool
) -> None:
    an_older_store(path)
    before = schema(path)

    if kills:
        process = PROCESSES.Process(target=open_and_die, args=(path, words))
        process.start()
        process.join(PATIENCE_S)
        assert process.exitcode == -signal.SIGKILL
    else:
        with interrupted_at(words, kills=False), pytest.raises(Interrupted):
            a_brain(path)

    assert schema(path) == before
    with a_brain(path) as brain:
        assert brain.remember(KETTLE, kind="fact").items[0].status == "stored"
        assert brain.recall("kettle").items
        assert brain.doctor().is_sound
    if previous() is not None:
        assert any(row[0] == "somebody" for row in schema(path))
