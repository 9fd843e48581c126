"""What is Postgres' own: turns of writers, lost connections, indexes, upgrades, what it refuses."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import LiteralString

import numpy as np
import psycopg
import pytest
from commonbrain_server.postgres.errors import map_postgres_errors
from commonbrain_server.postgres.opening import UpgradeResult, open_postgres, upgrade_postgres
from commonbrain_server.postgres.roles import FUNCTIONS
from commonbrain_server.postgres.statistics import Size
from commonbrain_server.postgres.vectors import (
    PostgresVectors,
    VectorTable,
    half,
    vector_index_name,
)
from sqlalchemy import QueuePool, exc, make_url, select, text

from commonbrain.embeddings.interface import Matrix, Vectors
from commonbrain.model.errors import RejectedError, StoreCorruptError, UnavailableError
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sql.schema_version import SCHEMA_VERSION
from commonbrain.storage.sql.statements import compiled
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, FakeClock, a_memory
from tests.postgres import END_ALL, Database, Server
from tests.processes import until
from tests.storage.store_steps import SPACE, put, query_scope, random_vectors, stored

LARGE = Size(memories=100_000, average_words=40)
SMALL = Size(memories=600, average_words=40)
# The index of an older program was over the vectors themselves.
OLDER = "((vector::halfvec(16)) halfvec_ip_ops) WITH (m = 16, ef_construction = 200)"
FAILS_INTERNALLY: tuple[LiteralString, ...] = (
    "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "RAISE EXCEPTION 'unexpected' USING ERRCODE = 'internal_error'; END $$",
    "CREATE TRIGGER fails BEFORE INSERT ON memories FOR EACH ROW EXECUTE FUNCTION fail()",
)
BE_OTHER = "SELECT set_config('commonbrain.tenant', 'other', false)"


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    with closing(database.opened()) as opened:
        yield opened


def impatient(database: Database) -> Store:
    return open_postgres(database.program, space=SPACE, clock=FakeClock(), lock_timeout_s=0.05)


@pytest.mark.requirement("WP-22")
def test_second_writer_of_a_tenant_waits_until_a_timeout(database: Database, store: Store) -> None:
    with closing(impatient(database)) as other, store.begin(LOCAL_TENANT):
        with pytest.raises(UnavailableError, match="lock timeout"), other.begin(LOCAL_TENANT):
            pass
        assert stored(other, 1) == {}

    put(store, a_memory(1, "tea is ready"))
    assert stored(store, 1)


def test_writer_of_another_tenant_does_not_wait(database: Database, store: Store) -> None:
    store.make_tenant("other", at=NOON)
    with (
        closing(impatient(database)) as other,
        store.begin(LOCAL_TENANT) as mine,
        other.begin("other") as theirs,
    ):
        mine.memories.add(a_memory(1, "tea is ready"))
        theirs.memories.add(a_memory(1, "so is cake"))

    assert stored(store, 1)[1].body == "tea is ready"


def test_writer_sees_rows_written_while_it_waited(database: Database, store: Store) -> None:
    present: list[int] = []

    def write_next() -> None:
        with closing(database.opened()) as other, other.begin(LOCAL_TENANT) as tx:
            present.extend(tx.memories.page(after=0, limit=5))

    waiting = threading.Thread(target=write_next)
    with store.begin(LOCAL_TENANT) as tx:
        tx.memories.add(a_memory(1, "tea is ready"))
        waiting.start()
        _await_blocked_session(database)
    waiting.join()

    assert present == [1]


def _await_blocked_session(database: Database) -> None:
    statement = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        while owner.execute(statement).fetchone() == (0,):
            pass


def test_store_reconnects_when_the_server_ended_its_connections(
    postgres: Server, database: Database, store: Store
) -> None:
    put(store, a_memory(1, "tea is ready"))
    with closing(psycopg.connect(postgres.url, autocommit=True)) as superuser:
        superuser.execute(END_ALL, [database.name])

    put(store, a_memory(2, "so is cake"))
    assert set(stored(store, 1, 2)) == {1, 2}


def test_read_only_server_refuses_writes(store: Store) -> None:
    put(store, a_memory(1, "tea is ready"))
    with pytest.raises(UnavailableError) as refusal:
        _write_where_nothing_is(store)

    assert refusal.value.code == "store_read_only"
    assert set(stored(store, 1, 2)) == {1}


def _write_where_nothing_is(store: Store) -> None:
    with store.begin(LOCAL_TENANT) as tx:
        tx.work.connection.execute(text("SET TRANSACTION READ ONLY"))
        tx.memories.add(a_memory(2, "so is cake"))


@pytest.mark.of_one_server
def test_internal_error_of_a_single_server_is_not_reported_as_an_outage(
    database: Database, store: Store
) -> None:
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        for statement in FAILS_INTERNALLY:
            owner.execute(statement)

    with pytest.raises(exc.InternalError, match="unexpected"):
        put(store, a_memory(1, "tea is ready"))


@pytest.mark.parametrize(
    ("is_distributed", "error"), [(False, exc.InternalError), (True, UnavailableError)]
)
def test_internal_error_means_a_lost_server_only_in_a_distributed_store(
    error: type[Exception], *, is_distributed: bool
) -> None:
    cause = psycopg.errors.InternalError_("failure on connection marked as essential")
    with pytest.raises(error), map_postgres_errors("db", is_distributed=is_distributed):
        raise exc.InternalError("COMMIT", None, cause)


def test_statements_and_idle_transactions_have_a_timeout_of_a_minute(store: Store) -> None:
    with store.snapshot(LOCAL_TENANT) as tx:
        values = [
            tx.work.connection.execute(text(f"SHOW {name}")).scalar_one()
            for name in ("statement_timeout", "idle_in_transaction_session_timeout")
        ]
        pool = store.dialect.engine.pool

    assert values == ["1min", "1min"]
    assert isinstance(pool, QueuePool)
    assert pool.size() == 32


def test_statement_that_takes_too_long_is_cancelled(store: Store) -> None:
    with pytest.raises(UnavailableError, match="statement timeout"):
        _take_too_long(store)


def _take_too_long(store: Store) -> None:
    with store.snapshot(LOCAL_TENANT) as tx:
        tx.work.connection.execute(text("SET LOCAL statement_timeout = 10"))
        tx.work.connection.execute(text("SELECT pg_sleep(60)"))


@pytest.mark.requirement("RT-15", "PF-16")
@pytest.mark.of_one_server
def test_large_tenant_is_searched_by_the_index_of_its_space(store: Store) -> None:
    vectors = random_vectors(600)
    with store.begin(LOCAL_TENANT) as tx:
        for place, vector in enumerate(vectors):
            memory = a_memory(place + 1, f"number {place}")
            tx.memories.add(memory)
            tx.index.put(memory, Vectors(windows=np.stack([vector, -vector])))

    with store.snapshot(LOCAL_TENANT) as tx:
        index = PostgresVectors(work=tx.work, which=tx.index.which)  # type: ignore[attr-defined]
        by_index, exact = (
            index.nearest(vectors[7], query_scope(), limit=10, at_least=-1.0, size=size)
            for size in (LARGE, SMALL)
        )
        plan = _planned(tx.work, index.which, vectors[7])

    assert by_index[0] == exact[0]
    assert exact[0].id == 8
    assert len({hit.id for hit in by_index} & {hit.id for hit in exact}) >= 9
    assert "_nearest_1" in plan
    assert "InitPlan" in plan, "the query's code is computed for each vector that is compared"


def _planned(work: SqlContext, which: VectorTable, query: Matrix) -> str:
    """Give how Postgres would find the nearest, were it many vectors and not six hundred."""
    work.connection.execute(text("SET LOCAL enable_sort = off"))
    nearest = (
        select(which.table.c.memory_id).where(*which.here).order_by(which.code_distance).limit(5)
    )
    made = compiled(nearest, work.connection.dialect, names=("tenant", "query"))
    explained = replace(made, text=f"EXPLAIN {made.text}")
    parameters = {"tenant": work.tenant, "query": half(query)}
    return "\n".join(line for (line,) in explained.rows(work.connection, parameters))


def test_repeated_upgrade_changes_nothing(database: Database) -> None:
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        catalogue = (
            "SELECT c.oid, c.relname, c.relrowsecurity, c.relacl::text FROM pg_class c "
            "WHERE c.relnamespace = 'public'::regnamespace ORDER BY c.oid"
        )
        before = owner.execute(catalogue).fetchall()
        done = upgrade_postgres(
            database.owner, space=SPACE, clock=FakeClock(), lock_timeout_s=LOCK_TIMEOUT_S
        )

        assert owner.execute(catalogue).fetchall() == before
    assert done.schema_version == SCHEMA_VERSION
    assert len(done.roles) == 1


def test_upgrade_that_waits_too_long_for_a_lock_changes_nothing(database: Database) -> None:
    policies = "SELECT count(*) FROM pg_policies WHERE tablename IN ('facts', 'memories')"
    with psycopg.connect(database.owner) as owner:
        for table in ("facts", "memories"):
            owner.execute(f"DROP POLICY own_tenant ON {table}")  # type: ignore[arg-type]
        owner.commit()
        owner.execute("LOCK TABLE memories IN ACCESS SHARE MODE")
        with pytest.raises(UnavailableError, match="lock timeout"):
            upgrade_postgres(database.owner, space=SPACE, clock=FakeClock(), lock_timeout_s=0.05)

        assert owner.execute(policies).fetchone() == (0,)


def test_upgrade_creates_an_index_that_an_interrupted_upgrade_did_not_create(
    database: Database,
) -> None:
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        name = an_index(owner)
        owner.execute(f"DROP INDEX {name}")  # type: ignore[arg-type]
        upgrade(database)

        assert owner.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchone() == (True,)


def test_upgrade_rebuilds_an_index_of_an_older_program(database: Database) -> None:
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        name = an_index(owner)
        newer = made(owner, name)
        make_older(owner, name)
        assert made(owner, name) != newer
        upgrade(database)

        assert made(owner, name) == newer
        assert not made(owner, f"{name}_next")
        assert not made(owner, f"{name}_old")


def test_upgrade_uses_an_index_that_was_built_but_not_yet_renamed(database: Database) -> None:
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        name = an_index(owner)
        newer = made(owner, name)
        older = as_older(newer)
        owner.execute(f"ALTER INDEX {name} RENAME TO {name}_next")  # type: ignore[arg-type]
        owner.execute(older)  # type: ignore[arg-type]
        built = oid_of(owner, f"{name}_next")
        upgrade(database)

        assert oid_of(owner, name) == built
        assert made(owner, name) == newer
        assert not made(owner, f"{name}_next")


def test_upgrade_drops_a_replaced_index_left_by_an_interrupted_upgrade(database: Database) -> None:
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        name = an_index(owner)
        older = as_older(made(owner, name)).replace(name, f"{name}_old")
        owner.execute(older)  # type: ignore[arg-type]
        built = oid_of(owner, name)
        upgrade(database)

        assert oid_of(owner, name) == built
        assert not made(owner, f"{name}_old")


@pytest.mark.of_one_server
def test_readers_do_not_wait_for_an_upgrade_that_waits_for_a_reader(database: Database) -> None:
    read = "SELECT count(*) FROM vectors"
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor())
        owner = stack.enter_context(closing(psycopg.connect(database.owner, autocommit=True)))
        reader, other = (
            stack.enter_context(closing(psycopg.connect(database.owner))) for _ in range(2)
        )
        name = an_index(owner)
        newer = made(owner, name)
        make_older(owner, name)
        reader.execute(read)
        upgrading = pool.submit(upgrade, database)
        until(lambda: is_waiting(owner, "DROP INDEX"))

        other.execute("SET lock_timeout = '2s'")
        assert other.execute(read).fetchone() == (0,)
        other.rollback()
        assert made(owner, name) == newer
        reader.rollback()
        upgrading.result()
        assert not made(owner, f"{name}_old")


@pytest.mark.of_one_server
def test_upgrade_that_waits_too_long_for_a_reader_names_the_next_step(database: Database) -> None:
    with ExitStack() as stack:
        owner = stack.enter_context(closing(psycopg.connect(database.owner, autocommit=True)))
        reader = stack.enter_context(closing(psycopg.connect(database.owner)))
        name = an_index(owner)
        newer = made(owner, name)
        make_older(owner, name)
        reader.execute("SELECT count(*) FROM vectors")

        with pytest.raises(UnavailableError, match="are not finished") as refusal:
            upgrade(database, lock_timeout_s=0.2)
        assert refusal.value.code == "store_in_use"
        assert made(owner, name) == newer
        reader.rollback()
        upgrade(database)
        assert not made(owner, f"{name}_old")


def test_upgrades_build_indexes_one_after_the_other(database: Database) -> None:
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor())
        owner = stack.enter_context(closing(psycopg.connect(database.owner, autocommit=True)))
        reader = stack.enter_context(closing(psycopg.connect(database.owner)))
        name = an_index(owner)
        newer = made(owner, name)
        owner.execute(f"DROP INDEX {name}")  # type: ignore[arg-type]
        # An index is complete when no snapshot is older than it.
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT 1")
        first = pool.submit(upgrade, database)
        until(lambda: is_waiting(owner, "CREATE INDEX"))

        with pytest.raises(UnavailableError, match="Another program builds") as refusal:
            upgrade(database, lock_timeout_s=0.2)
        assert refusal.value.code == "store_in_use"
        second = pool.submit(upgrade, database)
        asking = (
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%try_advisory%' AND pid <> "
        )
        until(lambda: owner.execute(f"{asking} pg_backend_pid()").fetchone() == (1,))  # type: ignore[arg-type]
        reader.rollback()
        assert first.result() == second.result()
        assert made(owner, name) == newer


def upgrade(database: Database, *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> UpgradeResult:
    return upgrade_postgres(
        database.owner, space=SPACE, clock=FakeClock(), lock_timeout_s=lock_timeout_s
    )


def an_index(owner: psycopg.Connection) -> str:
    """Give the name of an index over vectors: of a partition, or of the distributed table."""
    named = (
        "SELECT relname FROM pg_class WHERE relkind = 'i' AND relname LIKE %s ORDER BY 1 LIMIT 1"
    )
    [(name,)] = owner.execute(named, [vector_index_name("vectors%", 1)]).fetchall()
    return name


def as_older(statement: str) -> str:
    """Make the statement that makes an index one of an older program."""
    return statement.partition(" ((")[0] + f" {OLDER} WHERE space_id = 1"


def make_older(owner: psycopg.Connection, name: str) -> None:
    """Put the index of an older program in an index's place."""
    older = as_older(made(owner, name))
    owner.execute(f"DROP INDEX {name}")  # type: ignore[arg-type]
    owner.execute(older)  # type: ignore[arg-type]


def oid_of(owner: psycopg.Connection, name: str) -> object:
    [(oid,)] = owner.execute("SELECT %s::regclass::oid", [name]).fetchall()
    return oid


def is_waiting(owner: psycopg.Connection, statement: str) -> bool:
    """Say whether a statement that begins so waits for a lock."""
    query = (
        "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() "
        "AND wait_event_type = 'Lock' AND starts_with(query, %s)"
    )
    return owner.execute(query, [statement]).fetchone() == (True,)


def made(owner: psycopg.Connection, name: str) -> str:
    """Give the statement that makes an index; empty if there is none."""
    rows = owner.execute(
        "SELECT pg_get_indexdef(c.oid) FROM pg_class c WHERE c.relname = %s", [name]
    ).fetchall()
    return "".join(statement for (statement,) in rows)


@pytest.mark.of_one_server
def test_text_index_has_no_pending_list_after_an_upgrade(
    database: Database,
) -> None:
    def listing(owner: psycopg.Connection) -> list[str]:
        rows = owner.execute(
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam "
            "WHERE a.amname = 'gin' AND c.relkind = 'i' "
            "AND c.reloptions IS DISTINCT FROM '{fastupdate=off}' ORDER BY 1"
        )
        return [name for (name,) in rows]

    with (
        closing(psycopg.connect(database.owner, autocommit=True)) as owner,
        closing(database.opened()) as store,
    ):
        assert listing(owner) == []
        put(store, a_memory(1, "tea is ready"))
        [(part,)] = owner.execute("SELECT tableoid::regclass::text FROM memory_text").fetchall()
        index = f"{part}_words_idx"
        owner.execute(f"ALTER INDEX {index} SET (fastupdate = on)")  # type: ignore[arg-type]
        put(store, a_memory(2, "so is the coffee"))
        assert listing(owner) == [index]
        upgrade_postgres(
            database.owner, space=SPACE, clock=FakeClock(), lock_timeout_s=LOCK_TIMEOUT_S
        )

        assert listing(owner) == []
        left = owner.execute("SELECT gin_clean_pending_list(%s::regclass)", [index]).fetchone()
        assert left == (0,), "the upgrade has put what was listed into the index"


def test_upgrade_indexes_each_stored_space_by_its_dimensions(
    database: Database,
) -> None:
    def upgraded() -> None:
        upgrade_postgres(
            database.owner, space=SPACE, clock=FakeClock(), lock_timeout_s=LOCK_TIMEOUT_S
        )

    other = replace(SPACE, name="elsewhere/96", dimensions=96)
    with closing(database.opened()) as store:
        [current] = store.spaces.listed()
        made = store.spaces.add(other)
        assert [store.spaces.is_indexed(one.id) for one in (current, made)] == [True, False]
        upgraded()
        assert [store.spaces.is_indexed(one.id) for one in (current, made)] == [True, True]
        store.spaces.drop(other.name)
        upgraded()
        assert [store.spaces.is_indexed(one.id) for one in (current, made)] == [True, False]


def test_switch_of_spaces_waits_for_a_writer_and_counts_its_rows(
    database: Database,
) -> None:
    other = replace(SPACE, name="elsewhere/96", dimensions=96)
    with closing(database.opened()) as store, ThreadPoolExecutor() as pool:
        store.spaces.add(other)
        with store.begin(LOCAL_TENANT) as tx:
            switching = pool.submit(store.spaces.switch, other.name)
            memory = a_memory(1, "The kettle is blue.")
            tx.memories.add(memory)
            tx.index.put(memory, None)
        with pytest.raises(RejectedError) as refused:
            switching.result()
        assert refused.value.code == "space_incomplete"
        assert store.moved_to is None


def test_store_of_a_development_version_is_refused_by_programs_and_upgrades(
    database: Database,
) -> None:
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        owner.execute("UPDATE alembic_version SET version_num = '0011'")

    with pytest.raises(StoreCorruptError, match="schema version 0011") as refusal:
        database.opened()
    with pytest.raises(StoreCorruptError, match="schema version 0011"):
        upgrade_postgres(
            database.owner, space=SPACE, clock=FakeClock(), lock_timeout_s=LOCK_TIMEOUT_S
        )

    assert refusal.value.code == "store_older"
    assert "brain export" in refusal.value.hint


def test_upgrade_retains_functions_of_older_programs(database: Database) -> None:
    older = (
        "words_counted(text[],text,bigint)",
        "words_found(text[],double precision[],text,double precision,bigint,integer)",
    )
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        for name in older:
            owner.execute(f"CREATE FUNCTION {name} RETURNS int LANGUAGE sql AS 'SELECT 1'")  # type: ignore[arg-type]
            owner.execute(f"REVOKE ALL ON FUNCTION {name} FROM PUBLIC")  # type: ignore[arg-type]
        role = make_url(database.program).username
        owner.execute(f"GRANT EXECUTE ON FUNCTION {older[0]} TO {role}")  # type: ignore[arg-type]
        rights = "SELECT proacl::text FROM pg_proc WHERE oid = ANY (%s::regprocedure[]) ORDER BY 1"
        before = owner.execute(rights, [list(older)]).fetchall()
        upgrade_postgres(
            database.owner, space=SPACE, clock=FakeClock(), lock_timeout_s=LOCK_TIMEOUT_S
        )

        assert owner.execute(rights, [list(older)]).fetchall() == before
    assert len(before) == len(older)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_store_without_a_needed_function_is_refused_until_upgraded(
    database: Database, function: str
) -> None:
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        owner.execute(f"DROP FUNCTION {function}")  # type: ignore[arg-type]

    with pytest.raises(UnavailableError, match="functions of an older program") as refusal:
        database.opened()
    upgrade_postgres(database.owner, space=SPACE, clock=FakeClock(), lock_timeout_s=LOCK_TIMEOUT_S)

    assert refusal.value.code == "store_older"
    assert "brain store upgrade" in refusal.value.hint
    with closing(database.opened()) as store:
        put(store, a_memory(1, "tea is ready"))
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.index.lexical(["tea"], query_scope(), limit=5)


@pytest.mark.parametrize("is_open", [True, False])
def test_program_continues_after_an_upgrade_that_it_can_read(
    database: Database, *, is_open: bool
) -> None:
    with ExitStack() as stack:
        before = stack.enter_context(closing(database.opened())) if is_open else None
        _come_later(database, readable_from=SCHEMA_VERSION)
        store = before or stack.enter_context(closing(database.opened()))
        put(store, a_memory(1, "tea is ready"))

        assert stored(store, 1)
        assert store.examine()


@pytest.mark.parametrize("is_open", [True, False])
def test_program_stops_after_an_upgrade_that_it_cannot_read(
    database: Database, *, is_open: bool
) -> None:
    with ExitStack() as stack:
        before = stack.enter_context(closing(database.opened())) if is_open else None
        _come_later(database, readable_from="9999")
        with pytest.raises(StoreCorruptError) as refusal:
            stored(before or database.opened(), 1)

    assert refusal.value.code == "store_newer"


def _come_later(database: Database, *, readable_from: str) -> None:
    """Upgrade as a later version would: what it adds, older programs need not know."""
    with closing(psycopg.connect(database.owner, autocommit=True)) as owner:
        owner.execute("ALTER TABLE memories ADD COLUMN mood text")
        owner.execute("CREATE TABLE moods (tenant_id varchar(128), id bigint)")
        owner.execute("UPDATE alembic_version SET version_num = '9999'")
        owner.execute(f"COMMENT ON TABLE alembic_version IS '{readable_from}'")  # type: ignore[arg-type]


def test_refused_backup_names_the_tool_to_use(store: Store, tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match="pg_dump") as refusal:
        store.backup(tmp_path / "copy.db")

    assert refusal.value.code == "backup_unsupported"
    assert not (tmp_path / "copy.db").exists()


def test_store_in_postgres_does_not_show_its_password(database: Database) -> None:
    password = database.program.partition(":")[2].partition("@")[0].rpartition(":")[2]
    with closing(database.opened()) as store:
        text_shown = f"{store!r} {store.location} {store.examine()}"

    assert f":{password}@" not in text_shown
