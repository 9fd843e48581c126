"""Optional rows: a snapshot in Postgres asks once which of them a tenant has."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from commonbrain.model.kinds import Kind, MessageDetail, RuleDetail, TaskDetail
from commonbrain.model.memory import Memory
from commonbrain.model.scope import LOCAL_TENANT, Trust
from commonbrain.storage.interface import Annotation
from commonbrain.storage.sql.context import OptionalRows, present_rows
from commonbrain.storage.sql.statements import compiled
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON, FakeClock, a_memory
from tests.postgres import Database, Server, tenants_by_path
from tests.storage.cascade_contract import a_review
from tests.storage.store_steps import SPACE, a_link, put

SKILL = RuleDetail(skill={"name": "safe", "keywords": ["vault"]})
NOTE = Annotation(memory_id=1, text="too hot", agent="bo", trust=Trust.USER_CLAIM, at=NOON)
MESSAGE = a_memory(3, "Tea?", kind=Kind.MESSAGE, detail=MessageDetail(sender="Bo"))
BY_MEMORY: dict[OptionalRows, Memory] = {
    OptionalRows.ENTITIES: a_memory(3, "Tea is hot", tags=("tea",)),
    OptionalRows.MESSAGES: MESSAGE,
    OptionalRows.PINNED: a_memory(3, "Tea is hot", pinned=True),
    OptionalRows.RULES: a_memory(3, "Lock the vault", kind=Kind.RULE, detail=RuleDetail()),
    OptionalRows.SKILLS: a_memory(3, "Lock the vault", kind=Kind.RULE, detail=SKILL),
    OptionalRows.TASKS: a_memory(3, "Lock the vault", kind=Kind.TASK, detail=TaskDetail()),
    OptionalRows.TOPICS: a_memory(3, "Tea is hot", topics=("tea",)),
}
# A fifth of all rows is of a tenant without people, topics, skills and pinned memories, which the
# others have.
MANY_TENANTS = """
SET session_replication_role = replica;
CREATE TEMPORARY TABLE drawn AS SELECT n, n % 5 = 0 AS is_own,
    CASE n % 5 WHEN 0 THEN 'default' ELSE 'tenant ' || n % 100 END AS tenant
    FROM generate_series(1, 20000) AS n;
INSERT INTO entities (tenant_id, memory_id, type, name, position) SELECT tenant, n,
    CASE WHEN is_own THEN 'tag' ELSE (ARRAY['person', 'tag', 'topic'])[1 + n % 3] END, n, 0
    FROM drawn;
INSERT INTO rules (tenant_id, memory_id, kind, body, severity, skill, must_ack)
    SELECT tenant, n, 'rule', '', 'info', CASE WHEN NOT is_own THEN to_json(n) END, false
    FROM drawn;
INSERT INTO tasks (tenant_id, memory_id, kind, body, status, priority, must_ack)
    SELECT tenant, n, 'task', '', 'open', 'medium', false FROM drawn;
INSERT INTO memories (tenant_id, id, kind, headline, state, scope, agent, trust, confidence,
    salience, rating, pinned, auto_captured, semantic_hash, recorded_at, occurred_at, access_count,
    superseded_count, payload)
    SELECT tenant, n, 'fact', '', 'active', 'team', '', 'user_claim', 1, 1, 0, NOT is_own, false,
    n, n, n, 0, 0, json_build_object() FROM drawn;
INSERT INTO messages (tenant_id, memory_id, kind, body, recipients, priority)
    SELECT tenant, n, 'message', '', '[]', 'normal' FROM drawn;
INSERT INTO annotations (tenant_id, id, memory_id, text, agent, trust, at)
    SELECT tenant, n, n, '', '', 'user_claim', n FROM drawn;
INSERT INTO links (tenant_id, from_id, to_id, type, strength, observations, agent, trust,
    created_at, observed_at)
    SELECT tenant, n, n + 1, 'relates_to', 1, 1, '', 'user_claim', n, n FROM drawn;
INSERT INTO reviews (tenant_id, memory_id, cause_id, fall, via_id, depth, at)
    SELECT tenant, n, n + 1, 'expired', n, 1, n FROM drawn;
INSERT INTO falls (tenant_id, memory_id, due_at) SELECT tenant, n, n FROM drawn;
ANALYZE
"""
BY_ACTION: dict[OptionalRows, Callable[[Transaction], object]] = {
    OptionalRows.ANNOTATIONS: lambda tx: tx.annotations.add(NOTE),
    OptionalRows.EXPIRIES: lambda tx: tx.reviews.postpone(1, NOON + timedelta(days=1)),
    OptionalRows.LINKS: lambda tx: tx.links.put(a_link(2, 1)),
    OptionalRows.REVIEWS: lambda tx: tx.reviews.add([a_review(2, 1)]),
}


@pytest.fixture
def a_store(postgres: Server) -> Iterator[Callable[[], Store]]:
    """Give what makes a new tenant with two memories."""
    with tenants_by_path(postgres) as opened:

        def filled() -> Store:
            store = opened(Path(f"store {next(numbers)}"), space=SPACE, clock=FakeClock())
            put(store, a_memory(1, "Water boils"), a_memory(2, "Ice melts"))
            return store

        numbers = count()
        yield filled


@pytest.fixture
def store(a_store: Callable[[], Store]) -> Store:
    return a_store()


def add(store: Store, rows: OptionalRows) -> None:
    if rows in BY_MEMORY:
        put(store, BY_MEMORY[rows])
    else:
        with store.begin(LOCAL_TENANT) as tx:
            BY_ACTION[rows](tx)


def present(store: Store, tenant: str = LOCAL_TENANT) -> set[OptionalRows]:
    with store.snapshot(tenant) as tx:
        return {rows for rows in OptionalRows if tx.work.may_have(rows)}


def test_snapshot_finds_rows_of_its_own_tenant_only(
    a_store: Callable[[], Store], subtests: pytest.Subtests
) -> None:
    for rows in OptionalRows:
        with subtests.test(rows=rows):
            store = a_store()
            store.make_tenant("other", at=NOON)
            assert present(store) == set()
            add(store, rows)
            assert rows in present(store)
            assert present(store, "other") == set()


def test_snapshot_without_optional_rows_returns_nothing(store: Store) -> None:
    with store.snapshot(LOCAL_TENANT) as tx:
        assert tx.annotations.of([1, 2]) == {}
        assert tx.reviews.of([1, 2]) == {}
        assert tx.reviews.due(NOON, limit=1) == []
        assert tx.links.touching([1, 2]) == []
        assert tx.memories.people(["bo"]) == set()


def test_writer_finds_rows_that_it_has_just_added(
    a_store: Callable[[], Store], subtests: pytest.Subtests
) -> None:
    for rows, action in BY_ACTION.items():
        with subtests.test(rows=rows):
            store = a_store()
            with store.begin(LOCAL_TENANT) as tx:
                assert tx.annotations.of([1]) == {}
                action(tx)
                assert tx.work.may_have(rows)
            assert rows in present(store)


@pytest.mark.of_one_server
def test_presence_is_read_by_index_among_many_other_tenants(
    postgres: Server, database: Database
) -> None:
    postgres.run(MANY_TENANTS, database=database.name)
    with closing(database.opened()) as store, store.snapshot(LOCAL_TENANT) as tx:
        connection = tx.work.connection
        made = compiled(present_rows(), connection.dialect, names=("tenant",))
        explained = replace(made, text=f"EXPLAIN {made.text}")
        plan = [line for (line,) in explained.rows(connection, {"tenant": LOCAL_TENANT})]

    scans = [line.strip() for line in plan if " Scan " in line and "Subquery" not in line]
    assert len(scans) == len(OptionalRows)
    assert [
        scan for scan in scans if not scan.startswith(("->  Index Scan", "->  Index Only"))
    ] == []
    assert "Sort" not in "".join(plan)
