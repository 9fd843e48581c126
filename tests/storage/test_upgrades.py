"""What becomes of a store when a program with another schema opens it."""

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.sql.schema_version import SCHEMA_VERSION
from commonbrain.storage.sqlite.engine import SQLITE
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock, a_memory
from tests.laid_out_stores import open_laid_out
from tests.later_migrations import LATER, LATER_MIGRATIONS
from tests.storage.store_steps import SPACE, put


def opened(path: Path) -> Store:
    return open_laid_out(path, space=SPACE, clock=FakeClock())


def test_upgrade_runs_the_missing_migrations_and_preserves_the_rows(path: Path) -> None:
    with closing(opened(path)) as store:
        memory = a_memory(1, "tea is ready")
        put(store, memory)
        with store.dialect.writer(LOCAL_TENANT) as connection, connection.begin():
            LATER_MIGRATIONS.upgrade(connection, SQLITE, version=SCHEMA_VERSION)
        with store.dialect.reader(LOCAL_TENANT) as connection, connection.begin():
            version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
            rows = connection.execute(text("SELECT headline, mood FROM memories")).all()
            moods = connection.execute(text("SELECT count(*) FROM moods")).scalar()

    assert (version, moods) == (LATER, 0)
    assert rows == [(memory.headline, "calm")]
    with pytest.raises(StoreCorruptError, match=LATER) as refusal:
        opened(path)
    assert refusal.value.code == "store_newer"


@pytest.mark.parametrize("version", ["0001", "0022"])
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
