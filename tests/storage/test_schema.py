"""What holds of the schema in every engine, read from its tables alone."""

from collections.abc import Mapping

import pytest
import sqlalchemy as sa
from sqlalchemy.engine.interfaces import ReflectedIndex

from commonbrain.model.kinds import KINDS, Kind
from commonbrain.storage.schema import memories
from commonbrain.storage.schema.types import METADATA, EnumText
from commonbrain.storage.sql.migrations import STEPS
from commonbrain.storage.sql.schema_version import (
    MIGRATIONS,
    READABLE_FROM,
    SCHEMA_VERSION,
    VERSIONS,
    Migrations,
    only_version,
)
from commonbrain.storage.sqlite.driver import driver
from commonbrain.storage.sqlite.engine import SQLITE
from tests.older_stores import PARTITIONED, make_oldest


@pytest.mark.requirement("DM-02")
def test_detail_table_has_the_columns_of_its_kind_and_a_body(subtests: pytest.Subtests) -> None:
    for kind in Kind:
        with subtests.test(kind=kind):
            key = {"tenant_id", "memory_id", "kind", "body"}

            assert set(memories.DETAILS[kind].c.keys()) == key | set(KINDS[kind].columns)


@pytest.mark.requirement("DM-16")
def test_every_key_begins_with_the_tenant_except_in_reference_tables() -> None:
    reference = {"tenants", "spaces"}
    owned = [table for table in METADATA.sorted_tables if table.name not in reference]

    for table in owned:
        assert next(iter(table.primary_key)).name == "tenant_id", table.name
        for key in table.foreign_key_constraints:
            target = key.referred_table.name
            assert target in reference or key.column_keys[0] == "tenant_id", table.name


def test_programs_without_a_kind_cannot_share_a_server_with_those_that_write_it() -> None:
    """They fail to read it, so `READABLE_FROM` follows the migration that adds a detail table."""
    needed = {table.name for table in memories.DETAILS.values()}
    version = MIGRATIONS.oldest
    engine = sa.create_engine("sqlite://", module=driver())
    with engine.begin() as connection:
        make_oldest(connection)
        for newer in STEPS:
            if needed <= set(sa.inspect(connection).get_table_names()):
                break
            steps = {newer: STEPS[newer]}
            Migrations(steps=steps).upgrade(connection, SQLITE, version=version)
            version = newer

        assert needed <= set(sa.inspect(connection).get_table_names())
    assert version <= READABLE_FROM


def described(connection: sa.Connection) -> Mapping[str, object]:
    """Tables of the metadata as the engine has them; the order of columns does not matter."""
    inspector = sa.inspect(connection)
    return {
        name: (
            sorted(
                (one["name"], str(one["type"]), one["nullable"], one.get("default"))
                for one in inspector.get_columns(name)
            ),
            inspector.get_pk_constraint(name),
            *(
                sorted(reflected, key=str)
                for reflected in (
                    inspector.get_foreign_keys(name),
                    inspector.get_unique_constraints(name),
                    inspector.get_check_constraints(name),
                    [index(one) for one in inspector.get_indexes(name)],
                )
            ),
        )
        for name in METADATA.tables
        if inspector.has_table(name) and name not in PARTITIONED
    }


def index(reflected: ReflectedIndex) -> Mapping[str, object]:
    """Replace conditions, which compare by identity, with their text."""
    options = {name: str(one) for name, one in reflected.get("dialect_options", {}).items()}
    return {**reflected, "dialect_options": options}


def test_upgraded_store_has_the_schema_of_a_new_one_in_sqlite() -> None:
    older, new = (sa.create_engine("sqlite://", module=driver()) for _ in range(2))
    with older.begin() as upgraded, new.begin() as created:
        make_oldest(upgraded)
        MIGRATIONS.upgrade(upgraded, SQLITE, version=MIGRATIONS.oldest)
        MIGRATIONS.upgrade(created, SQLITE, version=None)

        assert described(upgraded) == described(created)
        for connection in (upgraded, created):
            assert only_version(connection.execute(VERSIONS).scalars().all()) == SCHEMA_VERSION


def test_enum_column_rejects_an_unknown_word(subtests: pytest.Subtests) -> None:
    for column in [
        one for table in METADATA.sorted_tables for one in table.c if isinstance(one.type, EnumText)
    ]:
        with subtests.test(column=column):
            engine = sa.create_engine("sqlite://")
            write = column.type.bind_processor(engine.dialect)
            assert write is not None

            with pytest.raises(ValueError, match="'rumour' is not one of"):
                write("rumour")
