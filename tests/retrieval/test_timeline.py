"""When it happened comes before when it was learnt; what was believed then is another question."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.recall_result import Order
from commonbrain.testing.builders import FakeClock
from commonbrain.text.tokens import estimate
from tests.asking import bodies, stored

DAY = timedelta(days=1)
FIRST = "The deploy of the shop failed on the staging host"
SECOND = "The deploy of the shop was rolled back"
THIRD = "The deploy of the shop went through"
# The fixture is one store for all examples: they only read it.
READ_ONLY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def story(brain: Brain, clock: FakeClock) -> Brain:
    """Three events on two days, learnt in another order than they happened in."""
    for text, days in ((THIRD, 1.0), (FIRST, 3.5), (SECOND, 3.0)):
        stored(brain, text, kind="event", occurred_at=clock.now() - days * DAY)
        clock.move(timedelta(minutes=1))
    return brain


def test_timeline_is_in_the_order_of_occurrence(story: Brain) -> None:
    for query in ("", "deploy of the shop"):
        answer = story.recall(query, order="timeline")
        assert [item.body for item in answer.items] == [FIRST, SECOND, THIRD]
        assert answer.order is Order.TIMELINE
        assert answer.evidence.index(FIRST) < answer.evidence.index(THIRD)


def test_timeline_has_the_same_memories_as_ranked_results(story: Brain) -> None:
    assert bodies(story, "staging host", max_items=1, order="timeline") == [FIRST]
    assert bodies(story, max_items=2, order="timeline") == [SECOND, THIRD]
    assert bodies(story, max_items=2) == [THIRD, SECOND]


def test_timeline_respects_time_filters(story: Brain, clock: FakeClock) -> None:
    assert bodies(story, order="timeline", since=clock.now() - 2 * DAY) == [THIRD]
    assert bodies(story, order="timeline", until="2 days ago") == [FIRST, SECOND]


def test_unknown_order_is_refused(story: Brain) -> None:
    with pytest.raises(InvalidInputError, match="timeline"):
        story.recall(order="random")


@READ_ONLY
@given(max_tokens=st.integers(64, 400), max_items=st.integers(1, 100))
def test_timeline_respects_its_budget(story: Brain, max_tokens: int, max_items: int) -> None:
    answer = story.recall(
        "deploy of the shop", order="timeline", max_tokens=max_tokens, max_items=max_items
    )
    assert estimate(answer.evidence) <= answer.tokens <= max_tokens


def test_latest_occurrence_is_newest_whenever_it_was_stored(story: Brain) -> None:
    assert bodies(story) == [THIRD, SECOND, FIRST]


def test_last_stored_of_simultaneous_events_is_newest(brain: Brain, clock: FakeClock) -> None:
    then = clock.now() - DAY
    for text in (FIRST, SECOND):
        stored(brain, text, kind="event", occurred_at=then)
        clock.move(timedelta(minutes=1))
    assert bodies(brain) == [SECOND, FIRST]
    assert bodies(brain, order="timeline") == [FIRST, SECOND]


def test_later_occurrence_of_two_equal_matches_is_first(brain: Brain, clock: FakeClock) -> None:
    late, early = "Build 7 of the shop is green", "Build 8 of the shop is green"
    stored(brain, late, kind="event", occurred_at=clock.now() - DAY)
    clock.move(timedelta(minutes=1))
    stored(brain, early, kind="event", occurred_at=clock.now() - 30 * DAY)
    assert bodies(brain, "is the build of the shop green?")[0] == late


@pytest.mark.requirement("CT-06", "RT-16")
def test_time_expression_refers_to_occurrence_and_not_to_recording(
    brain: Brain, clock: FakeClock
) -> None:
    stored(brain, FIRST, kind="event", occurred_at=clock.now() - 9 * DAY)
    assert bodies(brain, "what happened today?") == []
    assert bodies(brain, "what happened 9 days ago?") == [FIRST]
    assert bodies(brain, since="yesterday") == []
    assert bodies(brain, since="2 weeks ago", until="a week ago") == [FIRST]


@pytest.mark.requirement("PV-08")
def test_time_expression_is_relative_to_the_as_of_time(brain: Brain, clock: FakeClock) -> None:
    clock.move(datetime(2026, 3, 18, 15, tzinfo=UTC) - clock.now())
    stored(brain, FIRST, kind="event", occurred_at=datetime(2026, 3, 17, 9, tzinfo=UTC))
    clock.move(90 * DAY)
    stored(brain, SECOND, kind="event", occurred_at=clock.now() - DAY)
    assert bodies(brain, "what happened yesterday?") == [SECOND]
    assert bodies(brain, "what happened yesterday?", as_of="2026-03-18") == [FIRST]
    assert bodies(brain, "what happened yesterday?", as_of="18 March 2026") == [FIRST]


@pytest.mark.requirement("PV-04", "PV-08")
def test_as_of_filters_by_belief_and_not_by_occurrence(brain: Brain, clock: FakeClock) -> None:
    start = clock.now()
    stored(brain, FIRST, kind="event", occurred_at=start - 30 * DAY)
    assert bodies(brain, as_of=start - 20 * DAY) == []
    assert bodies(brain, as_of=start) == [FIRST]


@pytest.mark.requirement("PV-04", "PV-08")
def test_as_of_follows_a_chain_that_was_superseded_and_restored(
    brain: Brain, clock: FakeClock
) -> None:
    eight, nine = "The API listens on port 8080", "The API listens on port 9090"
    start = clock.now()
    first = stored(brain, eight, kind="fact")
    clock.move(2 * DAY)
    second = brain.revise.supersede(first, nine, reason="moved").id or ""
    clock.move(2 * DAY)
    brain.revise.supersede(second, "The API listens on port 1", reason="a slip")
    clock.move(2 * DAY)
    brain.revise.restore(second, reason="that was a slip")
    clock.move(2 * DAY)
    # What was forgotten is not told of, even where it was believed.
    believed = {1: [eight], 3: [nine], 5: [], 7: [nine]}
    for days, those in believed.items():
        assert bodies(brain, "port of the API", as_of=start + days * DAY) == those
    assert bodies(brain, "port of the API", as_of="3 days ago") == []
    assert bodies(brain, "port of the API", as_of="yesterday") == [nine]


def test_undo_accepts_a_time_in_words(brain: Brain, clock: FakeClock) -> None:
    stored(brain, FIRST, kind="event")
    clock.move(3 * DAY)
    stored(brain, SECOND, kind="event")
    assert brain.undo(since="2 days ago", reason="a slip").count == 1
    assert brain.undo(since="last week", until="2 days ago", reason="a slip").count == 1
    brain.undo(since="2 days ago", reason="a slip", confirm=1)
    assert bodies(brain) == [FIRST]


def test_error_of_a_wrong_bound_lists_the_accepted_forms(brain: Brain) -> None:
    with pytest.raises(InvalidInputError, match="'soon' is not a time"):
        brain.recall(since="soon")
    with pytest.raises(InvalidInputError, match="words, such as yesterday"):
        brain.forget(reason="x", until="whenever")
    with pytest.raises(InvalidInputError, match="is not a time"):
        brain.undo(reason="x", since="before march")
