"""What sleeps is still there: found behind what is awake, told by get, woken by being read."""

from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model.memory import ACCESSES_PER_RECALL, State
from commonbrain.retrieval.get import AccessStatus
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, stored

OLD = "The kettle in the kitchen is blue"
NEW = "The kettle in the kitchen is small"


def access_of(brain: Brain, id_: str) -> AccessStatus:
    policy = brain.get(id_, views=["policy"], bump=False).policy
    assert policy is not None
    return policy


@pytest.mark.requirement("LC-17", "DM-62")
def test_dormant_fact_is_recalled_last_and_revived_by_an_access(
    brain: Brain, clock: FakeClock
) -> None:
    old = stored(brain, OLD, kind="fact")
    clock.move(timedelta(days=24))
    stored(brain, NEW, kind="fact")
    assert access_of(brain, old).dormant
    assert bodies(brain, "kettle kitchen", bump=False) == [NEW, OLD]
    assert access_of(brain, old).dormant

    brain.recall("blue kettle")
    brain.services.journal.flush()

    awake = access_of(brain, old)
    assert (awake.dormant, awake.strength, awake.access_count) == (False, 1.0, 1)
    # One access doubles its life: after the same 24 days it is still awake.
    clock.move(timedelta(days=24))
    assert not access_of(brain, old).dormant
    # Years later nobody has removed it.
    clock.move(timedelta(days=3000))
    assert OLD in bodies(brain, "blue kettle", bump=False)
    assert brain.get(old, bump=False).state is State.ACTIVE


def test_recall_counts_an_access_of_its_best_results_only(brain: Brain) -> None:
    things = ("spoon", "cup", "plate", "bowl", "pan")
    for thing in things:
        stored(brain, f"The kitchen has a {thing}", kind="event")
    matches = brain.recall("kitchen pan", max_items=12)
    assert len(matches.items) == len(things)
    brain.services.journal.flush()
    counts = [access_of(brain, item.id).access_count for item in matches.items]
    assert counts == [1] * ACCESSES_PER_RECALL + [0] * (len(things) - ACCESSES_PER_RECALL)
    assert "pan" in (matches.items[0].headline or "")


@pytest.mark.requirement("LC-17")
def test_access_does_not_revive_an_ended_memory(brain: Brain, clock: FakeClock) -> None:
    id_ = stored(brain, OLD, kind="fact", ttl_s=60)
    clock.move(timedelta(days=24))
    brain.get(id_)
    brain.services.journal.flush()
    assert not access_of(brain, id_).is_current
    assert bodies(brain, "kettle") == []


@pytest.mark.requirement("DM-06", "LC-02")
def test_incident_unread_for_90_days_is_dormant_and_still_recalled(
    brain: Brain, clock: FakeClock
) -> None:
    old = stored(brain, "The kettle broke on a Monday", kind="incident")
    clock.move(timedelta(days=89))
    assert not access_of(brain, old).dormant
    clock.move(timedelta(days=1))
    assert access_of(brain, old).dormant
    fresh = stored(brain, "The kettle broke on a Friday", kind="incident")
    matches = brain.recall("kettle broke", bump=False).items
    assert [item.id for item in matches] == [fresh, old]
    assert matches[0].score > matches[1].score
