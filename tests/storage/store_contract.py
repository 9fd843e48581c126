"""What every store promises, whatever engine it stands on; subclass it for a new one.

A subclass gives `open_store`, a fixture: a function that opens the same store, as often as asked,
each time as another process would.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.exc import StatementError

from commonbrain.model.ids import make_id
from commonbrain.model.kinds import KINDS, Kind, MessageDetail, RuleDetail, Severity, TaskDetail
from commonbrain.model.links import Link
from commonbrain.model.memory import State, ThreadRef
from commonbrain.model.query import Candidate, RecallTrace
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import LOCAL_TENANT, Caller, Scope, Trust
from commonbrain.storage.interface import AuditEntry, IdTaken
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.store_steps import (
    ANN,
    EMBEDDER,
    OpenStore,
    lexical,
    move,
    nearest,
    put,
    query_scope,
    stored,
    vectors_for,
)


class Stopped(Exception):
    """A caller gave up in the middle of a transaction."""


class StoreContract:
    """The promises of rows and transactions; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it."""
        return open_store()

    @pytest.mark.parametrize("kind", Kind)
    @pytest.mark.requirement("DM-49")
    def test_memory_of_every_kind_is_read_as_stored(self, store: Store, kind: Kind) -> None:
        memory = a_memory(
            1, "Grüße aus 東京 🧠", kind=kind, tags=("b", "a"), label="note", project="api",
            payload={"deep": [1, {"x": None}]}, source_ref="file:1", session="s1",
            expires_at=NOON + timedelta(days=1), scope=Scope.GLOBAL, trust=Trust.TRUSTED_TOOL,
        )  # fmt: skip

        put(store, memory)

        assert stored(store, 1) == {1: memory}

    @pytest.mark.parametrize("field", ["state", "scope", "trust"])
    def test_word_outside_a_closed_set_is_rejected_and_nothing_is_stored(
        self, store: Store, field: str
    ) -> None:
        with pytest.raises((ValueError, StatementError), match="'gossip' is not one of"):
            put(store, replace(a_memory(1, "tea is ready"), **{field: "gossip"}))

        assert stored(store, 1) == {}

    def test_link_of_an_unknown_type_is_rejected_and_not_stored(self, store: Store) -> None:
        put(store, a_memory(1, "tea is ready"), a_memory(2, "the kettle boiled"))
        unknown: Any = "gossips_about"
        link = Link(
            from_id=1,
            to_id=2,
            type=unknown,
            agent="ann",
            trust=Trust.USER_CLAIM,
            created_at=NOON,
            observed_at=NOON,
        )

        with (
            pytest.raises((ValueError, StatementError), match="'gossips_about' is not one of"),
            store.begin(LOCAL_TENANT) as tx,
        ):
            tx.links.replace(link)

        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.links.touching([1]) == []

    def test_fields_of_a_single_kind_are_read_as_stored(self, store: Store) -> None:
        skill = {"name": "deploy", "keywords": ["ship"]}
        rule = RuleDetail(severity=Severity.BLOCKER, skill=skill, must_ack=True)
        memories = (
            a_memory(1, "Never force-push", kind=Kind.RULE, detail=rule),
            a_memory(2, "Ship it", kind=Kind.TASK, detail=TaskDetail(due_at=NOON, assignee="bo")),
            a_memory(3, "Hi", kind=Kind.MESSAGE, detail=MessageDetail(recipients=("bo", "cy"))),
        )

        put(store, *memories)

        assert list(stored(store, 1, 2, 3).values()) == list(memories)

    def test_every_kind_has_its_own_columns_and_no_others(self) -> None:
        assert set(KINDS) == set(Kind)
        assert all(policy.kind is kind for kind, policy in KINDS.items())

    def test_unknown_ids_return_nothing(self, store: Store) -> None:
        assert stored(store, 5) == {}

    def test_id_cannot_be_used_twice(self, store: Store) -> None:
        put(store, a_memory(1, "first"))

        with pytest.raises(IdTaken), store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(a_memory(1, "second"))

        assert stored(store, 1)[1].body == "first"

    @pytest.mark.requirement("WP-11")
    def test_failed_transaction_stores_nothing(self, store: Store) -> None:
        with pytest.raises(Stopped), store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(a_memory(1, "half a thought"))
            tx.index.put(a_memory(1, "half a thought"), vectors_for(a_memory(1, "half a thought")))
            raise Stopped

        assert stored(store, 1) == {}
        assert lexical(store, "thought") == []
        assert nearest(store, "half a thought") == []

    def test_rollback_leaves_no_vector_in_the_index(self, store: Store) -> None:
        rolled_back, real = a_memory(1, "a ghost walks"), a_memory(2, "the harvest was good")
        with pytest.raises(Stopped), store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(rolled_back)
            tx.index.put(rolled_back, vectors_for(rolled_back))
            tx.index.nearest(EMBEDDER.query("ghost"), query_scope(), limit=5)
            raise Stopped
        put(store, real)

        assert nearest(store, "the harvest was good") == [2]
        assert nearest(store, "a ghost walks") == []

    @pytest.mark.requirement("WP-22")
    def test_transaction_reads_its_own_writes(self, store: Store) -> None:
        put(store, a_memory(1, "red apples"))
        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(a_memory(2, "green apples"))
            tx.index.put(a_memory(2, "green apples"), vectors_for(a_memory(2, "green apples")))
            hits = tx.index.nearest(EMBEDDER.query("green apples"), query_scope(), limit=5)

            assert [hit.id for hit in hits] == [2, 1]
            assert [hit.id for hit in tx.index.lexical(["green"], query_scope(), limit=5)] == [2]

    def test_commit_is_visible_in_the_next_snapshot_of_every_other_process(
        self, open_store: OpenStore
    ) -> None:
        one, other = open_store(), open_store()
        assert nearest(other, "tea is ready") == []

        put(one, a_memory(1, "tea is ready"))

        assert lexical(other, "tea") == nearest(other, "tea is ready") == [1]

    @pytest.mark.requirement("LC-13")
    def test_memory_dropped_by_a_process_is_not_found_by_others(
        self, open_store: OpenStore
    ) -> None:
        one, other = open_store(), open_store()
        put(one, a_memory(1, "tea is ready"), a_memory(2, "tea is gone"))
        assert nearest(other, "tea is ready")[0] == 1

        with one.begin(LOCAL_TENANT) as tx:
            move(tx, 1, state=State.FORGOTTEN)
            tx.index.drop(1)

        assert lexical(other, "ready") == []
        assert nearest(other, "tea is ready") == [2]

    def test_snapshot_does_not_wait_for_a_writer(self, open_store: OpenStore) -> None:
        one, other = open_store(), open_store()
        put(one, a_memory(1, "tea is ready"))

        with one.begin(LOCAL_TENANT) as tx:
            tx.memories.add(a_memory(2, "not yet"))
            visible = stored(other, 1, 2)

        assert list(visible) == [1]

    def test_reads_of_a_call_are_consistent_until_it_writes(self, open_store: OpenStore) -> None:
        one, other = open_store(), open_store()
        with one.consistent_reads():
            assert stored(one, 1) == {}
            put(other, a_memory(1, "tea is ready"))
            assert stored(one, 1) == {}

            put(one, a_memory(2, "so is coffee"))
            assert list(stored(one, 1, 2)) == [1, 2]
        assert list(stored(one, 1, 2)) == [1, 2]

    def test_consistent_reads_are_of_one_tenant_and_end_at_a_failure(
        self, open_store: OpenStore
    ) -> None:
        one, other = open_store(), open_store()
        put(one, a_memory(1, "tea is ready"))
        with one.consistent_reads():
            assert list(stored(one, 1)) == [1]
            with one.snapshot("other") as tx:
                assert tx.memories.get([1]) == {}
            put(other, a_memory(2, "so is coffee"))
            with pytest.raises(Stopped), one.snapshot(LOCAL_TENANT):
                raise Stopped
            assert list(stored(one, 1, 2)) == [1, 2]

    @pytest.mark.requirement("DM-16", "DM-25")
    def test_tenant_does_not_see_rows_of_another(self, store: Store) -> None:
        put(store, a_memory(1, "tea is ready"))
        scope = query_scope(Caller(agent="ann", tenant="other"))

        with store.snapshot("other") as tx:
            assert tx.memories.get([1]) == {}
            assert tx.memories.by_hash(Kind.FACT, a_memory(1, "tea is ready").semantic_hash) == []
            assert not tx.memories.any(scope)
            assert tx.memories.newest(scope, limit=5) == []
            assert tx.index.lexical(["tea"], scope, limit=5) == []
            assert tx.index.nearest(EMBEDDER.query("tea is ready"), scope, limit=5) == []
            assert tx.index.similarities(EMBEDDER.query("tea is ready"), [1]) == {}
            assert tx.memories.counts() == {}

    def test_equal_texts_are_found_by_their_hash_while_they_are_active(self, store: Store) -> None:
        put(store, a_memory(1, "tea is ready"), a_memory(2, "Tea  is READY"))
        with store.begin(LOCAL_TENANT) as tx:
            move(tx, 1, state=State.FORGOTTEN)
            memories = tx.memories.by_hash(Kind.FACT, a_memory(1, "tea is ready").semantic_hash)

        assert [memory.id for memory in memories] == [2]

    def test_equal_texts_of_one_source_are_found_without_those_of_others(
        self, store: Store
    ) -> None:
        from_source = a_memory(2, "tea is ready", source_ref="chat#2")
        put(store, a_memory(1, "tea is ready", source_ref="chat#1"), from_source)
        with store.snapshot(LOCAL_TENANT) as tx:
            memories = tx.memories.by_hash(
                Kind.FACT, from_source.semantic_hash, source_ref="chat#2"
            )
            none = tx.memories.by_hash(Kind.FACT, from_source.semantic_hash, source_ref="chat#3")

        assert ([memory.id for memory in memories], none) == ([2], [])

    def test_thread_with_the_same_key_is_opened_once(self, store: Store) -> None:
        thread = ThreadRef(key="chat#1", subject="Monday")
        with store.begin(LOCAL_TENANT) as tx:
            first = tx.threads.open(thread, None, new_id=7, now=NOON)
            again = tx.threads.open(thread, None, new_id=8, now=NOON)

        assert first == again == 7

    def test_memories_are_counted_by_kind_and_state(self, store: Store) -> None:
        put(store, a_memory(1, "one"), a_memory(2, "two"), a_memory(3, "go", kind=Kind.TASK))
        with store.begin(LOCAL_TENANT) as tx:
            move(tx, 2, state=State.ARCHIVED)

        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.memories.counts() == {
                (Kind.FACT, State.ACTIVE): 1,
                (Kind.FACT, State.ARCHIVED): 1,
                (Kind.TASK, State.ACTIVE): 1,
            }

    def test_many_records_of_the_same_time_are_all_stored(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            for number in range(3000):
                _audit(tx, number)
                tx.records.publish("memory.created", number, at=NOON)

        assert all(finding.is_sound for finding in store.examine())

    def test_trace_is_stored(self, store: Store) -> None:
        candidate = Candidate(memory=a_memory(1, "tea"), features={"lexical": 1.0}, score=0.9)
        trace = RecallTrace(
            id=make_id(NOON, 5),
            caller=replace(ANN, session="s"),
            asked_at=NOON,
            query="tea?",
            status=ResultStatus.FOUND,
            considered=(candidate,),
            packed=(1,),
            degraded=(),
            stages_ms={"plan": 0.1},
        )

        def noted(*, retain_from: datetime) -> int:
            return store.note_reads(
                LOCAL_TENANT, traces=[trace], accesses=[], retain_from=retain_from
            )

        assert noted(retain_from=NOON - timedelta(days=1)) == 1
        assert noted(retain_from=NOON + timedelta(days=1)) == 0
        assert noted(retain_from=NOON + timedelta(days=1)) == 1
        assert all(finding.is_sound for finding in store.examine())

    def test_examination_of_an_intact_store_reports_no_problem(self, store: Store) -> None:
        put(store, a_memory(1, "tea is ready"), a_memory(2, "tea is gone"))
        with store.begin(LOCAL_TENANT) as tx:
            move(tx, 1, state=State.SUPERSEDED, superseded_by=2, superseded_at=NOON)
            move(tx, 2, state=State.FORGOTTEN)
            tx.index.drop(2)

        assert [finding for finding in store.examine() if not finding.is_sound] == []

    def test_examination_reports_a_memory_that_is_not_indexed(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(a_memory(1, "tea is ready"))

        assert [finding.check for finding in store.examine() if not finding.is_sound]


def _audit(tx: Transaction, memory_id: int) -> None:
    tx.records.audit(
        AuditEntry(
            action="create",
            memory_id=memory_id,
            agent="ann",
            session=None,
            reason=None,
            content="tea",
            at=NOON,
        )
    )
