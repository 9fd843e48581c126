"""Optional rows: a snapshot in Postgres asks once which of them a tenant has."""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta

import pytest

from commonbrain.model.kinds import Kind, MessageDetail, RuleDetail
from commonbrain.model.memory import Memory
from commonbrain.model.scope import LOCAL_TENANT, Trust
from commonbrain.storage.interface import Annotation
from commonbrain.storage.sql.presence import OptionalRows
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON, a_memory
from tests.contracts.cascade_contract import a_review
from tests.contracts.store_steps import a_link, put
from tests.postgres import Database

SKILL = RuleDetail(skill={"name": "safe", "keywords": ["vault"]})
NOTE = Annotation(memory_id=1, text="too hot", agent="bo", trust=Trust.USER_CLAIM, at=NOON)
MESSAGE = a_memory(3, "Tea?", kind=Kind.MESSAGE, detail=MessageDetail(sender="Bo"))
BY_MEMORY: dict[OptionalRows, Memory] = {
    OptionalRows.ENTITIES: a_memory(3, "Tea is hot", tags=("tea",)),
    OptionalRows.MESSAGES: MESSAGE,
    OptionalRows.PEOPLE: MESSAGE,
    OptionalRows.SKILLS: a_memory(3, "Lock the vault", kind=Kind.RULE, detail=SKILL),
    OptionalRows.TOPICS: a_memory(3, "Tea is hot", topics=("tea",)),
}
BY_ACTION: dict[OptionalRows, Callable[[Transaction], object]] = {
    OptionalRows.ANNOTATIONS: lambda tx: tx.annotations.add(NOTE),
    OptionalRows.EXPIRIES: lambda tx: tx.reviews.postpone(1, NOON + timedelta(days=1)),
    OptionalRows.LINKS: lambda tx: tx.links.put(a_link(2, 1)),
    OptionalRows.REVIEWS: lambda tx: tx.reviews.add([a_review(2, 1)]),
}


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    with closing(database.opened()) as opened:
        put(opened, a_memory(1, "Water boils"), a_memory(2, "Ice melts"))
        yield opened


def add(store: Store, rows: OptionalRows) -> None:
    if rows in BY_MEMORY:
        put(store, BY_MEMORY[rows])
    else:
        with store.begin(LOCAL_TENANT) as tx:
            BY_ACTION[rows](tx)


def present(store: Store, tenant: str = LOCAL_TENANT) -> set[OptionalRows]:
    with store.snapshot(tenant) as tx:
        return {rows for rows in OptionalRows if tx.work.may_have(rows)}


@pytest.mark.parametrize("rows", OptionalRows)
def test_a_snapshot_finds_rows_of_its_own_tenant(store: Store, rows: OptionalRows) -> None:
    store.make_tenant("other", at=NOON)
    assert present(store) == set()
    add(store, rows)
    assert rows in present(store)
    assert present(store, "other") == set()


def test_a_snapshot_without_such_rows_returns_nothing(store: Store) -> None:
    with store.snapshot(LOCAL_TENANT) as tx:
        assert tx.annotations.of([1, 2]) == {}
        assert tx.reviews.of([1, 2]) == {}
        assert tx.reviews.due(NOON, limit=1) == []
        assert tx.links.touching([1, 2]) == []
        assert tx.memories.people(["bo"]) == set()


@pytest.mark.parametrize("rows", BY_ACTION)
def test_a_writer_finds_rows_that_it_has_just_added(store: Store, rows: OptionalRows) -> None:
    with store.begin(LOCAL_TENANT) as tx:
        assert tx.annotations.of([1]) == {}
        BY_ACTION[rows](tx)
        assert tx.work.may_have(rows)
    assert rows in present(store)
