"""What every store finds for upkeep: what may be due, and what has lost its body."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from commonbrain.model.kinds import Kind, TaskDetail, TaskStatus
from commonbrain.model.memory import Memory, State
from commonbrain.model.scope import LOCAL_TENANT, Scope
from commonbrain.storage.interface import DueBy
from commonbrain.storage.retention_rules import Retention
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.store_steps import OpenStore, put

_DAY = timedelta(days=1)
_NOW = NOON + 30 * _DAY


def _task(id_: int, status: TaskStatus, *, due_days: float) -> Memory:
    detail = TaskDetail(status=status, due_at=NOON + timedelta(days=due_days))
    return a_memory(id_, f"Task {id_}", kind=Kind.TASK, detail=detail)


class UpkeepContract:
    """The promises of what upkeep asks; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it."""
        return open_store()

    def test_due_memories_are_listed_by_id_in_pages(self, store: Store) -> None:
        log: Any = {"kind": Kind.EVENT, "label": "log"}
        for one in (
            a_memory(1, "over", expires_at=_NOW),
            a_memory(2, "not yet over", expires_at=_NOW + _DAY),
            a_memory(3, "over and gone", expires_at=NOON, state=State.FORGOTTEN),
            a_memory(4, "over and archived", expires_at=NOON, state=State.ARCHIVED),
            _task(5, TaskStatus.OPEN, due_days=1),
            _task(6, TaskStatus.DONE, due_days=1),
            _task(7, TaskStatus.BLOCKED, due_days=29),
            a_memory(8, "an old log", **log),
            a_memory(9, "a pinned log", **log, pinned=True),
            a_memory(10, "a private log", **log, scope=Scope.PRIVATE),
            a_memory(11, "a new log", **log, recorded_at=_NOW),
            a_memory(12, "an event that is no log", kind=Kind.EVENT),
        ):
            put(store, one)
        rule = Retention(kind=Kind.EVENT, label="log", scope=Scope.TEAM, days=30)
        criteria = DueBy(now=_NOW, tasks_before=NOON + 20 * _DAY, rules=(rule,))
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.memories.due(criteria, after=0, limit=9) == [1, 4, 5, 8]
            assert tx.memories.due(criteria, after=1, limit=2) == [4, 5]
            assert tx.memories.due(replace(criteria, rules=()), after=4, limit=9) == [5]
        with store.snapshot("another") as tx:
            assert tx.memories.due(criteria, after=0, limit=9) == []

    def test_stored_memories_have_their_body(self, store: Store) -> None:
        for number, kind in enumerate(Kind, 1):
            put(store, a_memory(number, f"Number {number}", kind=kind))
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.memories.bodiless(after=0, limit=9) == []

    def test_memories_missing_in_full_text_are_listed_until_indexed(self, store: Store) -> None:
        port = a_memory(2, "The port is 80")
        cause = a_memory(3, "A full disk stopped the build", kind=Kind.ATOM)
        put(store, a_memory(1, "The kettle is blue"), port, cause)
        put(store, a_memory(4, "Nobody finds it", state=State.QUARANTINED))
        with store.begin(LOCAL_TENANT) as tx:
            assert tx.index.unworded(limit=9) == []
            for one in (port, cause):
                tx.index.drop(one.id)
        with store.snapshot("another") as tx:
            assert tx.index.unworded(limit=9) == []
        with store.begin(LOCAL_TENANT) as tx:
            assert tx.index.unworded(limit=9) == [2, 3]
            assert (tx.index.unworded(limit=1), tx.index.unworded(limit=9, after=2)) == ([2], [3])
            for one in (port, cause):
                tx.index.reword(one)
            assert tx.index.unworded(limit=9) == []
