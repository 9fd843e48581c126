"""What every store promises of figures over time.

A subclass gives `open_store`, as for `StoreContract`.
"""

from datetime import timedelta
from typing import Final

import pytest

from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.query import Feedback, FeedbackMark, ShownExtent
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import LOCAL_TENANT, Caller
from commonbrain.observability.tool_events import REFUSED, WEB_TRANSPORT
from commonbrain.storage.repositories.trends import CallRow, RecallRow, StoredRow
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.events_contract import OTHER, an_event, record
from tests.storage.learning_contract import a_trace
from tests.storage.store_steps import OpenStore, put

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
TODAY: Final = NOON.replace(hour=0)
LONG_AGO: Final = NOON - timedelta(days=400)


class TrendsContract:
    """The promises of figures over time; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        store = open_store()
        store.make_tenant(OTHER, at=NOON)
        return store

    def test_memories_are_counted_by_day_and_kind(self, store: Store) -> None:
        yesterday = ids.make_id(NOON - DAY, 1)
        today = [ids.make_id(NOON, number) for number in range(3)]
        put(
            store,
            a_memory(yesterday, "The ferry leaves at dawn."),
            a_memory(today[0], "The kettle is blue."),
            a_memory(today[1], "The pot is red."),
            a_memory(today[2], "Dana left.", kind=Kind.EVENT),
        )
        with store.snapshot(LOCAL_TENANT) as tx:
            both = tx.trends.stored(since=LONG_AGO)
            later = tx.trends.stored(since=TODAY)
        with store.snapshot(OTHER) as tx:
            rows = tx.trends.stored(since=LONG_AGO)

        assert both == [StoredRow(TODAY - DAY, Kind.FACT, 1), *later]
        assert sorted(later) == [
            StoredRow(TODAY, Kind.EVENT, 1),
            StoredRow(TODAY, Kind.FACT, 2),
        ]
        assert rows == []

    def test_recalls_and_helpful_recalls_are_counted_by_result(self, store: Store) -> None:
        missed = a_trace(3, status=ResultStatus.BELOW_THRESHOLD)
        by_ann = a_trace(4, 1, caller=Caller(agent="ann"))
        used, misled = a_trace(1, 1, 2), a_trace(2, 1)
        listed = a_trace(5, 1, query="")
        traces = (used, misled, missed, by_ann, listed)
        store.note_reads(LOCAL_TENANT, traces=traces, accesses=(), retain_from=LONG_AGO)
        with store.begin(LOCAL_TENANT) as tx:
            tx.recall_log.mark(
                [
                    Feedback(
                        trace_id=trace, memory_id=memory, mark=mark,
                        agent="bo", session=None, at=NOON,
                    )
                    for trace, memory, mark in (
                        (used.id, 1, FeedbackMark.USED),
                        (used.id, 2, FeedbackMark.USEFUL),
                        (misled.id, 1, FeedbackMark.WRONG),
                    )
                ]
            )  # fmt: skip

        def read(agent: str | None, *, limit: int = 10) -> list[RecallRow]:
            with store.snapshot(LOCAL_TENANT) as tx:
                return tx.trends.recalls(since=LONG_AGO, agent=agent, limit=limit)

        assert read(None) == [
            RecallRow(TODAY, "below_threshold", 1, 0, 0),
            RecallRow(TODAY, "found", 3, 1, 1),
        ]
        assert read("ann") == read(None, limit=1) == [RecallRow(TODAY, "found", 1, 0, 0)]

    def test_candidates_of_the_newest_recalls_are_listed(self, store: Store) -> None:
        whole = a_trace(1, 1, extents={1: ShownExtent.WHOLE})
        by_ann = a_trace(2, 2, caller=Caller(agent="ann"))
        listed = a_trace(3, 3, query="")
        traces = (whole, by_ann, listed)
        store.note_reads(LOCAL_TENANT, traces=traces, accesses=(), retain_from=LONG_AGO)

        with store.snapshot(LOCAL_TENANT) as tx:
            [newest] = tx.trends.considered(agent=None, limit=1)
            [of_bo] = tx.trends.considered(agent="bo", limit=9)

        assert [one["id"] for one in newest] == [2, 9]
        assert [(one["id"], one.get("shown"), one["left_out"]) for one in of_bo] == [
            (1, "whole", None),
            (9, None, "no_room"),
        ]

    def test_calls_of_agents_have_percentiles_by_hour(self, store: Store) -> None:
        later = NOON + HOUR
        record(
            store,
            *(an_event(minute, duration_ms=float(minute)) for minute in range(1, 21)),
            an_event(60, duration_ms=7.0, outcome="not_found"),
            an_event(61, duration_ms=9.0, outcome=REFUSED),
            an_event(62, duration_ms=900.0, transport=WEB_TRANSPORT),
        )
        record(store, an_event(1, tenant=OTHER), tenant=OTHER)

        with store.snapshot(LOCAL_TENANT) as tx:
            calls = tx.trends.calls(since=LONG_AGO, limit=100)
            newest = tx.trends.calls(since=LONG_AGO, limit=1)
            since = tx.trends.calls(since=later, limit=100)

        assert calls == [CallRow(NOON, 20, 0, 10.0, 19.0), CallRow(later, 2, 1, 7.0, 9.0)]
        assert newest == [CallRow(later, 1, 0, 9.0, 9.0)]
        assert since == calls[1:]

    def test_timings_of_agents_calls_are_listed_newest_first(self, store: Store) -> None:
        record(
            store,
            *(an_event(1), an_event(2), an_event(3, outcome="not_found")),
            an_event(4, transport=WEB_TRANSPORT),
        )

        with store.snapshot(LOCAL_TENANT) as tx:
            timings = tx.events.timings(limit=2, since=LONG_AGO)

        assert timings == [("recall", 1.5, "not_found"), ("recall", 1.5, "ok")]
