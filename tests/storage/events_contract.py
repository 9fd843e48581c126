"""What every store promises of the events that calls leave; see `StoreContract` for how to use it.

A subclass gives `open_store`, as for `StoreContract`.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from commonbrain.model import ids
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.observability.hook_runs import HOOK_TRANSPORT, ShownCounts
from commonbrain.observability.tool_events import OK, REFUSED, EventBatch, ToolEvent
from commonbrain.storage.repositories.records import HookRun
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON
from tests.storage.store_steps import OpenStore

OTHER = "acme"


def an_event(number: int = 1, **more: Any) -> ToolEvent:  # noqa: ANN401
    """Make an event of some minutes past noon, with anything else as given."""
    at = NOON + timedelta(minutes=number)
    plain = ToolEvent(
        id=ids.make_id(at, number),
        tenant=LOCAL_TENANT,
        at=at,
        session="s1",
        agent="ann",
        tool="recall",
        transport="mcp",
        duration_ms=1.5,
        outcome=OK,
        args="limit=3",
    )
    return replace(plain, **more)


def record(store: Store, *events: ToolEvent, days: int = 30, tenant: str = LOCAL_TENANT) -> None:
    """Keep events, and drop those from so many days before noon."""
    before = NOON - timedelta(days=days)
    happened = EventBatch(events=events, retained_since=before)
    store.note_reads(tenant, traces=(), accesses=(), happened=happened, retain_from=before)


def latest(store: Store, *, tenant: str = LOCAL_TENANT, **more: Any) -> Sequence[ToolEvent]:  # noqa: ANN401
    """List what is stored."""
    with store.snapshot(tenant) as tx:
        filters: dict[str, Any] = {"limit": 10, "since": NOON - timedelta(days=400)}
        return renamed(tx, tx.events.latest(**(filters | more)), tenant)


def renamed(
    tx: Transaction, events: Sequence[ToolEvent], tenant: str = LOCAL_TENANT
) -> list[ToolEvent]:
    """Give the tenant of a transaction the name that the test has for it."""
    assert {one.tenant for one in events} <= {tx.work.tenant}
    return [replace(one, tenant=tenant) for one in events]


class EventsContract:
    """The promises of the tool events; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it, with a second tenant."""
        store = open_store()
        store.make_tenant(OTHER, at=NOON)
        return store

    def test_events_of_hooks_are_listed_by_agent(self, store: Store) -> None:
        events = [
            an_event(1, transport=HOOK_TRANSPORT, args="shown=1 tokens=9"),
            an_event(2, transport=HOOK_TRANSPORT, session="s2"),
            an_event(3),
        ]
        record(store, *events)
        record(store, an_event(4, transport=HOOK_TRANSPORT, tenant=OTHER), tenant=OTHER)
        since = NOON - timedelta(days=1)

        with store.snapshot(LOCAL_TENANT) as tx:
            hooks = tx.events.of_hooks(limit=10, since=since)
            newest = tx.events.of_hooks(limit=1, since=since)
            later = tx.events.of_hooks(limit=10, since=NOON + timedelta(minutes=2))
            of_agent = tx.events.of_hooks(limit=10, since=since, agent="bo")
            of_ann = tx.events.of_hooks(limit=1, since=since, agent="ann")

        runs = [HookRun(one.at, one.tool, ShownCounts.read(one.args)) for one in events]
        assert hooks == [runs[1], runs[0]]
        assert newest == later == [runs[1]]
        assert of_ann == [runs[1]]
        assert of_agent == []

    def test_tokens_of_a_session_are_those_of_its_hooks_and_its_other_calls(
        self, store: Store
    ) -> None:
        record(
            store,
            an_event(1, transport=HOOK_TRANSPORT, args="shown=1 tokens=9"),
            an_event(2, args="tokens=30 limit=3"),
            an_event(3, args="limit=3"),
            an_event(4, args="tokens=100", session="s2"),
            an_event(5, args="tokens=100", agent="bo"),
        )

        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.events.tokens_shown("ann", "s1", limit=10) == 39

    def test_events_are_read_as_stored_and_newest_first(self, store: Store) -> None:
        events = [an_event(1), an_event(2, session="", args="", outcome="not_found")]
        record(store, *events)

        assert latest(store) == events[::-1]
        assert latest(store, limit=1) == events[1:]
        assert latest(store, since=events[1].at) == events[1:]

    def test_event_that_is_reported_twice_is_stored_once(self, store: Store) -> None:
        record(store, an_event(1), an_event(1))
        record(store, an_event(1), an_event(2))

        assert latest(store) == [an_event(2), an_event(1)]

    def test_failed_calls_are_listed_apart_from_successful_and_refused_calls(
        self, store: Store
    ) -> None:
        failed = an_event(3, outcome="not_found")
        of_bo = an_event(4, outcome="not_found", agent="bo")
        record(store, an_event(1), an_event(2, outcome=REFUSED), failed, of_bo)
        record(store, an_event(5, outcome="not_found", tenant=OTHER), tenant=OTHER)

        since = NOON - timedelta(days=400)
        with store.snapshot(LOCAL_TENANT) as tx:
            assert renamed(tx, tx.events.failed(limit=10, since=since)) == [of_bo, failed]
            assert renamed(tx, tx.events.failed(limit=10, since=since, agent="bo")) == [of_bo]
            assert tx.events.failed(limit=10, since=since, agent="eve") == []

    def test_old_events_are_dropped_whether_or_not_new_ones_arrive(self, store: Store) -> None:
        long_ago = NOON - timedelta(days=20)
        old = an_event(1, id=ids.make_id(long_ago, 1), at=long_ago)
        record(store, old)
        record(store, an_event(2), days=10)
        assert latest(store) == [an_event(2)]

        record(store, days=-1)
        assert latest(store) == []

    def test_events_and_their_ids_belong_to_one_tenant(self, store: Store) -> None:
        event_of_other = an_event(1, tenant=OTHER, agent="zoe")
        record(store, an_event(1))
        record(store, event_of_other, tenant=OTHER)
        record(store, days=-1)

        assert latest(store) == []
        assert latest(store, tenant=OTHER) == [event_of_other]
