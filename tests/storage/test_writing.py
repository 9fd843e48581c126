"""Writes that go past SQLAlchemy: they leave what it would leave, and fail as it would."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from commonbrain.embeddings.interface import Vectors
from commonbrain.model.memory import Memory
from commonbrain.model.revision import Action, Revision
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.repositories.memory_rows import PROJECTED, encode_reading
from commonbrain.storage.schema.memories import entities, memories, vectors
from commonbrain.storage.sql.statements import compiled
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON, FakeClock, a_memory
from commonbrain.text.reading import read_memory
from tests.laid_out_stores import open_laid_out
from tests.storage.store_steps import SPACE

TEXTS = sa.select(sa.column("rowid", sa.Integer)).select_from(sa.table("memory_text"))
WINDOW = Vectors(windows=np.eye(1, SPACE.dimensions, dtype=np.float32))


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(open_laid_out(path, space=SPACE, clock=FakeClock())) as opened:
        yield opened


def test_memory_is_written_as_by_sqlalchemy(store: Store) -> None:
    full_memory = a_memory(1, "one", payload={"a": ["ü"]}, expires_at=NOON, pinned=True)
    copy = replace(full_memory, id=2)
    with store.begin(LOCAL_TENANT) as tx:
        tx.memories.add(full_memory)
        row = {name: getattr(copy, name) for name in PROJECTED}
        row["reading"] = encode_reading(read_memory(copy))
        tx.work.connection.execute(sa.insert(memories), {"tenant_id": LOCAL_TENANT, **row})
        as_stored = sa.text("SELECT * FROM memories ORDER BY id")
        ours, usual = tx.work.connection.execute(as_stored).mappings()
        assert {**ours, "id": 2} == dict(usual)


def test_stores_of_one_process_share_compiled_statements(store: Store, tmp_path: Path) -> None:
    other = open_laid_out(tmp_path / "other.db", space=SPACE, clock=FakeClock())
    statement = sa.select(memories.c.id).where(memories.c.tenant_id == sa.bindparam("tenant"))
    with closing(other), store.snapshot(LOCAL_TENANT) as one, other.snapshot(LOCAL_TENANT) as two:
        drivers = [tx.work.connection.dialect for tx in (one, two)]
        first, second = (compiled(statement, each, names=("tenant",)) for each in drivers)
    assert drivers[0] is not drivers[1]
    assert first is second


def test_failed_write_raises_as_sqlalchemy_does_and_stores_nothing(store: Store) -> None:
    twice = {"tenant_id": LOCAL_TENANT, "memory_id": 1, "type": "tag", "name": "a", "position": 1}
    memory = a_memory(1, "one")
    with pytest.raises(IntegrityError, match="UNIQUE"):
        _put_and_fail(store, memory, rows=[twice, twice])
    with store.snapshot(LOCAL_TENANT) as tx:
        assert tx.memories.get([1]) == {}
        assert tx.work.rows(TEXTS, {}) == []


def test_numbering_of_vectors_continues_despite_other_writes(store: Store) -> None:
    numbered = sa.select(vectors.c.memory_id, vectors.c.seq).order_by(vectors.c.seq)
    with store.begin(LOCAL_TENANT) as tx:
        _put(tx, a_memory(1, "one"))
        _put(tx, a_memory(2, "two"))
        tx.index.drop(1)
        _put(tx, a_memory(3, "three"))
    with store.begin(LOCAL_TENANT) as tx:
        _put(tx, a_memory(4, "four"))
        seqs = tx.work.connection.execute(numbered).all()
    assert [tuple(row) for row in seqs] == [(2, 2), (1, 3), (3, 4), (4, 5)]


def test_changes_are_in_the_order_of_their_creation_despite_merged_ones(store: Store) -> None:
    made = Revision(
        memory_id=1, action=Action.CREATE, agent="bob", session=None, reason=None, at=NOON
    )
    with store.begin(LOCAL_TENANT) as tx:
        _put(tx, a_memory(1, "one"))
        tx.changes.add(made)
        [first] = tx.changes.of([1])
        # Of another store, whose clock goes ahead.
        tx.changes.merge(replace(made, id=first.id + 2**40, action=Action.PIN))
        tx.changes.add(replace(made, action=Action.FORGET))
        tx.changes.add_alike(replace(made, action=Action.CASCADE), [1, 1])
        tx.changes.add(replace(made, action=Action.RESTORE))
        actions = [one.action for one in tx.changes.of([1])]
    order = [Action.CREATE, Action.PIN, Action.FORGET, Action.CASCADE, Action.CASCADE]
    assert actions == [*order, Action.RESTORE]


def _put_and_fail(store: Store, memory: Memory, *, rows: Sequence[Mapping[str, object]]) -> None:
    with store.begin(LOCAL_TENANT) as tx:
        _put(tx, memory)
        tx.work.change_by_each(sa.insert(entities), rows)


def _put(tx: Transaction, memory: Memory) -> None:
    tx.memories.add(memory)
    tx.index.put(memory, WINDOW)
