"""The way to a database distributed by tenant, as far as plain Postgres goes: Citus is not here."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest
from commonbrain_server.postgres.citus import (
    REFERENCE,
    DistributionProgress,
    distribution,
    planned,
    read_progress,
    references,
)
from commonbrain_server.postgres.engine import Postgres
from commonbrain_server.postgres.opening import (
    distribute_postgres,
    flatten,
    preview_distribution,
    upgrade_postgres,
)
from commonbrain_server.postgres.vectors import vector_index_name
from sqlalchemy import create_engine, make_url

from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.schema.types import METADATA
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, FakeClock, a_memory
from tests.postgres import Database
from tests.storage.store_steps import EMBEDDER, SPACE, lexical, put, query_scope, stored

pytestmark = pytest.mark.of_one_server

PARTED = {"vectors", "field_vectors", "memory_text", "atom_text"}
FOREIGN = (
    "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE contype = 'f' AND connamespace = 'public'::regnamespace AND conparentid = 0"
)
KEYS = (
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE contype IN ('p', 'f', 'c') AND connamespace = 'public'::regnamespace "
    "AND conrelid::regclass::text = ANY (%s) ORDER BY 1, 2"
)
TABLES = (
    "SELECT relname, relkind::text, relrowsecurity FROM pg_class "
    "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"
)
INDEXES = "SELECT indexname FROM pg_indexes WHERE tablename = ANY (%s) AND schemaname = 'public'"


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    with closing(database.opened()) as opened:
        yield opened


def flattened(database: Database) -> list[str]:
    """Do what is plain Postgres of a distribution; give the statements."""
    engine = create_engine(make_url(database.owner).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        plan = distribution(connection)
        flatten(connection, plan)
    engine.dispose()
    return list(plan.flat)


def preview(database: Database) -> tuple[list[str], list[str]]:
    plan = preview_distribution(database.owner, lock_timeout_s=LOCK_TIMEOUT_S)
    return list(plan.flat), list(plan.spread)


def fetch(database: Database, statement: str, *given: object) -> list[tuple[object, ...]]:
    with closing(psycopg.connect(database.owner)) as owner:
        return owner.execute(statement.encode(), given).fetchall()


def answers(store: Store) -> object:
    """What full text, vectors and rows answer, in a store that has something in it."""
    [query] = EMBEDDER.passages(["tea in the shed"])
    with store.snapshot(LOCAL_TENANT) as tx:
        near = tx.index.nearest(query[0], query_scope(), limit=10)
        words = tx.index.lexical(["tea", "shed"], query_scope(), limit=10)
    return stored(store, 1, 2, 3), lexical(store, "tea"), words, near


def test_partitioned_tables_become_plain_with_every_row_and_the_same_answers(
    database: Database, store: Store
) -> None:
    put(store, *(a_memory(at, f"the tea number {at} is in the shed") for at in (1, 2)))
    put(store, a_memory(3, "shed roof", kind=Kind.ATOM))
    store.make_tenant("other", at=NOON)
    before, keys = answers(store), fetch(database, KEYS, [*PARTED])

    assert flattened(database)

    assert {(name, kind) for name, kind, _ in fetch(database, TABLES)} >= {
        (name, "r") for name in PARTED
    }
    assert not [name for name, kind, _ in fetch(database, TABLES) if kind == "p"]
    assert fetch(database, KEYS, [*PARTED]) == keys
    with closing(database.opened()) as again:
        assert answers(again) == before
        assert all(finding.is_sound for finding in again.examine())
        put(again, a_memory(4, "tea for everybody"))
        with again.snapshot("other") as tx:
            assert tx.index.lexical(["tea"], query_scope(), limit=10) == []


def test_plain_tables_remain_confined_to_their_tenant(database: Database, store: Store) -> None:
    put(store, a_memory(1, "tea is ready"))
    flattened(database)

    every = {name: is_confined for name, _, is_confined in fetch(database, TABLES)}
    assert {name for name, is_confined in every.items() if not is_confined} == {*REFERENCE}
    with closing(psycopg.connect(database.program)) as program:
        program.execute("SELECT set_config('commonbrain.tenant', 'other', false)")
        for table in PARTED:
            assert program.execute(f"SELECT count(*) FROM {table}".encode()).fetchall() == [(0,)]  # noqa: S608 our own name


def test_upgrade_after_conversion_indexes_the_plain_tables(database: Database) -> None:
    flattened(database)
    for _ in range(2):
        upgrade_postgres(
            database.owner, space=SPACE, clock=FakeClock(), lock_timeout_s=LOCK_TIMEOUT_S
        )

    names = {name for (name,) in fetch(database, INDEXES, [*PARTED])}
    assert names >= {
        vector_index_name("vectors", 1),
        vector_index_name("field_vectors", 1),
        "ix_memory_text_words",
        "ix_atom_text_words",
    }


def test_plain_tables_are_not_converted_again(database: Database) -> None:
    flattened(database)
    flat, spread = preview(database)
    assert flat == []
    assert spread


def test_preview_of_the_distribution_names_every_table_once_and_changes_nothing(
    database: Database,
) -> None:
    before = fetch(database, TABLES)
    flat, spread = preview(database)

    assert fetch(database, TABLES) == before
    placed = [one for one in spread if "create_distributed_table" in one]
    every = {table.name for table in METADATA.sorted_tables} | PARTED
    for table in every - {*REFERENCE}:
        [statement] = [one for one in placed if f"('{table}'" in one]
        assert "'id'" in statement or "'tenant_id', colocate_with => 'tenants'" in statement
        assert f"SELECT truncate_local_data_after_distributing_table('{table}')" in spread
    assert len(placed) == len(every - {*REFERENCE})
    assert {f"SELECT create_reference_table('{one}')" for one in REFERENCE} <= {*spread}
    assert len([one for one in flat if one.startswith("CREATE TABLE")]) == len(PARTED)


def test_foreign_keys_are_dropped_before_distribution_and_restored_after_it(
    database: Database,
) -> None:
    _, spread = preview(database)
    kinds = ["DROP CONSTRAINT", "create_", "ADD CONSTRAINT", "create_distributed_function"]
    at = [
        [place for place, one in enumerate(spread) if kind in one and "function" not in one]
        for kind in kinds[:3]
    ]
    assert max(at[0]) < min(at[1]) < max(at[1]) < min(at[2])
    assert set(references()) == {*fetch(database, FOREIGN)}
    assert len(at[0]) == len(at[2]) == len(references())


def test_distribution_without_citus_changes_nothing(database: Database) -> None:
    before = fetch(database, TABLES)
    with pytest.raises(RejectedError) as refused:
        distribute_postgres(database.owner, lock_timeout_s=LOCK_TIMEOUT_S)
    assert refused.value.code == "citus_missing"
    assert fetch(database, TABLES) == before


def test_transaction_start_for_citus_confines_tenants_on_one_server_as_well(store: Store) -> None:
    dialect = store.dialect
    assert isinstance(dialect, Postgres)
    assert not dialect.is_distributed
    dialect.is_distributed = True
    store.make_tenant("it's other", at=NOON)
    put(store, a_memory(1, "tea is ready"))

    def every(tenant: str) -> int:
        with store.snapshot(tenant) as tx:
            run = tx.work.connection.exec_driver_sql
            return run("SELECT count(*) FROM memories").scalar_one()

    assert [every(name) for name in (LOCAL_TENANT, "it's other")] == [1, 0]
    assert lexical(store, "tea") == [1]
    assert all(finding.is_sound for finding in store.examine())
    assert store.tenants() == [LOCAL_TENANT, "it's other"]


def test_interrupted_distribution_resumes_at_any_step() -> None:
    every = {table.name for table in METADATA.sorted_tables} | {"memory_text", "atom_text"}
    known = [(table, name, target) for (table, target), name in references().items()]
    done = DistributionProgress(placed=every | {*REFERENCE}, references=known, filled={*REFERENCE})
    functions = [one for one in planned(done).spread if "create_distributed_function" in one]

    assert planned(done).is_complete
    assert list(planned(done).spread) == functions

    unemptied = planned(replace(done, filled={"memories", "tenants"}))
    assert not unemptied.is_complete
    emptied = [one for one in unemptied.spread if "truncate_local_data" in one]
    assert sorted(emptied) == [
        f"SELECT truncate_local_data_after_distributing_table('{one}')"
        for one in ("memories", "tenants")
    ]
    assert {*functions} <= {*unemptied.spread}

    unreferenced = planned(replace(done, references=known[1:]))
    assert not unreferenced.is_complete
    assert len([one for one in unreferenced.spread if "ADD CONSTRAINT" in one]) == 1
    assert not planned(done, flat=["SELECT 1"]).is_complete


def test_only_the_first_distribution_replaces_the_configuration_of_text_search() -> None:
    none = DistributionProgress(placed=frozenset(), references=[], filled=frozenset())
    some = replace(none, placed={"spaces", "alembic_version", "tenants"})

    def replaced(progress: DistributionProgress) -> list[str]:
        return [one for one in planned(progress).spread if "TEXT SEARCH CONFIGURATION" in one]

    assert replaced(none)
    assert not replaced(some)


def test_catalogue_lists_the_tables_with_local_rows(database: Database, store: Store) -> None:
    put(store, a_memory(1, "tea is ready"))
    flattened(database)
    engine = create_engine(make_url(database.owner).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        progress = read_progress(connection)
    engine.dispose()
    assert progress.filled >= {"tenants", "memories", "vectors", "memory_text"}
    assert "disputes" not in progress.filled
    assert not progress.placed
    assert {(table, target) for table, _, target in progress.references} == {*references()}


def test_vector_search_continues_also_in_a_distributed_store(store: Store) -> None:
    dialect = store.dialect
    assert isinstance(dialect, Postgres)

    def scan() -> str:
        with store.snapshot(LOCAL_TENANT) as tx:
            run = tx.work.connection.exec_driver_sql
            return run("SELECT current_setting('hnsw.iterative_scan')").scalar_one()

    on_one = scan()
    dialect.is_distributed = True
    assert scan() == on_one == "relaxed_order"
