"""What every store promises of the board: rules and open action items, in order."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from commonbrain.model.kinds import Kind, RuleDetail, Severity, TaskDetail, TaskPriority, TaskStatus
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.scope import LOCAL_TENANT, Caller, Scope, Trust
from commonbrain.storage.interface import QueryScope
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.store_steps import OpenStore, put, query_scope

BLOCKER = RuleDetail(severity=Severity.BLOCKER)
KEYED = RuleDetail(severity=Severity.BLOCKER, skill={"name": "safe", "keywords": ["vault"]})


def a_rule(id_: int, **more: Any) -> Memory:  # noqa: ANN401
    """Make a rule."""
    return a_memory(id_, f"Rule {id_}.", kind=Kind.RULE, **more)


def a_task(id_: int, **detail: Any) -> Memory:  # noqa: ANN401
    """Make a task."""
    return a_memory(id_, f"Task {id_}.", kind=Kind.TASK, detail=TaskDetail(**detail))


def awake(kind: Kind, **more: Any) -> QueryScope:  # noqa: ANN401
    """Look at what is awake of a kind."""
    return query_scope(kinds=(kind,), states=(State.ACTIVE,), **more)


class BoardContract:
    """Inherited for each engine, with the fixture `open_store` as for `StoreContract`."""

    def test_blockers_are_listed_pinned_first_then_of_the_project_then_newest(
        self, open_store: OpenStore
    ) -> None:
        store = open_store()
        put(
            store,
            a_rule(1, detail=BLOCKER, pinned=True),
            a_rule(2, detail=BLOCKER, project="shop"),
            a_rule(3, detail=BLOCKER),
            a_rule(4, detail=BLOCKER, project="farm"),
            a_rule(5, detail=KEYED),
            a_rule(6),
        )
        with store.snapshot(LOCAL_TENANT) as tx:
            blockers = tx.briefing.blockers(awake(Kind.RULE, project="shop"), limit=2)
            anywhere = tx.briefing.blockers(awake(Kind.RULE), limit=10)

        assert (blockers.ids, blockers.total) == ((1, 2), 3)
        assert (anywhere.ids, anywhere.total) == ((1, 4, 2, 3), 4)

    def test_patterns_are_visible_rules_without_a_trigger(self, open_store: OpenStore) -> None:
        store = open_store()
        put(
            store,
            a_rule(1, pinned=True),
            a_rule(2),
            a_rule(3, state=State.QUARANTINED),
            a_rule(4, trust=Trust.UNTRUSTED_WEB),
            a_rule(5, scope=Scope.PRIVATE, agent="bob"),
            a_rule(6, expires_at=NOON - timedelta(seconds=1)),
            a_rule(7, detail=RuleDetail(skill={"name": "safe", "keywords": ["vault"]})),
            a_rule(8, detail=BLOCKER),
        )
        bob = QueryScope(caller=Caller(agent="bob"), filter=awake(Kind.RULE).filter, now=NOON)
        with store.snapshot(LOCAL_TENANT) as tx:
            precedence = tx.briefing.patterns(awake(Kind.RULE))
            assert list(precedence) == [2, 1]
            assert precedence[1] > precedence[2]
            assert list(tx.briefing.patterns(bob)) == [5, 2, 1]
            assert tx.briefing.has_patterns(awake(Kind.RULE))
            assert not tx.briefing.has_patterns(awake(Kind.RULE, labels=("none",)))

    def test_pinned_memories_are_visible_and_no_rules_without_a_trigger(
        self, open_store: OpenStore
    ) -> None:
        store = open_store()
        put(
            store,
            a_rule(1, pinned=True),
            a_rule(2, pinned=True, detail=KEYED),
            replace(a_task(3), pinned=True),
            a_task(4),
            replace(a_task(5), pinned=True, scope=Scope.PRIVATE, agent="bob"),
            replace(a_task(6), pinned=True, project="farm"),
        )
        scope = QueryScope(
            caller=Caller(agent="ann"),
            filter=Filter(states=(State.ACTIVE,), project="shop"),
            now=NOON,
        )
        with store.snapshot(LOCAL_TENANT) as tx:
            assert list(tx.briefing.pinned(scope)) == [3, 2]

    def test_action_items_are_ordered_by_priority_then_due_date_then_age(
        self, open_store: OpenStore
    ) -> None:
        soon, late = NOON + timedelta(days=1), NOON + timedelta(days=9)
        store = open_store()
        put(
            store,
            a_task(1, priority=TaskPriority.LOW, due_at=soon),
            a_task(2),
            a_task(3, status=TaskStatus.BLOCKED, due_at=late),
            a_task(4, due_at=soon),
            a_task(5),
            a_task(6, priority=TaskPriority.HIGH),
            a_task(7, status=TaskStatus.DONE),
            a_task(8, status=TaskStatus.STALE),
        )
        with store.snapshot(LOCAL_TENANT) as tx:
            every = tx.briefing.open_tasks(awake(Kind.TASK), limit=10)
            first = tx.briefing.open_tasks(awake(Kind.TASK), limit=2)
            paged: list[int] = []
            after = None
            while keys := tx.briefing.task_keys(awake(Kind.TASK), after=after, limit=2):
                paged += [id_ for *_, id_ in keys]
                after = keys[-1]

        assert every.ids == tuple(paged) == (6, 4, 3, 2, 5, 1)
        assert (first.ids, first.total) == ((6, 4), 6)

    def test_latest_memories_of_a_narrow_filter_are_listed_newest_first(
        self, open_store: OpenStore
    ) -> None:
        early, later = NOON - timedelta(days=2), NOON - timedelta(days=1)
        store = open_store()
        put(
            store,
            a_rule(1, label="kept", occurred_at=early),
            a_rule(2, label="kept", occurred_at=later, project="api"),
            a_rule(3, label="kept", occurred_at=early),
            a_rule(4, occurred_at=NOON),
            a_rule(5, label="kept", state=State.FORGOTTEN),
            a_rule(6, label="kept", project="web"),
        )
        few = Filter(kinds=(Kind.RULE,), labels=("kept",), project="api")
        with store.snapshot(LOCAL_TENANT) as tx:
            scope = replace(awake(Kind.RULE), filter=few)
            assert tx.briefing.latest(scope, limit=10) == [2, 3, 1]
            assert tx.briefing.latest(scope, limit=1) == [2]
