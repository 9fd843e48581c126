from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import RowMapping, select

from commonbrain.client import Brain
from commonbrain.model import ids, limits
from commonbrain.model.query import RecallTrace
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.retrieval.write_behind import RecallLogPolicy
from commonbrain.storage.interface import MemoryAccess
from commonbrain.storage.schema.activity import recall_traces
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import FailingEmbedder, stored

FACT = "The nightly build runs on two cores"


class SameBits:
    """Chance that always gives the number it holds."""

    number = 0

    def bits(self, count: int) -> int:
        return self.number % (1 << count)


def traces(brain: Brain) -> list[RowMapping]:
    """Read what the journal has written."""
    store = brain.services.store
    assert isinstance(store, Store)
    with store.snapshot(LOCAL_TENANT) as tx:
        rows = tx.work.connection.execute(select(recall_traces).order_by(recall_traces.c.id))
        return list(rows.mappings())


def test_recall_stores_a_trace_of_what_it_considered_and_packed(brain: Brain) -> None:
    fact = ids.parse(ids.MEMORY, stored(brain, FACT, kind="fact"))
    web = ids.parse(ids.MEMORY, stored(brain, "Build zoo", kind="event"))
    answer = brain.acting_as(agent="bob", session="s1").recall(" nightly  build? ", max_items=1)
    brain.services.journal.flush()
    [saved] = traces(brain)
    assert ids.show(ids.TRACE, saved["id"]) == answer.trace_id
    assert (saved["agent"], saved["session"], saved["verdict"]) == ("bob", "s1", "found")
    assert saved["query"] == "nightly  build?"
    assert [one["id"] for one in saved["considered"]] == [fact, web]
    assert saved["packed"] == [fact]
    assert set(saved["stages_ms"]) == {"plan", "embed", "snapshot", "retrieve", "rank", "pack"}


def test_trace_names_the_retriever_that_was_skipped(path: Path) -> None:
    embedder = FailingEmbedder()
    embedder.is_down = True
    with a_brain(path, embedder=embedder) as brain:
        answer = brain.recall("nightly")
        brain.services.journal.flush()
        assert traces(brain)[0]["degraded"] == list(answer.degraded) != []


def test_waiting_traces_are_written_when_the_brain_is_closed(path: Path) -> None:
    with a_brain(path) as brain:
        for n in range(5):
            brain.recall(f"comet {n}")
    with a_brain(path) as reopened:
        assert len(traces(reopened)) == 5
        assert reopened.status().traces_dropped == 0


def test_journal_entries_of_a_tenant_are_collected_before_they_are_written(
    brain: Brain, clock: FakeClock
) -> None:
    stored(brain, FACT, kind="fact")
    brain.recall("nightly")
    clock.move(timedelta(seconds=3))
    brain.recall("build")
    brain.services.journal.flush(gathered_s=4)
    assert not traces(brain)

    clock.move(timedelta(seconds=1))
    brain.services.journal.flush(gathered_s=4)
    assert len(traces(brain)) == 2


def test_closing_twice_is_harmless(path: Path) -> None:
    brain = a_brain(path)
    brain.recall("comet")
    brain.close()
    brain.close()


def test_trace_with_an_existing_id_is_dropped_and_counted_and_the_others_are_stored(
    path: Path,
) -> None:
    bits = SameBits()
    with a_brain(path, random_source=bits, clock=FakeClock()) as brain:
        for number in (1, 1, 2):
            bits.number = number
            brain.recall("comet")
        brain.services.journal.flush()
        assert len(traces(brain)) == 2
        assert brain.status().traces_dropped == 1


def test_full_queue_drops_and_counts_the_oldest_traces(brain: Brain) -> None:
    journal = brain.services.journal
    # A closed journal still takes entries, and nobody carries them away meanwhile.
    journal.close()
    for n in range(limits.JOURNAL_ENTRIES_MAX + 3):
        journal.record(a_trace(n, brain))
    assert brain.status().traces_dropped == 3
    journal.flush()
    first = ids.make_id(brain.services.clock.now(), 0)
    assert [trace["id"] - first for trace in traces(brain)] == list(
        range(3, limits.JOURNAL_ENTRIES_MAX + 3)
    )


def a_trace(number: int, brain: Brain) -> RecallTrace:
    """Make the trace of a recall that found nothing."""
    return RecallTrace(
        id=ids.make_id(brain.services.clock.now(), number),
        caller=brain.caller,
        asked_at=brain.services.clock.now(),
        query="comet",
        status=ResultStatus.NOTHING_STORED,
        considered=(),
        packed=(),
        degraded=(),
        stages_ms={},
    )


def test_trace_that_cannot_be_written_is_counted_and_the_next_one_is_stored(brain: Brain) -> None:
    unknown_tenant = Brain(brain.services, replace(brain.caller, tenant="nobody"))
    unknown_tenant.recall("anything?")
    brain.services.journal.flush()
    brain.recall("something?")
    brain.services.journal.flush()
    assert [saved["query"] for saved in traces(brain)] == ["something?"]
    assert brain.status().traces_dropped == 1


def strengths(brain: Brain, id_: str) -> tuple[int, float]:
    policy = brain.get(id_, views=["policy"], bump=False).policy
    assert policy is not None
    return policy.access_count, policy.strength


@pytest.mark.requirement("RT-08", "DM-27", "DM-05", "LC-01")
def test_shown_memory_is_counted_and_revived(brain: Brain, clock: FakeClock) -> None:
    recalled, other = stored(brain, FACT, kind="fact"), stored(brain, "Tea at noon", kind="fact")
    clock.move(timedelta(days=7))
    for one in (recalled, other):
        assert strengths(brain, one) == (0, pytest.approx(0.5, abs=0.1))
    brain.recall("nightly build")
    brain.get(recalled)
    brain.recall("nightly build", bump=False)
    brain.services.journal.flush()
    assert strengths(brain, recalled) == (2, 1.0)
    assert strengths(brain, other) == (0, pytest.approx(0.5, abs=0.1))


def test_showing_a_bare_id_does_not_count_as_an_access(brain: Brain) -> None:
    id_ = stored(brain, f"{FACT} " * 30, kind="event")
    assert brain.recall("nightly", max_tokens=64).items[0].headline is None
    brain.services.journal.flush()
    assert strengths(brain, id_)[0] == 0


def test_access_that_cannot_be_written_is_dropped_and_counted(brain: Brain) -> None:
    id_ = ids.parse(ids.MEMORY, stored(brain, FACT, kind="fact"))
    journal = brain.services.journal
    journal.close()
    for _ in range(limits.JOURNAL_ENTRIES_MAX + 2):
        journal.touch(MemoryAccess(tenant="nobody", ids=(id_,), at=brain.services.clock.now()))
    assert brain.status().accesses_dropped == 2


def test_trace_records_why_each_candidate_was_left_out(brain: Brain) -> None:
    for n in range(4):
        stored(brain, f"The nightly build of the big shop broke at step {n}", kind="event")
    stored(brain, "Buy a nightly build", kind="event")
    brain.recall("nightly build", max_items=2)
    brain.services.journal.flush()
    reasons = [one["left_out"] for one in traces(brain)[0]["considered"]]
    assert sorted(reasons, key=str) == [None, None, "no_room", "no_room", "no_room"]
    features = traces(brain)[0]["considered"][0]["features"]
    assert {"fused", "lexical", "trust"} <= set(features)
    assert all(features.values()), "what is 0 goes without saying"


def test_traces_are_stored_for_their_retention_time_only(path: Path) -> None:
    clock = FakeClock()
    with a_brain(path, clock=clock) as brain:
        brain.recall("comet")
        brain.services.journal.flush()
        clock.move(timedelta(days=91))
        brain.recall("tail")
        brain.services.journal.flush()
        assert [trace["query"] for trace in traces(brain)] == ["tail"]


def test_old_traces_are_looked_for_once_an_hour(path: Path) -> None:
    clock = FakeClock()
    with a_brain(path, clock=clock) as brain:
        counts: list[int] = []
        minute = timedelta(minutes=1)
        for later in (0 * minute, timedelta(days=90) - 30 * minute, 45 * minute, 30 * minute):
            clock.move(later)
            brain.recall("comet")
            brain.services.journal.flush()
            counts.append(len(traces(brain)))
        assert counts == [1, 2, 3, 3]


def test_configured_share_of_the_traces_is_stored() -> None:
    half = RecallLogPolicy(share=0.5)
    assert sum(half.takes(number << 10) for number in range(2048)) == 1024
    assert not RecallLogPolicy(share=0).takes(0)
    assert RecallLogPolicy().takes((1 << 63) - 1)
