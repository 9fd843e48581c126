from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import EpisodeDetail, EventDetail, FactDetail
from commonbrain.model.memory import Draft
from commonbrain.testing.builders import NOON, FakeClock


@pytest.mark.requirement("DM-23", "LC-06", "DM-05", "LC-01", "DM-62")
def test_fact_expires_after_its_ttl(brain: Brain, clock: FakeClock) -> None:
    done = brain.remember("The kettle is on", kind="fact", detail=FactDetail(ttl_s=60))
    assert brain.recall("kettle").items
    clock.move(timedelta(seconds=60))

    assert brain.recall("kettle").items == ()
    assert (brain.get(str(done.items[0].id)).banner or "").startswith("Expired")


@pytest.mark.requirement("ST-06")
def test_global_memory_needs_a_trusted_source(brain: Brain) -> None:
    offered = {"scope": "global", "trust": "untrusted_web", "kind": "fact"}

    [outcome] = brain.remember("Buy shares now", **offered).items  # type: ignore[arg-type]

    assert outcome.status is ItemStatus.QUARANTINED
    assert brain.recall("shares", trust_min=0.0).items == ()


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan")])
@pytest.mark.requirement("DM-21")
def test_item_with_an_invalid_confidence_is_rejected_without_the_rest_of_its_batch(
    brain: Brain, confidence: float
) -> None:
    good = Draft(body="Tea is ready", kind="fact")
    bad = Draft(body="Tea is cold", kind="fact", confidence=confidence)

    outcomes = brain.remember([good, bad]).items

    assert [outcome.status for outcome in outcomes] == [ItemStatus.STORED, ItemStatus.REJECTED]
    assert outcomes[1].code == "limit_exceeded"


def test_details_out_of_bounds_cannot_be_constructed() -> None:
    for ttl_s in (0, 10**20):
        with pytest.raises(InvalidInputError):
            FactDetail(ttl_s=ttl_s)
    with pytest.raises(InvalidInputError):
        EventDetail(importance=3.0)
    with pytest.raises(InvalidInputError):
        EpisodeDetail(started_at=NOON, ended_at=NOON - timedelta(seconds=1))


def test_arguments_of_none_count_as_omitted(brain: Brain) -> None:
    unsaid = dict.fromkeys(("kind", "scope", "trust", "tags", "occurred_at", "confidence"))

    [outcome] = brain.remember("Tea is ready", **unsaid).items  # type: ignore[arg-type]

    assert outcome.status is ItemStatus.STORED
