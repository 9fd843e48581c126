"""What holds of the schema in every engine, read from its tables alone."""

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from commonbrain.model.kinds import KINDS, Kind
from commonbrain.storage.schema import memories
from commonbrain.storage.schema.types import METADATA
from commonbrain.storage.sql.schema_version import MIGRATIONS, SCHEMA_VERSION


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.requirement("DM-02")
def test_a_detail_table_has_the_columns_of_its_kind_and_a_body(kind: Kind) -> None:
    key = {"tenant_id", "memory_id", "kind", "body"}

    assert set(memories.DETAILS[kind].c.keys()) == key | set(KINDS[kind].columns)


@pytest.mark.requirement("DM-16")
def test_every_key_begins_with_the_tenant_but_for_reference_tables() -> None:
    reference = {"tenants", "spaces"}
    owned = [table for table in METADATA.sorted_tables if table.name not in reference]

    for table in owned:
        assert next(iter(table.primary_key)).name == "tenant_id", table.name
        for key in table.foreign_key_constraints:
            target = key.referred_table.name
            assert target in reference or key.column_keys[0] == "tenant_id", table.name


def test_the_newest_migration_is_the_version_that_is_asked_for() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))

    assert ScriptDirectory.from_config(config).get_current_head() == SCHEMA_VERSION
