"""What becomes of a store when a program with another schema opens it."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.sql.schema_version import MIGRATIONS, SCHEMA_VERSION, upgrade
from commonbrain.storage.sqlite.engine import open_sqlite
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock, a_memory
from tests.contracts.store_steps import SPACE, put

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
    return open_sqlite(
        path, space=SPACE, clock=FakeClock(), is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S
    )


def test_an_upgrade_runs_the_missing_migrations_and_keeps_the_rows(
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


@pytest.mark.parametrize("version", ["0001", "0011"])
def test_a_store_of_a_development_version_is_refused_and_left_as_it_is(
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
