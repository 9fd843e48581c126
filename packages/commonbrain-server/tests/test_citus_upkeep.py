"""A store is distributed, upgraded, used by commands, and backed up."""

import json
from contextlib import closing
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from citus_tenants import citus, distributed_store
from command_output import output_of
from commonbrain_server.postgres.opening import (
    DistributeResult,
    distribute_postgres,
    upgrade_postgres,
)

from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.testing.builders import NOON, FakeClock, a_memory
from tests.citus import CitusServer
from tests.deploy_files import run_script
from tests.postgres import Database
from tests.storage.store_steps import SPACE, lexical, nearest, put, stored

__all__ = ["citus", "distributed_store"]
pytestmark = [pytest.mark.citus, pytest.mark.part("distributed")]

TEXT_SEARCH: LiteralString = (
    "SELECT oid FROM pg_ts_config WHERE cfgname = 'commonbrain' "
    "UNION ALL SELECT oid FROM pg_ts_dict WHERE dictname = 'commonbrain_stem'"
)

OF_AUTHORITY = ("memories", "jobs", "changes", "notes", "links", "annotations")
"""The tables that migrations since the first release gave a column."""
HAVING_AUTHORITY: LiteralString = (
    "SELECT success, result FROM run_command_on_shards(%s::text::regclass, "
    "'SELECT count(*) FROM pg_attribute WHERE attrelid = ''%%s''::regclass "
    "AND attname = ''authority'' AND NOT attisdropped')"
)


def distributed(database: Database) -> DistributeResult:
    return distribute_postgres(database.owner, lock_timeout_s=LOCK_TIMEOUT_S)


def change(database: Database, *statements: str) -> None:
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        for statement in statements:
            owner.execute(statement.encode())


@pytest.mark.requirement("DO-24")
def test_filled_store_is_distributed_with_every_row_and_answers_the_same(
    citus: CitusServer,
) -> None:
    with citus.plain_database() as database:
        with closing(database.opened()) as store:
            put(store, *(a_memory(at, f"the tea number {at} is in the shed") for at in (1, 2)))
            store.make_tenant("other", at=NOON)
            before = stored(store, 1, 2), lexical(store, "tea"), nearest(store, "tea")
        citus.install(database.name)

        assert not distributed(database).was_complete
        assert distributed(database).was_complete

        with closing(database.opened()) as store:
            assert (stored(store, 1, 2), lexical(store, "tea"), nearest(store, "tea")) == before
            assert store.tenants() == [LOCAL_TENANT, "other"]
            put(store, a_memory(3, "tea for everybody"))
            assert lexical(store, "tea") == [3, *before[1]]
            assert all(finding.is_sound for finding in store.examine())


@pytest.mark.requirement("DO-24")
def test_store_of_the_first_release_is_upgraded_on_every_server(citus: CitusServer) -> None:
    with citus.database() as database:
        with closing(database.opened()) as store:
            put(store, a_memory(1, "tea is ready"))
        before = citus.ask(TEXT_SEARCH, database=database.name)
        change(
            database,
            *(f"ALTER TABLE {table} DROP COLUMN authority" for table in OF_AUTHORITY),
            "DROP INDEX ix_memories_pinned",
            "DROP INDEX ix_memories_source",
            "UPDATE alembic_version SET version_num = '0023'",
        )

        upgrade_postgres(
            database.owner, space=SPACE, clock=FakeClock(), lock_timeout_s=LOCK_TIMEOUT_S
        )

        assert distributed(database).was_complete
        for table in OF_AUTHORITY:
            columns = citus.ask(HAVING_AUTHORITY, table, database=database.name)
            assert {*columns} == {(True, "1")}
        # Programs that run meanwhile search by it.
        assert citus.ask(TEXT_SEARCH, database=database.name) == before
        with closing(database.opened()) as store:
            assert lexical(store, "tea") == [1]
            assert all(finding.is_sound for finding in store.examine())


@pytest.mark.usefixtures("distributed_store")
def test_commands_work_on_a_distributed_store(citus: CitusServer) -> None:
    output_of("tenant", "create", "acme")
    with citus.spread_statements() as spread:
        for tenant in (LOCAL_TENANT, "acme"):
            own = ("--tenant", tenant)
            output = output_of(*own, "remember", f"The store of {tenant} is on db1", "--json")
            [id_] = [one["id"] for one in json.loads(output)["items"]]
            output_of(*own, "message", "send", f"Hello from {tenant}", "--to", "bo")
            output_of(
                *own,
                "revise",
                "supersede",
                id_,
                f"The store of {tenant} is on db2",
                "--reason",
                "It moved.",
            )
            reply = json.loads(output_of(*own, "recall", "Where is the store?", "--json"))
            assert f"The store of {tenant} is on db2" in [one["headline"] for one in reply["items"]]
            assert "1 unread" in output_of(*own, "--agent", "bo", "boot")
            assert f"Hello from {tenant}" in output_of(*own, "--agent", "bo", "message", "inbox")
            output_of(*own, "forget", id_, "--reason", "It moved.")

    assert not spread, "each statement of a tenant runs on one server"
    assert json.loads(output_of("doctor", "--json"))["is_sound"]


def test_backup_of_the_coordinator_is_restored_on_a_single_server(
    citus: CitusServer, tmp_path: Path
) -> None:
    with citus.database() as database, citus.plain_database(is_empty=True) as restored:
        with closing(database.opened()) as store:
            put(store, a_memory(1, "tea is ready"))
            expected = stored(store, 1), lexical(store, "tea")
        made = run_script("backup.sh", str(tmp_path), owner=database.owner)
        assert made.returncode == 0, made.stderr
        back = run_script("restore.sh", made.stdout.strip(), owner=restored.owner)
        assert back.returncode == 0, back.stderr

        with closing(restored.opened()) as store:
            assert (stored(store, 1), lexical(store, "tea")) == expected
            assert all(finding.is_sound for finding in store.examine())
