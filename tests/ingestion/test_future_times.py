"""Times in the future: accepted, kept and warned of, but never newer than a later correction."""

from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.memory import CLOCK_TOLERANCE, effective_time
from commonbrain.testing.builders import NOON, FakeClock
from tests.asking import remember_one, stored

CLAIM = "The database of the shop listens on port 5432"
CORRECTION = "The database of the shop now listens on port 5433"


@pytest.mark.parametrize("at", ["2099-01-01", "2026-03-03T00:00:00Z", "9999-12-31"])
def test_memory_with_a_future_time_is_corrected_by_a_later_one(
    brain: Brain, clock: FakeClock, at: str
) -> None:
    claim = remember_one(brain, CLAIM, kind="fact", occurred_at=at)
    clock.move(timedelta(minutes=1))
    correction = remember_one(brain, CORRECTION, kind="fact")

    assert claim.status is ItemStatus.STORED
    assert any("in the future" in one for one in claim.warnings)
    assert [one.id for one in correction.changes] == [claim.id]
    recalled = brain.recall("which port does the database of the shop listen on?")
    assert recalled.items[0].id == correction.id
    assert f"changed by {correction.id}" in recalled.evidence
    listed = brain.recall("", max_items=2).items
    assert [one.id for one in listed] == [correction.id, claim.id]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.timedeltas(min_value=timedelta(days=-400), max_value=timedelta(days=400)))
def test_effective_time_is_never_after_recording_by_more_than_clocks_differ(
    distance: timedelta,
) -> None:
    given_time = NOON + distance
    effective = effective_time(given_time, now=NOON)

    assert effective <= NOON + CLOCK_TOLERANCE
    assert effective in {given_time, NOON}
    assert effective_time(effective, now=NOON) == effective


def test_plan_is_found_by_its_day_and_stored_once(brain: Brain) -> None:
    text = "The registry moves to the new host"
    plan = remember_one(brain, text, kind="event", occurred_at="2026-03-20T09:00:00Z")
    again = remember_one(brain, text, kind="event", occurred_at="2026-03-20T09:00:00Z")
    other = remember_one(brain, text, kind="event", occurred_at="2026-03-27T09:00:00Z")

    assert (again.status, again.id) == (ItemStatus.EXISTS, plan.id)
    assert other.status is ItemStatus.STORED
    item = brain.recall("what happens with the registry on 2026-03-20?").items[0]
    assert item.id == plan.id
    assert "planned for 2026-03-20" in brain.recall("registry on 2026-03-20").evidence


def test_words_for_a_later_day_are_no_future_time(brain: Brain) -> None:
    plan = remember_one(brain, "The migration of the registry is on 2027-03-01", kind="fact")

    assert not any("future" in one for one in plan.warnings)
    assert times_of(brain) == "none is in the future"


def times_of(brain: Brain) -> str:
    return next(one.detail for one in brain.doctor().findings if one.check == "times")


def test_doctor_names_memories_of_the_future_until_their_time(
    brain: Brain, clock: FakeClock
) -> None:
    plan = stored(brain, "The registry moves", kind="event", occurred_at="2026-03-20")
    assert plan in times_of(brain)
    clock.move(datetime.fromisoformat("2026-03-21T00:00:00Z") - clock.now())
    assert times_of(brain) == "none is in the future"


def test_doctor_names_what_a_wrong_clock_wrote_and_supersede_corrects_it(
    brain: Brain, clock: FakeClock
) -> None:
    clock.move(timedelta(days=3650))
    wrong = stored(brain, CLAIM, kind="fact")
    clock.move(timedelta(days=-3650))

    assert times_of(brain).startswith(f"1 in the future: {wrong} (2036-")
    brain.revise.supersede(wrong, CORRECTION, reason="the clock was wrong")
    assert times_of(brain) == "none is in the future"
    assert [one.body for one in brain.recall("database port").items] == [CORRECTION]
