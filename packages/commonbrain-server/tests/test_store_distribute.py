"""`brain store distribute`: what it prints is a script, and what it cannot do it says."""

import json
from contextlib import closing

import psycopg
import pytest
from command_output import output_of

from commonbrain.model.errors import RejectedError
from commonbrain.storage.store import Store
from commonbrain.testing.builders import a_memory
from tests.postgres import Database
from tests.storage.store_steps import lexical, put

pytestmark = [pytest.mark.of_one_server, pytest.mark.part("distributed")]


def test_preview_is_a_script_whose_plain_part_runs_unchanged(database: Database) -> None:
    with closing(database.opened()) as store:
        put(store, a_memory(1, "tea is ready"))
    script = output_of("--store", database.owner, "store", "distribute", "--dry-run")
    plain, _, rest = script.partition("COMMIT;")
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        owner.execute(f"{plain}COMMIT;".encode())

    assert "SELECT create_distributed_table('memories', 'tenant_id'" in rest
    with closing(database.opened()) as store:
        assert lexical(store, "tea") == [1]
        assert is_confined(store)
    again = output_of("--store", database.owner, "store", "distribute", "--dry-run", "--json")
    assert json.loads(again)["flat"] == []


def is_confined(store: Store) -> bool:
    return all(finding.is_sound for finding in store.examine())


def test_server_without_citus_is_reported(database: Database) -> None:
    with pytest.raises(RejectedError, match="no extension citus"):
        output_of("--store", database.owner, "store", "distribute")
