"""Reads that go past SQLAlchemy: they answer as it would, and fail as it would."""

import gc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.kinds import Kind, MessageDetail, RuleDetail
from commonbrain.model.memory import Memory, State
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.schema.memories import DETAILS, memories
from commonbrain.storage.sql.statements import LISTED
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, FakeClock, a_memory
from tests.laid_out_stores import open_laid_out
from tests.storage.store_steps import SPACE


def a_store(path: Path) -> Store:
    return open_laid_out(path, space=SPACE, clock=FakeClock())


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(a_store(path)) as opened:
        yield opened


def test_words_times_and_json_are_decoded_as_by_sqlalchemy(store: Store) -> None:
    question: sa.SelectBase = sa.select(memories).where(
        memories.c.tenant_id == sa.bindparam("tenant"),
        memories.c.id.in_(LISTED),
        # Its members are parameters of the statement itself.
        memories.c.state.in_([State.ACTIVE, State.ARCHIVED]),
        memories.c.recorded_at <= sa.bindparam("now", type_=memories.c.recorded_at.type),
    )
    with store.begin(LOCAL_TENANT) as tx:
        tx.memories.add(a_memory(1, "one", payload={"a": [1]}, expires_at=NOON))
        tx.memories.add(a_memory(2, "two", pinned=True))
        tx.memories.add(a_memory(3, "three", state=State.FORGOTTEN))
        parameters = {"ids": [1, 2, 3], "now": NOON}
        rows = tx.work.rows(question, parameters)
        usual = tx.work.connection.execute(question, {"tenant": LOCAL_TENANT, **parameters})
        assert [*map(tuple, usual)] == rows
        assert len(rows) == 2


def test_empty_and_nonempty_json_is_read_as_stored(store: Store) -> None:
    plain = a_memory(1, "always ask first", kind=Kind.RULE)
    fired = a_memory(
        2, "never push", kind=Kind.RULE, detail=RuleDetail(skill={"name": "push", "keywords": []})
    )
    message = a_memory(
        3, "hello", kind=Kind.MESSAGE, detail=MessageDetail(recipients=("bob", "eve"))
    )
    with_audience = a_memory(4, "hello all", kind=Kind.MESSAGE, payload={"audience": ["bob"]})
    with store.begin(LOCAL_TENANT) as tx:
        for memory in (plain, fired, message, with_audience):
            tx.memories.add(memory)
        read = tx.memories.get([1, 2, 3, 4])
    assert read == {one.id: one for one in (plain, fired, message, with_audience)}


def test_memory_changed_after_it_was_read_is_read_with_the_change(store: Store) -> None:
    old = a_memory(1, "tea is ready", tags=("kitchen",))
    new = replace(old, rating=2, tags=("kitchen", "tea"), last_access_at=NOON, payload={"a": 1})
    with store.begin(LOCAL_TENANT) as tx:
        tx.memories.add(old)
        assert tx.memories.get([1]) == {1: old}
        tx.memories.update(old, new)
        assert tx.memories.get([1]) == {1: new}
    with store.snapshot(LOCAL_TENANT) as tx:
        assert tx.memories.get([1]) == tx.memories.get([1]) == {1: new}


def test_memories_of_two_stores_with_the_same_id_are_separate(store: Store, path: Path) -> None:
    with closing(a_store(path.with_name("other.db"))) as other:
        texts = ((store, "tea is ready"), (other, "coffee is ready"))
        for one, text in texts:
            with one.begin(LOCAL_TENANT) as tx:
                tx.memories.add(a_memory(1, text))
        for one, text in (*texts, *texts):
            with one.snapshot(LOCAL_TENANT) as tx:
                assert tx.memories.get([1])[1].body == text


def test_erased_memory_leaves_no_decoded_text_in_memory(store: Store) -> None:
    text = "The safe opens with 8-31-77."
    with store.begin(LOCAL_TENANT) as tx:
        tx.memories.add(a_memory(1, text))
        assert tx.memories.get([1])[1].body == text
    with store.begin(LOCAL_TENANT) as tx:
        tx.scrub(1)
    gc.collect()
    alive = [one for one in gc.get_objects() if isinstance(one, Memory) and one.body == text]
    assert alive == []


def test_errors_of_the_driver_are_raised_as_by_sqlalchemy(store: Store) -> None:
    missing = sa.select(sa.column("nowhere", sa.String)).select_from(DETAILS[Kind.FACT])
    with pytest.raises(StoreCorruptError, match="nowhere"), store.snapshot(LOCAL_TENANT) as tx:
        tx.work.rows(missing, {})
