"""Stores of the oldest schema that this version upgrades."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from commonbrain.storage.schema.types import METADATA
from commonbrain.storage.sql.schema_version import MIGRATIONS
from commonbrain.storage.sqlite.driver import driver

_SCHEMA: Final = Path(__file__).parent / "storage" / "oldest_schema.sql"
_SET_VERSION: Final = sa.text("UPDATE alembic_version SET version_num = :version")
PARTITIONED: Final = {"vectors", "field_vectors"}
"""Tables that each engine has its own way."""


def make_oldest(connection: sa.Connection) -> None:
    """Make the tables of the oldest schema in an empty SQLite file."""
    for statement in _SCHEMA.read_text().splitlines():
        connection.exec_driver_sql(statement)


def make_older(connection: sa.Connection) -> None:
    """Take away what later migrations added to a store, so that opening it upgrades it again."""
    oldest, today = _oldest(), _names_in(connection)
    for table in today:
        if table not in oldest:
            connection.exec_driver_sql(f"DROP TABLE {table}")
            continue
        for index in today[table]["index"] - oldest[table]["index"]:
            connection.exec_driver_sql(f"DROP INDEX {index}")
        for column in today[table]["column"] - oldest[table]["column"]:
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
    connection.execute(_SET_VERSION, {"version": MIGRATIONS.oldest})


@cache
def _oldest() -> Mapping[str, Mapping[str, set[str]]]:
    engine = sa.create_engine("sqlite://", module=driver())
    with engine.begin() as connection:
        make_oldest(connection)
        return _names_in(connection)


def _names_in(connection: sa.Connection) -> Mapping[str, Mapping[str, set[str]]]:
    """Name the columns and indexes of each table, those that others refer to last."""
    inspector = sa.inspect(connection)
    return {
        table.name: {
            "column": {column["name"] for column in inspector.get_columns(table.name)},
            "index": {
                str(index["name"])
                for index in inspector.get_indexes(table.name)
                if "duplicates_constraint" not in index
            },
        }
        for table in reversed(METADATA.sorted_tables)
        if table.name not in PARTITIONED and inspector.has_table(table.name)
    }
