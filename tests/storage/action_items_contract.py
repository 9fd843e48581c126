"""What every store promises of duties: action items, what was decided on them, working notes.

A subclass gives `open_store`, as for `StoreContract`.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from commonbrain.model.kinds import Kind, RuleDetail, TaskDetail, TaskStatus
from commonbrain.model.memory import Memory, State
from commonbrain.model.notes import Note
from commonbrain.model.scope import LOCAL_TENANT, Authority, Caller, Scope, Trust
from commonbrain.model.sessions import Session
from commonbrain.model.tasks import Decision, TaskDecision
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.store_steps import LATER, OpenStore, a_change, put

BO = Caller(agent="bo", session="s1")


def a_task(id_: int, **more: Any) -> Memory:  # noqa: ANN401
    """Make a task that must be acknowledged."""
    detail = TaskDetail(must_ack=True)
    return a_memory(id_, f"task number {id_}", kind=Kind.TASK, **{"detail": detail, **more})


def a_rule(id_: int, **more: Any) -> Memory:  # noqa: ANN401
    """Make a rule that must be acknowledged."""
    detail = RuleDetail(must_ack=True)
    return a_memory(id_, f"rule number {id_}", kind=Kind.RULE, **{"detail": detail, **more})


def an_ack(id_: int, **more: Any) -> TaskDecision:  # noqa: ANN401
    """Answer an action item as bo would at noon."""
    decision = Decision.WILL_EXECUTE
    plain = TaskDecision(memory_id=id_, agent="bo", session="s1", decision=decision, at=NOON)
    return replace(plain, **more)


def a_note(key: str, **more: Any) -> Note:  # noqa: ANN401
    """Note something as bo would at noon."""
    return replace(
        Note(key=key, value="x", agent="bo", session="s1", authority=Authority.MODEL, at=NOON),
        **more,
    )


def pending(store: Store, caller: Caller = BO, *projects: str, now: Any = NOON) -> list[int]:  # noqa: ANN401
    """List what binds a caller."""
    with store.snapshot(LOCAL_TENANT) as tx:
        return tx.acks.pending(caller, projects=projects, now=now)


class ActionItemsContract:
    """The promises of acknowledgements and notes; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it."""
        return open_store()

    def test_only_current_items_with_required_acknowledgement_are_pending(
        self, store: Store
    ) -> None:
        done = TaskDetail(must_ack=True, status=TaskStatus.DONE)
        blocked = TaskDetail(must_ack=True, status=TaskStatus.BLOCKED)
        put(
            store, a_task(1), a_rule(2), a_task(3, detail=TaskDetail()), a_task(4, detail=done),
            a_task(5, detail=blocked), a_task(6, state=State.QUARANTINED),
            a_task(7, state=State.FORGOTTEN), a_task(8, trust=Trust.UNTRUSTED_WEB),
            a_task(9, expires_at=NOON), a_task(10, expires_at=LATER),
            a_task(11, scope=Scope.PRIVATE), a_rule(12, detail=RuleDetail()), a_memory(13, "tea"),
        )  # fmt: skip

        assert pending(store) == [1, 2, 5, 10]
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.acks.open_tasks([1, 2, 3, 4, 5, 13]) == {1, 5}

    def test_item_of_a_project_is_pending_there_and_item_without_a_project_everywhere(
        self, store: Store
    ) -> None:
        put(store, a_task(1, project="tea"), a_rule(2, project="bread"), a_task(3))

        assert pending(store) == [3]
        assert pending(store, BO, "tea") == [1, 3]
        assert pending(store, BO, "tea", "bread", "salt") == [1, 2, 3]
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.acks.pending(BO, projects=None, now=NOON) == [1, 2, 3]

    def test_assigned_task_is_pending_only_for_its_assignee(self, store: Store) -> None:
        put(store, a_task(1, detail=TaskDetail(must_ack=True, assignee="bo")))

        assert pending(store) == [1]
        assert pending(store, Caller(agent="cy", session="s1")) == []

    def test_item_is_not_pending_for_the_session_that_set_it(self, store: Store) -> None:
        put(store, a_task(1, agent="bo", session="s1"), a_task(2, agent="bo"))

        assert pending(store, BO) == [2]
        assert pending(store, Caller(agent="bo")) == [1]
        assert pending(store, Caller(agent="bo", session="s2")) == [1, 2]
        assert pending(store, Caller(agent="ann", session="s1")) == [1, 2]

    def test_acknowledgement_settles_a_task_for_all_and_a_rule_for_its_session(
        self, store: Store
    ) -> None:
        put(store, a_task(1), a_rule(2))
        with store.begin(LOCAL_TENANT) as tx:
            tx.acks.put(an_ack(1))
            tx.acks.put(an_ack(2))

        assert pending(store, BO) == []
        assert pending(store, Caller(agent="bo", session="s2")) == [2]
        assert pending(store, Caller(agent="cy", session="s1")) == [2]
        assert pending(store, Caller(agent="bo")) == [2]

    def test_deferred_item_is_pending_again_from_its_date(self, store: Store) -> None:
        put(store, a_task(1), a_rule(2))
        with store.begin(LOCAL_TENANT) as tx:
            for id_ in (1, 2):
                tx.acks.put(an_ack(id_, decision=Decision.DEFERRED, until=LATER))

        assert pending(store, now=LATER - timedelta(milliseconds=1)) == []
        assert pending(store, now=LATER) == [1, 2]

    def test_acknowledgement_replaces_the_one_of_the_same_session_and_can_be_dropped(
        self, store: Store
    ) -> None:
        put(store, a_task(1))
        first, other = an_ack(1), an_ack(1, agent="cy", at=LATER)
        later = an_ack(1, decision=Decision.NOT_RELEVANT, reason="no tea", at=LATER)
        with store.begin(LOCAL_TENANT) as tx:
            for one in (first, other, later):
                tx.acks.put(one)
            assert tx.acks.of([1, 2]) == {1: [later, other]}
            tx.acks.drop(first)
            assert tx.acks.of([1]) == {1: [other]}
            assert tx.acks.of([]) == {}

    def test_more_than_a_thousand_pending_items_are_listed(self, store: Store) -> None:
        count = 1200
        with store.begin(LOCAL_TENANT) as tx:
            for id_ in range(1, count + 1):
                tx.memories.add(a_task(id_))

        assert pending(store) == list(range(1, count + 1))

    def test_item_is_not_pending_for_another_tenant(self, store: Store) -> None:
        put(store, a_task(1))

        with store.snapshot("other") as tx:
            assert tx.acks.pending(BO, projects=None, now=NOON) == []

    def test_session_key_has_ended_once_all_its_sessions_have(self, store: Store) -> None:
        live = Session(id=1, key="k", agent="bo", started_at=NOON, heartbeat_at=NOON)
        with store.begin(LOCAL_TENANT) as tx:
            assert not tx.acks.has_ended("k")
            tx.sessions.save(replace(live, ended_at=LATER))
            assert tx.acks.has_ended("k")
            tx.sessions.save(replace(live, id=2, agent="cy"))
            assert not tx.acks.has_ended("k")

    @pytest.mark.requirement("DM-47")
    def test_note_belongs_to_a_session_and_is_unique_per_key(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            for note in (a_note("b"), a_note("a"), a_note("b", value="y"), a_note("c", agent="cy")):
                tx.scratchpad.put(note)
            tx.scratchpad.drop(a_note("a"))
            assert tx.scratchpad.of(BO, now=NOON) == [a_note("b", value="y")]
            assert tx.scratchpad.of(Caller(agent="bo"), now=NOON) == []

    @pytest.mark.requirement("DM-47")
    def test_pinned_notes_of_a_project_and_of_no_project_are_listed(self, store: Store) -> None:
        notes = [
            a_note("a", pinned=True),
            a_note("b", pinned=True, project="tea"),
            a_note("c", project="tea"),
            a_note("d", pinned=True, project="bread"),
        ]
        with store.begin(LOCAL_TENANT) as tx:
            for note in notes:
                tx.scratchpad.put(note)
            assert tx.scratchpad.pinned("tea", now=NOON) == notes[:2]
            assert tx.scratchpad.pinned(None, now=NOON) == notes[:1]

    def test_unpinned_notes_live_as_long_as_their_session_writes(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            for note in (
                a_note("a", expires_at=LATER),
                a_note("b", expires_at=NOON),
                a_note("c", pinned=True),
                a_note("d", agent="cy", expires_at=LATER),
            ):
                tx.scratchpad.put(note)
            later = LATER + timedelta(hours=1)
            tx.scratchpad.extend(BO, until=later, now=NOON)
            assert [one.key for one in tx.scratchpad.of(BO, now=LATER)] == ["a", "c"]
            assert [one.key for one in tx.scratchpad.of(BO, now=later)] == ["c"]
            assert tx.scratchpad.of(Caller(agent="cy", session="s1"), now=LATER) == []

    def test_version_of_a_memory_ignores_annotations_and_ratings(self, store: Store) -> None:
        put(store, a_task(1), a_task(2))
        with store.begin(LOCAL_TENANT) as tx:
            for action in ("create", "ack", "claim", "release", "rate", "annotate", "status"):
                tx.changes.add(a_change(1, action=action))
            assert tx.changes.versions([1, 2]) == {1: 2}
            assert tx.changes.versions([]) == {}
