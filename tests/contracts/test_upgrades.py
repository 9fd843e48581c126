"""What becomes of a store when a program with another schema opens it."""

import shutil
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import ERASED, ThreadRef
from commonbrain.model.scope import LOCAL_TENANT, Caller
from commonbrain.storage.sql.schema_version import MIGRATIONS, SCHEMA_VERSION, upgrade
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, FakeClock, a_memory
from tests.contracts.store_steps import SPACE, put
from tests.laid_out_stores import open_laid_out

LATER = f"{int(SCHEMA_VERSION) + 1:04}"
LATER_MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision = "{LATER}"
down_revision = "{SCHEMA_VERSION}"


def upgrade() -> None:
    op.add_column("memories", sa.Column("mood", sa.Text(), server_default="calm"))
    op.create_table("moods", sa.Column("name", sa.Text(), primary_key=True))
"""


def opened(path: Path) -> Store:
    return open_laid_out(path, space=SPACE, clock=FakeClock())


def test_upgrade_runs_the_missing_migrations_and_preserves_the_rows(
    path: Path, tmp_path: Path
) -> None:
    later = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, later)
    (later / "versions" / f"v{LATER}_moods.py").write_text(LATER_MIGRATION)
    with closing(opened(path)) as store:
        memory = a_memory(1, "tea is ready")
        put(store, memory)
        with store.dialect.writer(LOCAL_TENANT) as connection, connection.begin():
            upgrade(connection, migrations=later)
        with store.dialect.reader(LOCAL_TENANT) as connection, connection.begin():
            version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
            rows = connection.execute(text("SELECT headline, mood FROM memories")).all()
            moods = connection.execute(text("SELECT count(*) FROM moods")).scalar()

    assert (version, moods) == (LATER, 0)
    assert rows == [(memory.headline, "calm")]
    with pytest.raises(StoreCorruptError, match=LATER) as refusal:
        opened(path)
    assert refusal.value.code == "store_newer"


@pytest.mark.requirement("DM-74", "LC-14")
def test_upgrade_clears_the_subject_left_by_an_erased_message(path: Path) -> None:
    detail = MessageDetail(sender="ann", recipients=("bo",))
    with closing(opened(path)) as store, store.begin(LOCAL_TENANT) as tx:
        for number, subject in ((1, "Salaries"), (2, "Tea")):
            at = NOON + timedelta(minutes=number)
            thread = ThreadRef(key=subject, subject=subject)
            tx.threads.open(thread, None, new_id=number, now=at, agent="ann")
            for id_ in (number * 10, number * 10 + 1):
                of_thread = replace(detail, thread_id=number)
                fields: dict[str, Any] = {
                    "kind": Kind.MESSAGE,
                    "recorded_at": at,
                    "detail": of_thread,
                }
                tx.memories.add(a_memory(id_, f"Note {id_}", **fields))
                at += timedelta(minutes=5)
        tx.scrub(10)
    with closing(opened(path)) as store, store.dialect.engine.begin() as connection:
        for statement in (
            "UPDATE messages SET thread_id = NULL WHERE memory_id = 10",
            "UPDATE threads SET subject = 'Salaries', tags = '[\"pay\"]' WHERE id = 1",
            "DROP INDEX ix_sessions_process",
            "DROP INDEX ix_tool_events_hook",
            "DROP INDEX ix_tool_events_hook_agent",
            "DROP TABLE page_sessions",
            "ALTER TABLE memories DROP COLUMN reading",
            "UPDATE alembic_version SET version_num = '0017'",
        ):
            connection.execute(text(statement))

    with closing(opened(path)) as store, store.snapshot(LOCAL_TENANT) as tx:
        threads = tx.threads.get([1, 2])
        begun = tx.threads.beginning(1, Caller(agent="bo"), now=NOON)
    assert [threads[id_].subject for id_ in (1, 2)] == [ERASED, "Tea"]
    assert threads[1].tags == ()
    assert begun is not None
    assert (begun.message_id, begun.is_first) == (11, False)


@pytest.mark.parametrize("version", ["0001", "0011"])
def test_store_of_a_development_version_is_refused_and_left_unchanged(
    path: Path, version: str
) -> None:
    with closing(opened(path)) as store, store.dialect.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": version})
    before = path.read_bytes()

    with pytest.raises(StoreCorruptError, match=f"schema version {version}") as refusal:
        opened(path)

    assert refusal.value.code == "store_older"
    assert "brain export" in refusal.value.hint
    assert path.read_bytes() == before
