import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.errors import StoreCorruptError, UnavailableError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.memory import State
from commonbrain.model.query import Filter
from commonbrain.model.scope import LOCAL_TENANT, Caller, Trust
from commonbrain.model.sessions import Process
from commonbrain.storage.interface import AuditFilter, IdTaken, QueryScope
from commonbrain.storage.schema import memories
from commonbrain.storage.sqlite.driver import driver
from commonbrain.storage.sqlite.engine import open_sqlite
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON, FakeClock, a_memory
from tests.laid_out_stores import lay_out_store
from tests.storage.action_items_contract import ActionItemsContract
from tests.storage.board_contract import BoardContract
from tests.storage.cascade_contract import CascadeContract
from tests.storage.credentials_contract import CredentialsContract
from tests.storage.disputes_contract import DisputesContract
from tests.storage.events_contract import EventsContract
from tests.storage.field_contract import FieldContract
from tests.storage.history_contract import HistoryContract
from tests.storage.index_contract import IndexContract
from tests.storage.jobs_contract import JobsContract
from tests.storage.learning_contract import LearningContract
from tests.storage.listing_contract import ListingContract
from tests.storage.mail_contract import MailContract
from tests.storage.readings_contract import ReadingsContract
from tests.storage.session_contract import SessionContract
from tests.storage.store_contract import StoreContract
from tests.storage.store_steps import SPACE, OpenStore, lexical, nearest, put, query_scope, stored
from tests.storage.trends_contract import TrendsContract


def opened(path: Path, *, space: EmbeddingSpace = SPACE) -> Store:
    """Open a file as another process would; a new one is a copy of an empty store."""
    lay_out_store(path)
    return migrated(path, space=space)


def migrated(path: Path, *, space: EmbeddingSpace = SPACE) -> Store:
    """Open a file; the migrations make what is not there."""
    return open_sqlite(
        path, space=space, clock=FakeClock(), is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S
    )


@pytest.fixture
def open_store(path: Path) -> Iterator[OpenStore]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(opened(path)))


class TestSqlite(StoreContract):
    pass


class TestSqliteCascade(CascadeContract):
    pass


class TestSqliteBoard(BoardContract):
    pass


class TestSqliteCredentials(CredentialsContract):
    pass


class TestSqliteDisputes(DisputesContract):
    pass


class TestSqliteActionItems(ActionItemsContract):
    pass


class TestSqliteEvents(EventsContract):
    pass


class TestSqliteFields(FieldContract):
    pass


class TestSqliteHistory(HistoryContract):
    pass


class TestSqliteReadings(ReadingsContract):
    pass


class TestSqliteSessions(SessionContract):
    pass


class TestSqliteIndex(IndexContract):
    pass


class TestSqliteJobs(JobsContract):
    pass


class TestSqliteLearning(LearningContract):
    pass


class TestSqliteListing(ListingContract):
    pass


class TestSqliteTrends(TrendsContract):
    pass


class TestSqliteMail(MailContract):
    pass


@pytest.mark.requirement("DM-02", "DM-14")
def test_body_cannot_be_stored_in_the_table_of_another_kind(
    open_store: OpenStore, path: Path
) -> None:
    put(open_store(), a_memory(1, "a fact", kind=Kind.FACT))
    rule = {"tenant": LOCAL_TENANT, "body": "now a rule"}
    statement = sa.text(
        "INSERT INTO rules (tenant_id, memory_id, kind, body, severity, must_ack) "
        "VALUES (:tenant, 1, 'rule', :body, 'PATTERN', 0)"
    )
    engine = opened(path).dialect.engine

    with pytest.raises(IntegrityError), engine.begin() as connection:
        connection.execute(statement, rule)


def test_audit_cannot_be_changed(open_store: OpenStore, path: Path) -> None:
    open_store()
    engine = opened(path).dialect.engine
    row = "'default', 1, 0, 'create', 1, 'ann', x'00'"
    insert = (
        f"INSERT INTO audit (tenant_id, id, at, action, memory_id, agent, content_hmac) "  # noqa: S608 constants
        f"VALUES ({row})"
    )
    with engine.begin() as connection:
        connection.exec_driver_sql(insert)

    for change in ("UPDATE audit SET agent = 'bo'", "DELETE FROM audit"):
        with pytest.raises(IntegrityError, match="append-only"), engine.begin() as connection:
            connection.exec_driver_sql(change)


@pytest.mark.requirement("DM-45", "DO-04")
def test_store_refuses_vectors_of_another_space(path: Path) -> None:
    put(opened(path), a_memory(1, "tea is ready"))
    other = replace(SPACE, name="another-model")

    with pytest.raises(StoreCorruptError, match="another-model") as refusal:
        opened(path, space=other)

    assert refusal.value.code == "space_mismatch"
    assert stored(opened(path), 1)


@pytest.mark.requirement("DO-05")
def test_store_is_a_file_in_wal_mode_that_only_its_owner_can_read(path: Path) -> None:
    engine = migrated(path).dialect.engine
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2

    assert path.stat().st_mode & 0o077 == 0


def test_database_of_another_program_is_refused_and_left_unchanged(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()

    with pytest.raises(StoreCorruptError) as refusal:
        opened(path)

    assert refusal.value.code == "store_foreign"
    assert path.read_bytes() == before


def test_file_that_is_no_database_is_refused_and_left_unchanged(path: Path) -> None:
    path.write_bytes(b"This is a letter to my aunt. " * 200)
    before = path.read_bytes()

    with pytest.raises(StoreCorruptError):
        opened(path)

    assert path.read_bytes() == before


def test_store_of_a_later_version_is_refused(path: Path) -> None:
    with opened(path).dialect.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(StoreCorruptError, match="Upgrade Commonbrain") as refusal:
        opened(path)

    assert refusal.value.code == "store_newer"


def test_store_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UnavailableError, match="cannot be made"):
        opened(tmp_path / "file" / "brain.db")


def test_sqlite_version_does_not_have_the_wal_bug() -> None:
    assert driver().sqlite_version_info >= (3, 51, 3)


@pytest.mark.requirement("DM-08")
def test_every_retriever_finds_a_memory_without_reading_its_body(
    open_store: OpenStore, path: Path
) -> None:
    store = open_store()
    put(store, a_memory(1, "tea is ready"))
    with opened(path).dialect.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM facts")

    assert {"headline", "kind", "state"} <= set(memories.memories.c.keys())
    assert "body" not in memories.memories.c
    assert lexical(store, "tea") == nearest(store, "tea is ready") == [1]
    with store.snapshot(LOCAL_TENANT) as tx:
        assert [hit.id for hit in tx.memories.newest(query_scope(), limit=5)] == [1]


@pytest.mark.requirement("DM-50")
def test_fields_of_a_memory_are_columns_with_checked_bounds(
    open_store: OpenStore, path: Path
) -> None:
    put(open_store(), a_memory(1, "tea", source_ref="a.md:1", trust=Trust.UNTRUSTED_WEB))
    names = "trust, confidence, salience, source_ref, recorded_at, occurred_at, expires_at, state"
    at = round(NOON.timestamp() * 1000)
    engine = opened(path).dialect.engine
    with engine.connect() as connection:
        row = connection.exec_driver_sql(f"SELECT {names} FROM memories").one()  # noqa: S608 constants
        hashed = connection.exec_driver_sql("SELECT semantic_hash FROM memories").scalar_one()

    assert row == ("untrusted_web", 0.6, 0.5, "a.md:1", at, at, None, "active")
    assert len(hashed) == 32
    for assignment in (
        "confidence = 1.1",
        "confidence = -0.1",
        "salience = 1.1",
        "salience = -0.1",
    ):
        with pytest.raises(IntegrityError), engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE memories SET {assignment}")  # noqa: S608 constants


@pytest.mark.requirement("WP-22")
def test_writing_transaction_has_the_lock_before_its_first_write(
    open_store: OpenStore, path: Path
) -> None:
    sqlite = driver()
    with (
        open_store().begin(LOCAL_TENANT),
        closing(sqlite.connect(str(path), timeout=0, isolation_level=None)) as other,
        pytest.raises(sqlite.OperationalError, match="locked"),
    ):
        other.execute("BEGIN IMMEDIATE")


def planned(path: Path, about: str, action: Callable[[Transaction], object]) -> list[str]:
    """Give how SQLite means to find what the statements about something ask for."""
    statements: list[str] = []
    # A snapshot would first ask which rows there are, and then not ask for those.
    with closing(opened(path)) as store, store.begin(LOCAL_TENANT) as tx:
        own = tx.work.connection.connection.dbapi_connection
        assert own is not None
        own.set_trace_callback(statements.append)
        action(tx)
        own.set_trace_callback(None)
        cursor = own.cursor()
        return [
            row[-1]
            for statement in statements
            if about in statement
            for row in cursor.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
            # A limit is a subquery: with a plain parameter SQLite plans anew each time.
            if not row[-1].startswith(("SCALAR SUBQUERY", "SCAN CONSTANT ROW"))
        ]


@pytest.mark.parametrize("source_ref", [None, "chat#1"])
def test_text_is_found_by_an_index_on_its_hash(path: Path, source_ref: str | None) -> None:
    [plan] = planned(
        path,
        "semantic_hash = ",
        lambda tx: tx.memories.by_hash(Kind.FACT, "h", source_ref=source_ref),
    )
    assert "semantic_hash=?" in plan


def test_sessions_of_a_process_are_read_through_an_index(
    path: Path,
) -> None:
    process = Process(host="here", pid=7, created_at=NOON)
    plans = planned(
        path, "FROM sessions", lambda tx: tx.sessions.of_process("ann", process, cwd="/api")
    )
    assert any("host=? AND pid=?" in plan for plan in plans), plans


def test_events_of_hooks_and_of_a_session_are_read_through_an_index(path: Path) -> None:
    def of_hooks(tx: Transaction) -> object:
        return tx.events.of_hooks(limit=9, since=NOON)

    def of_hooks_of_agent(tx: Transaction) -> object:
        return tx.events.of_hooks(limit=9, since=NOON, agent="ann")

    def of_session(tx: Transaction) -> object:
        return tx.events.tokens_shown("ann", "s1", limit=9)

    for number, (read, index) in enumerate(
        (
            (of_hooks, "ix_tool_events_hook "),
            (of_hooks_of_agent, "ix_tool_events_hook_agent "),
            (of_session, "ix_tool_events_tenant_id_session_id "),
        )
    ):
        [plan] = planned(path.with_name(f"{number}.db"), "FROM tool_events", read)
        assert f"INDEX {index}" in plan, plan


def test_links_are_read_through_indexes_on_both_ends(path: Path) -> None:
    plans = planned(path, "FROM links", lambda tx: tx.links.touching([1, 2], limit=5))
    matching = [plan for plan in plans if "links" in plan]
    assert len(matching) == 2
    assert any("from_id=?" in plan for plan in matching)
    assert any("to_id=?" in plan for plan in matching)


def test_neighbours_of_a_message_are_read_through_an_index(
    path: Path,
) -> None:
    scope = QueryScope(caller=Caller(agent="ann"), filter=Filter(), now=NOON)
    plans = planned(
        path, "FROM messages", lambda tx: tx.threads.around([1, 2], scope, before=2, after=1)
    )
    matching = [plan for plan in plans if "messages" in plan]
    assert len(matching) == 4
    assert all("memory_id" in plan.partition("tenant_id=?")[2] for plan in matching)


@pytest.mark.parametrize(
    ("criteria", "index"),
    [
        (Filter(states=(State.CANDIDATE, State.QUARANTINED)), "ix_memories_awaiting"),
        (Filter(kinds=(Kind.RULE,)), "ix_memories_rules"),
        (Filter(kinds=(Kind.MESSAGE,), thread=7, until=NOON), "ix_messages_thread"),
    ],
)
def test_rare_memories_are_listed_through_an_index(
    path: Path, criteria: Filter, index: str
) -> None:
    scope = QueryScope(caller=Caller(agent="ann"), filter=criteria, now=NOON)
    plans = planned(path, "FROM memories", lambda tx: tx.memories.newest(scope, limit=5))
    assert any(f"INDEX {index} " in plan for plan in plans), plans
    assert "ix_memories_tenant_id_occurred_at" not in str(plans)


def test_missing_vectors_are_counted_by_merging_two_indexes(path: Path) -> None:
    plans = planned(path, "vectors", lambda tx: tx.missing_embeddings.pending())
    assert "MERGE (EXCEPT)" in plans
    assert any("INDEX ix_vectors_dropped " in plan for plan in plans), plans
    assert not any("TEMP B-TREE" in plan for plan in plans), plans


def test_audit_of_a_memory_is_read_through_an_index(path: Path) -> None:
    plans = planned(
        path, "audit", lambda tx: tx.audit.latest(AuditFilter(memory_id=7), before=None, limit=5)
    )
    assert any("memory_id=?" in plan for plan in plans), plans


@pytest.mark.parametrize("has_successor", [False, True])
def test_write_to_a_store_whose_file_was_moved_is_refused(
    path: Path,
    *,
    has_successor: bool,
) -> None:
    with closing(opened(path)) as store:
        put(store, a_memory(1, "tea is ready"))
        path.rename(path.with_suffix(".moved"))
        if has_successor:
            path.touch()
        with pytest.raises(UnavailableError, match="moved, replaced or deleted"):
            put(store, a_memory(2, "so is cake"))


def test_store_opened_by_a_relative_path_can_be_written_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(opened(Path("brain.db"))) as store:
        monkeypatch.chdir("/")
        put(store, a_memory(1, "tea is ready"))
        assert stored(store, 1)


def test_two_tenants_of_a_file_cannot_use_the_same_memory_id(path: Path) -> None:
    with closing(opened(path)) as store:
        with store.dialect.engine.begin() as connection:
            other = memories.tenants.insert().values(id="other", created_at=NOON, audit_key=b"k")
            connection.execute(other)
        put(store, a_memory(1, "tea is ready"))

        with pytest.raises(IdTaken), store.begin("other") as tx:
            tx.memories.add(a_memory(1, "so is cake"))


def test_copy_without_wal_mode_is_switched_to_wal_mode(path: Path) -> None:
    with closing(opened(path)) as store:
        put(store, a_memory(1, "tea is ready"))
    copy = path.with_name("copy.db")
    with closing(driver().connect(str(path))) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))

    with closing(opened(copy)) as store:
        assert stored(store, 1)
        assert [finding for finding in store.examine() if not finding.is_sound] == []
