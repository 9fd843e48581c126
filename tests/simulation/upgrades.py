"""Stores of the oldest schema that this version upgrades."""

from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alembic import command
from alembic.config import Config

from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.sql.schema_version import MIGRATIONS
from commonbrain.storage.sqlite.driver import driver
from commonbrain.storage.sqlite.engine import SQLITE, Sqlite
from commonbrain.testing.builders import WordHashEmbedder

OBJECTS = "SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
Schema = dict[tuple[str, str], set[str]]
"""Tables and indexes by type and name, with their columns."""


def make_older(path: Path) -> None:
    """Take away what later migrations added, so that opening the file upgrades it again."""
    oldest = _oldest()
    with closing(driver().connect(str(path), isolation_level=None)) as raw:
        raw.execute("BEGIN")
        today = _schema_of(raw)
        for type_, name in sorted(today.keys() - oldest.keys()):
            raw.execute(f"DROP {type_} IF EXISTS {name}")
        for type_, name in today.keys() & oldest.keys():
            for column in sorted(today[type_, name] - oldest[type_, name]):
                raw.execute(f"ALTER TABLE {name} DROP COLUMN {column}")
        raw.execute("UPDATE alembic_version SET version_num = ?", (MIGRATIONS.oldest,))
        raw.execute("COMMIT")


@cache
def _oldest() -> Schema:
    with TemporaryDirectory() as folder:
        path, space = Path(folder) / "oldest.db", WordHashEmbedder().space
        dialect = Sqlite(path=path, space=space, is_durable=False, lock_timeout_s=LOCK_TIMEOUT_S)
        dialect.prepare()
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS.folder))
        with dialect.writer(LOCAL_TENANT) as connection, connection.begin():
            config.attributes.update(connection=connection, engine=SQLITE)
            command.upgrade(config, MIGRATIONS.oldest)
        dialect.engine.dispose()
        with closing(driver().connect(str(path))) as raw:
            return _schema_of(raw)


def _schema_of(raw: Any) -> Schema:  # noqa: ANN401 a driver's own
    execute: Callable[..., Any] = raw.execute
    return {
        (type_, name): {column[1] for column in execute(f"PRAGMA table_info({name})")}
        for type_, name in execute(OBJECTS).fetchall()
    }
