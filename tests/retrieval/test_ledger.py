"""The ledger is shown to those who may read it, and holds no word of erased memories."""

import pytest

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import NotFoundError, RejectedError
from commonbrain.model.scope import LOCAL_TENANT, Caller, Role
from commonbrain.retrieval.log import CandidateView, RecallView
from commonbrain.storage.interface import EntryFilter
from tests.asking import stored

FACT = "The nightly build runs on two cores"
HERS = "The nightly build fails since Ann lost the key of the cellar"


@pytest.fixture
def bo(brain: Brain) -> Brain:
    """A writer, who sees what the team may."""
    return Brain(brain.services, Caller(agent="bo", role=Role.WRITER, session="s1"))


def whole(brain: Brain) -> RecallView:
    """Show the latest recall with all that it considered."""
    return brain.recalls.one(brain.recalls(limit=1).recalls[0].id)


def candidates(brain: Brain) -> list[CandidateView]:
    return list(whole(brain).candidates or ())


def test_recall_log_shows_a_recall_with_its_candidates_and_outcome(bo: Brain) -> None:
    good, other = stored(bo, FACT, kind="fact"), stored(bo, "Build a zoo", kind="event")
    answer = bo.recall("nightly build", max_items=1)
    bo.revise.rate(good, "up")
    [listed] = bo.recalls().recalls
    assert (listed.id, listed.agent, listed.session) == (answer.trace_id, "bo", "s1")
    assert (listed.considered, listed.packed, listed.marks) == (2, 1, {"useful": 1})
    assert (listed.query, listed.ranker, listed.candidates) == ("nightly build", None, None)

    first, second = candidates(bo)
    assert (first.id, first.place, first.headline) == (good, 1, FACT)
    assert (first.shown, first.left_out, first.marks) == ("whole", None, ("useful",))
    assert next(iter(first.features)) == "fused"
    assert (second.id, second.shown, second.left_out) == (other, None, "no_room")
    assert bo.recalls(marked=True).recalls == bo.recalls().recalls


def test_pages_go_from_the_newest_to_the_oldest(brain: Brain) -> None:
    requested = [f"comet {n}" for n in range(3)]
    for query in requested:
        brain.recall(query)
        brain.services.clock.now()
    first = brain.recalls(limit=2)
    rest = brain.recalls(limit=2, cursor=first.next)
    queries = [one.query for page in (first, rest) for one in page.recalls]
    assert (sorted(queries), first.more, rest.more, rest.next) == (requested, 1, 0, None)
    with pytest.raises(RejectedError, match="1 to 100"):
        brain.recalls(limit=101)


def test_only_an_admin_reads_the_recalls_of_other_agents(brain: Brain, bo: Brain) -> None:
    brain.recall("comet")
    bo.recall("tail")
    [recall_of_bo] = bo.recalls().recalls
    assert recall_of_bo.query == "tail"
    assert {one.query for one in brain.recalls().recalls} == {"comet", "tail"}
    [recall_of_ann] = brain.recalls(agent="ann").recalls
    with pytest.raises(RejectedError, match="admin"):
        bo.recalls(agent="ann")
    with pytest.raises(NotFoundError):
        bo.recalls.one(recall_of_ann.id)
    with pytest.raises(NotFoundError):
        bo.recalls.one(ids.show(ids.TRACE, 1))


def test_recall_log_shows_admins_only_the_id_of_hidden_candidates(brain: Brain, bo: Brain) -> None:
    stored(bo, FACT, kind="fact")
    hidden = stored(bo, HERS, kind="event", scope="private")
    bo.recall("nightly build")
    other = Brain(brain.services, Caller(agent="cy", role=Role.WRITER))
    assert other.recalls().recalls == ()
    recall_view = whole(brain)
    assert recall_view.considered == 2
    [one] = [one for one in recall_view.candidates or () if one.id == hidden]
    assert (one.headline, one.kind) == (None, None)
    assert HERS not in str(recall_view)


def test_erasing_a_memory_removes_it_from_every_recall_that_considered_it(brain: Brain) -> None:
    saved, removed = stored(brain, FACT, kind="fact"), stored(brain, HERS, kind="event")
    brain.recall("nightly build cellar", max_items=1)
    brain.recall("nightly build", max_items=2)
    brain.recall("comet")
    brain.revise.rate(removed, "down")
    done = brain.erase(removed, reason="not to be kept", confirm=1)
    assert (done.receipt or {})["recall_traces"] == 2
    assert (done.receipt or {})["feedback"] == 1
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        entries = tx.recall_log.entries(EntryFilter(), limit=10)
    assert sorted(entry.query for entry in entries) == ["", "", "comet"]
    left = {one.memory_id for entry in entries for one in entry.considered}
    assert left == {ids.parse(ids.MEMORY, saved)}
    assert {id_ for entry in entries for id_ in entry.packed} <= left
    assert not any(entry.marks for entry in entries)


def test_recall_log_retains_figures_of_forgotten_memories_and_no_text(brain: Brain) -> None:
    id_ = stored(brain, FACT, kind="fact")
    brain.recall("nightly build")
    brain.forget(id_, reason="it has four")
    [one] = candidates(brain)
    assert (one.headline, one.marks, one.kind) == (None, ("wrong",), "fact")


def test_recalls_of_a_memory_are_those_that_returned_it(brain: Brain, bo: Brain) -> None:
    build, zoo = stored(brain, FACT, kind="fact"), stored(brain, "Build a zoo", kind="event")
    brain.recall("nightly build", max_items=1)
    brain.recall("which zoo", max_items=1)
    assert [one.query for one in brain.recalls(memory=build).recalls] == ["nightly build"]
    assert [one.query for one in brain.recalls(memory=zoo).recalls] == ["which zoo"]
    assert bo.recalls(memory=zoo).recalls == ()
    hidden = stored(brain, HERS, kind="event", scope="private")
    with pytest.raises(NotFoundError):
        bo.recalls(memory=hidden)
