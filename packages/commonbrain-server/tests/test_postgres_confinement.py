"""Strangers are kept out by Postgres itself, whatever a statement of ours forgets to say."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import psycopg
import pytest
from commonbrain_server.postgres.citus import session_settings
from commonbrain_server.postgres.schema import INDEX
from psycopg import sql

from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    RejectedError,
    StoreCorruptError,
    UnavailableError,
)
from commonbrain.model.kinds import Kind
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.schema.types import METADATA
from commonbrain.storage.store import Store
from commonbrain.testing.builders import a_memory
from tests.postgres import Database, Server
from tests.storage.store_steps import put, query_scope, stored

REFERENCE = {"alembic_version", "spaces"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantConnection:
    """Runs each statement in a transaction of a tenant, on whatever server it runs."""

    connection: psycopg.Connection
    tenant: str

    def execute(self, statement: str, given: Sequence[object] | None = None) -> psycopg.Cursor:
        with self.connection.transaction():
            settings = sql.Literal(session_settings(self.tenant))
            self.connection.execute(sql.SQL("DO {}").format(settings))
            return self.connection.execute(statement.encode(), given)


@contextmanager
def connected(url: str, *, tenant: str = "") -> Generator[TenantConnection]:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        yield TenantConnection(connection=connection, tenant=tenant)


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    with closing(database.opened()) as opened:
        put(opened, a_memory(1, "tea is ready"), a_memory(2, "it works", kind=Kind.ATOM))
        yield opened


def owned() -> list[str]:
    """Every table with rows of tenants, which alone hold texts of agents."""
    names = {table.name for table in (*METADATA.sorted_tables, *INDEX.sorted_tables)}
    return sorted({*names, "memory_text", "atom_text"} - REFERENCE)


@pytest.mark.requirement("DM-16")
@pytest.mark.parametrize("tenant", ["", "other", "default' OR 'a' = 'a", "%"])
def test_statement_without_condition_returns_no_row_of_another_tenant(
    database: Database, store: Store, tenant: str
) -> None:
    with connected(database.program, tenant=tenant) as stranger:
        for table in owned():
            assert stranger.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table  # type: ignore[arg-type] # noqa: S608 our own
        assert stranger.execute("UPDATE memories SET headline = 'mine'").rowcount == 0
        assert stranger.execute("DELETE FROM vectors").rowcount == 0

    assert stored(store, 1)[1].headline == "tea is ready"


@pytest.mark.parametrize("tenant", ["", "other"])
@pytest.mark.usefixtures("store")
def test_tenant_cannot_write_a_row_for_another_tenant(database: Database, tenant: str) -> None:
    note = "INSERT INTO notes (tenant_id, agent, session, key, value, pinned, at) "
    values = "VALUES ('default', 'ann', '', 'k', 'v', false, 0)"
    with connected(database.program, tenant=tenant) as stranger:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            stranger.execute(f"{note}{values}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            stranger.execute("INSERT INTO tenants VALUES ('default', 0, 'k')")


@pytest.mark.usefixtures("store")
def test_tenant_cannot_move_a_row_to_another_tenant(database: Database) -> None:
    # Citus refuses it on its own account, whoever asks.
    refused = psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported
    with (
        connected(database.program, tenant=LOCAL_TENANT) as program,
        pytest.raises(refused, match=r"row-level security|partition value"),
    ):
        program.execute("UPDATE memories SET tenant_id = 'other' WHERE id = 1")


@pytest.mark.parametrize("tenant", ["", "other"])
@pytest.mark.usefixtures("store")
def test_full_text_search_takes_the_tenant_only_from_the_transaction(
    database: Database, tenant: str
) -> None:
    search = (
        "SELECT count(*) FROM words_found('{tea, works}', 2, '{1, 1}', %s, 9, 5, NULL, 100, NULL)"
    )
    with connected(database.program, tenant=tenant) as stranger:
        assert stranger.execute(search, [None]).fetchone() == (0,)
        assert stranger.execute(search, ["outcome"]).fetchone() == (0,)
    with connected(database.program, tenant=LOCAL_TENANT) as program:
        assert program.execute(search, [None]).fetchone() == (2,)


@pytest.mark.usefixtures("store")
def test_role_of_programs_has_only_the_rights_it_needs(database: Database) -> None:
    forbidden = (
        "UPDATE audit SET agent = 'bo'",
        "DELETE FROM audit",
        "UPDATE access_audit SET agent = 'bo'",
        "DELETE FROM access_audit",
        "DELETE FROM tenants",
        "UPDATE spaces SET dimensions = 1",
        "DELETE FROM spaces",
        "UPDATE alembic_version SET version_num = '0'",
        "DROP TABLE memories",
        "ALTER TABLE memories DISABLE ROW LEVEL SECURITY",
        "DROP POLICY own_tenant ON memories",
        "CREATE TABLE mine (x int)",
        "TRUNCATE memories",
        "SET ROLE NONE; SET SESSION AUTHORIZATION postgres",
    )
    with connected(database.program, tenant=LOCAL_TENANT) as program:
        for statement in forbidden:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                program.execute(statement)


@pytest.mark.of_one_server
@pytest.mark.usefixtures("store")
def test_program_cannot_read_a_partition(database: Database) -> None:
    with (
        connected(database.program, tenant=LOCAL_TENANT) as program,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        program.execute("SELECT * FROM vectors_0")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("table", "columns", "row"),
    [
        (
            "audit",
            "id, at, action, memory_id, agent, content_hmac",
            "1, 0, 'create', 1, 'ann', 'x'",
        ),
        ("access_audit", "id, at, action, count", "1, 0, 'key_create', 1"),
    ],
)
def test_owner_cannot_change_the_audit(
    database: Database, table: str, columns: str, row: str
) -> None:
    with connected(database.owner) as owner:
        owner.execute(f"INSERT INTO {table} (tenant_id, {columns}) VALUES ('default', {row})")  # type: ignore[arg-type] # noqa: S608
        for change in (f"UPDATE {table} SET agent = 'bo'", f"DELETE FROM {table}"):  # noqa: S608
            with pytest.raises(psycopg.IntegrityError, match="append-only"):
                owner.execute(change)  # type: ignore[arg-type]


@pytest.mark.requirement("DM-16")
def test_catalogue_confirms_row_security_and_tenant_keys_of_every_table(
    database: Database,
) -> None:
    every = (
        "SELECT c.oid, c.relname, c.relrowsecurity FROM pg_class c JOIN pg_attribute a "
        "ON a.attrelid = c.oid AND a.attname = 'tenant_id' "
        "WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')"
    )
    keys = (
        "SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_attribute a "
        "ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
        "WHERE i.indrelid = %s AND i.indisunique AND a.attname <> 'tenant_id'"
    )
    foreign = (
        "SELECT k.conname FROM pg_constraint k JOIN pg_attribute a ON a.attrelid = k.conrelid "
        "AND a.attnum = k.conkey[1] WHERE k.conrelid = %s AND k.contype = 'f' "
        "AND a.attname <> 'tenant_id' AND k.confrelid NOT IN "
        "('tenants'::regclass, 'spaces'::regclass)"
    )
    with connected(database.owner) as owner:
        tables = owner.execute(every).fetchall()
        for oid, name, is_confined in tables:
            assert is_confined, name
            assert owner.execute(keys, [oid]).fetchall() == [], name
            assert owner.execute(foreign, [oid]).fetchall() == [], name
        assert {name for _, name, _ in tables} >= {*owned()} - {"tenants"}
        sequences = (
            "SELECT relname FROM pg_class WHERE relkind = 'S' "
            "AND relnamespace = 'public'::regnamespace"
        )
        assert owner.execute(sequences).fetchall() == [("spaces_id_seq",)]


@pytest.mark.parametrize(
    ("trait", "told"), [("SUPERUSER", "superuser"), ("BYPASSRLS", "BYPASSRLS")]
)
def test_role_above_row_level_security_cannot_open_the_store(
    postgres: Server, database: Database, trait: str, told: str
) -> None:
    name = postgres.program
    postgres.run(f"ALTER ROLE {{name}} {trait}", name=name)
    try:
        with pytest.raises(RejectedError, match=told) as refusal:
            database.opened()
    finally:
        postgres.run(f"ALTER ROLE {{name}} NO{trait}", name=name)

    assert refusal.value.code == "role_unconfined"
    assert "brain store upgrade" in refusal.value.hint


def test_owner_of_the_tables_cannot_open_the_store(database: Database) -> None:
    with pytest.raises(RejectedError, match="owns the tables"):
        Database(owner=database.owner, program=database.owner).opened()


def test_refused_login_does_not_repeat_the_password(database: Database) -> None:
    wrong_url = database.program.replace("@", "not-this@")

    with pytest.raises(UnavailableError) as refusal:
        Database(owner=wrong_url, program=wrong_url).opened()

    assert "not-this" not in _whole(refusal.value)


def test_unreadable_url_is_not_repeated_in_the_error() -> None:
    url = "postgresql://ann:s3cret@host:port/db"

    with pytest.raises(InvalidInputError) as refusal:
        Database(owner=url, program=url).opened()

    assert "s3cret" not in _whole(refusal.value)


def test_error_for_an_empty_database_names_the_command_that_fills_it(postgres: Server) -> None:
    with postgres.database(is_empty=True) as empty, pytest.raises(UnavailableError) as refusal:
        empty.opened()

    assert refusal.value.code == "store_older"
    assert "brain store upgrade --grant ROLE" in refusal.value.hint


def test_database_of_another_program_is_refused(postgres: Server) -> None:
    with postgres.database(is_empty=True) as foreign:
        with connected(foreign.owner) as owner:
            owner.execute("CREATE TABLE theirs (x int)")
        with pytest.raises(StoreCorruptError) as refusal:
            foreign.opened()

    assert refusal.value.code == "store_foreign"


def test_tenants_with_equal_ids_and_words_are_separate(database: Database) -> None:
    with closing(database.opened()) as store:
        with connected(database.program, tenant="other") as program:
            program.execute("INSERT INTO tenants VALUES ('other', 0, 'k')")
        put(store, a_memory(1, "tea is ready"))
        with store.begin("other") as tx:
            tx.memories.add(a_memory(1, "tea is cold"))
            tx.index.put(a_memory(1, "tea is cold"), None)

        for tenant, body in ((LOCAL_TENANT, "tea is ready"), ("other", "tea is cold")):
            with store.snapshot(tenant) as tx:
                assert tx.memories.get([1])[1].body == body
                assert [hit.id for hit in tx.index.lexical(["tea"], query_scope(), limit=5)] == [1]


def _whole(error: CommonbrainError) -> str:
    return f"{error} {error!r} {error.hint}"
