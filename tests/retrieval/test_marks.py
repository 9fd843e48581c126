"""What agents do with what a recall showed them is marked on that recall, and on no other."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.query import MARKED_WITHIN, FeedbackMark, RecallLogEntry
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.retrieval.plan import RecallOptions
from commonbrain.retrieval.write_behind import RecallLogPolicy, WriteBehindQueue
from commonbrain.storage.interface import EntryFilter
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import stored
from tests.storage.learning_contract import a_trace, a_use

FACT = "The nightly build runs on two cores"
LONG = f"{FACT}. " + "The machine that it runs on stands in the cellar of the old mill. " * 40
NIGHTLY = {
    "source": "The nightly build broke at the linker",
    "premise": "Nightly there is a build in the cellar of the mill",
    "linked": "Ann moved the nightly build to Sunday",
    "named": "A nightly build takes seven hours of four machines",
    "old": "Nobody reads the log that the nightly build writes",
    "sent": "Bob pays for whatever the nightly build burns",
}
IN_PART = RecallOptions(max_tokens=120)


@pytest.fixture
def bo(brain: Brain) -> Brain:
    return brain.acting_as(agent="bo", session="s1")


def entries(brain: Brain) -> list[RecallLogEntry]:
    brain.services.journal.flush()
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        return tx.recall_log.entries(EntryFilter(), limit=50)


def marks(brain: Brain, id_: str) -> list[set[FeedbackMark]]:
    """Give the marks on a memory, of one recall after the other."""
    memory_id = ids.parse(ids.MEMORY, id_)
    return [set(entry.marks.get(memory_id, ())) for entry in entries(brain)]


def recalled(bo: Brain, *, is_written: bool = True) -> None:
    assert bo.recall("nightly build").items
    if is_written:
        bo.services.journal.flush()


@pytest.mark.parametrize("is_written", [True, False])
def test_vote_marks_the_recall_that_showed_the_memory(bo: Brain, *, is_written: bool) -> None:
    id_ = stored(bo, FACT, kind="fact")
    recalled(bo, is_written=is_written)
    bo.revise.rate(id_, "up")
    assert marks(bo, id_) == [{FeedbackMark.USEFUL}]


@pytest.mark.requirement("RT-07")
@pytest.mark.parametrize("is_written", [True, False])
def test_vote_replaces_the_mark_of_an_earlier_vote_by_the_same_agent(
    bo: Brain, clock: FakeClock, *, is_written: bool
) -> None:
    id_ = stored(bo, FACT, kind="fact")
    recalled(bo, is_written=is_written)
    votes: tuple[Literal["down", "up"], ...] = ("down", "up", "down")
    for vote in votes:
        bo.revise.rate(id_, vote)
        assert marks(bo, id_) == [{"wrong" if vote == "down" else "useful"}]
    clock.move(timedelta(minutes=1))
    recalled(bo, is_written=is_written)
    bo.revise.rate(id_, "up")
    assert marks(bo, id_) == [set(), {FeedbackMark.USEFUL}]


def test_vote_does_not_change_marks_of_other_agents_or_other_marks(bo: Brain) -> None:
    id_ = stored(bo, LONG, kind="event")
    cleo = bo.acting_as(agent="cleo", session="s9")
    for one in (bo, cleo):
        assert one.recall("nightly build", **IN_PART).items
        one.services.journal.flush()
        one.revise.rate(id_, "up")
    bo.get(id_)
    bo.revise.rate(id_, "down")
    assert sorted(map(sorted, marks(bo, id_))) == [["used", "wrong"], ["useful"]]


def test_latest_recall_that_showed_a_memory_is_marked(bo: Brain, clock: FakeClock) -> None:
    id_ = stored(bo, FACT, kind="fact")
    recalled(bo)
    clock.move(timedelta(minutes=1))
    recalled(bo, is_written=False)
    bo.revise.rate(id_, "up")
    assert marks(bo, id_) == [set(), {FeedbackMark.USEFUL}]


def test_vote_marks_no_recall_that_did_not_show_the_memory(
    brain: Brain, bo: Brain, clock: FakeClock
) -> None:
    id_, other = stored(bo, FACT, kind="fact"), stored(bo, "Tea is at noon", kind="fact")
    recalled(bo)
    brain.revise.rate(id_, "up")
    bo.acting_as(session="s2").revise.rate(id_, "up")
    bo.revise.rate(other, "up")
    clock.move(MARKED_WITHIN + timedelta(minutes=1))
    bo.revise.rate(id_, "up")
    assert marks(bo, id_) == [set()]
    assert marks(bo, other) == [set()]


def test_fetching_the_body_of_a_memory_shown_in_part_marks_it_used(bo: Brain) -> None:
    id_ = stored(bo, LONG, kind="event")
    [item] = bo.recall("nightly build", **IN_PART).items
    assert item.body is None
    bo.get(id_, bump=False)
    assert marks(bo, id_) == [set()]
    bo.get(id_)
    assert marks(bo, id_) == [{FeedbackMark.USED}]


def test_fetching_a_memory_that_was_shown_in_full_marks_nothing(bo: Brain) -> None:
    id_ = stored(bo, FACT, kind="fact")
    recalled(bo)
    bo.get(id_)
    assert marks(bo, id_) == [set()]


def test_building_on_a_shown_memory_marks_it_used(bo: Brain) -> None:
    reply = {mark: stored(bo, text, kind="event") for mark, text in NIGHTLY.items()}
    other = stored(bo, "Tea is at noon", kind="fact")
    assert len(bo.recall("nightly build", max_items=10).items) == len(reply)
    stored(bo, "Two cores are few", kind="fact", derived_from=[reply["source"]])
    stored(bo, "Three would do", kind="fact", depends_on=[reply["premise"]])
    stored(bo, f"More of {reply['named']} came to light", kind="event")
    bo.revise.link(other, reply["linked"], type="supports")
    bo.revise.supersede(reply["old"], "The nightly build has none", reason="it was read wrong")
    bo.message.send("ann", f"Look at {reply['sent']}, please")
    assert {mark: marks(bo, id_) for mark, id_ in reply.items()} == {
        mark: [{FeedbackMark.USED}] for mark in reply
    }


def test_contradicting_a_shown_memory_does_not_mark_it_used(bo: Brain) -> None:
    id_ = stored(bo, FACT, kind="fact")
    recalled(bo)
    other = stored(bo, "Tea is at noon", kind="fact")
    bo.revise.link(other, id_, type="conflicts_with")
    assert marks(bo, id_) == [set()]


def test_memory_forgotten_by_the_agent_it_was_shown_to_is_marked_wrong(bo: Brain) -> None:
    id_ = stored(bo, FACT, kind="fact")
    recalled(bo)
    bo.forget(id_, reason="it has four")
    bo.undo(since=bo.services.clock.now(), agent="bo", reason="it has two", confirm=1)
    assert marks(bo, id_) == [{FeedbackMark.WRONG}]


def test_mark_waits_for_a_recall_not_yet_written_by_another_process(
    path: Path, clock: FakeClock
) -> None:
    with (
        a_brain(path, agent="bo", clock=clock) as here,
        a_brain(path, agent="bo", clock=clock) as there,
    ):
        id_ = stored(here, FACT, kind="fact")
        here.recall("nightly build")
        there.revise.rate(id_, "up")
        there.services.journal.flush(ripe_s=2)
        here.services.journal.flush()
        clock.move(timedelta(seconds=2))
        there.services.journal.flush(ripe_s=2)
        assert marks(here, id_) == [{FeedbackMark.USEFUL}]


def test_recall_watched_for_a_model_is_stored_at_any_sampling_rate(brain: Brain) -> None:
    stored(brain, FACT, kind="fact")
    few = WriteBehindQueue(
        brain.services.store,
        brain.services.secret_scanner,
        clock=brain.services.clock,
        ledger=RecallLogPolicy(share=0.0),
    )
    plain = a_trace(1, 5)
    few.record(plain)
    few.record(replace(a_trace(2, 5), is_watched=True))
    few.flush()
    assert [entry.id for entry in entries(brain)] == [a_trace(2, 5).id]
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        assert tx.recall_log.mark(a_use(5, minute=3).marks({5: plain.id})) == 0
