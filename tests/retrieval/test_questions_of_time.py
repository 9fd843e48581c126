"""A question for a time alone is answered by that time; a timeline shows every occurrence."""

from datetime import UTC, datetime, timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.recall_result import RecallResult, ResultStatus
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, remember_one, stored

DAY = timedelta(days=1)
NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)
OLD = "What happened yesterday is in the review of last week, with all news and updates"
YESTERDAY = ["The ferry left late", "Keys are kept in the harbour office"]
TODAY = "The crane is repaired"


@pytest.fixture
def days(brain: Brain, clock: FakeClock) -> Brain:
    """A note with the words of the questions, forty days old, and three newer ones."""
    clock.move(NOW - 40 * DAY - clock.now())
    stored(brain, OLD, kind="fact")
    clock.move(39 * DAY - timedelta(hours=2))
    stored(brain, YESTERDAY[1], kind="fact")
    clock.move(timedelta(hours=1))
    stored(brain, YESTERDAY[0], kind="event")
    clock.move(DAY)
    stored(brain, TODAY, kind="incident")
    clock.move(NOW - clock.now())
    return brain


@pytest.mark.requirement("CT-06", "RT-16")
def test_query_for_a_time_alone_returns_memories_of_that_time_newest_first(
    days: Brain, subtests: pytest.Subtests
) -> None:
    for question in (
        "What happened yesterday?",
        "what happened with things yesterday",
        "standup: yesterday",
        "Catch me up on yesterday, please",
        "any news or updates from 17 March?",
        "a summary of everything that took place on Tuesday",
    ):
        with subtests.test(question=question):
            answer = days.recall(question)
            assert [item.body for item in answer.items] == YESTERDAY
            assert answer.verdict is ResultStatus.FOUND


def test_filter_can_give_the_time_of_a_query(days: Brain) -> None:
    assert bodies(days, "what changed?", since="yesterday", until="yesterday") == YESTERDAY


def test_two_days_in_a_query_are_one_period(days: Brain) -> None:
    assert bodies(days, "What happened yesterday and today?") == [TODAY, *YESTERDAY]
    assert bodies(days, "What happened today or yesterday?") == [TODAY, *YESTERDAY]


def test_filters_narrow_the_time_of_a_query(days: Brain) -> None:
    query = "What happened in the last three days?"
    assert bodies(days, query, kinds=["event"]) == YESTERDAY[:1]
    assert bodies(days, query, since="today") == [TODAY]
    assert bodies(days, query, until="a week ago") == []
    assert bodies(days, query, order="timeline") == [*reversed(YESTERDAY), TODAY]
    assert bodies(days, "What happened today?", as_of="17 March 2026") == YESTERDAY


def test_query_for_a_time_without_memories_returns_no_match(days: Brain, clock: FakeClock) -> None:
    nothing = days.recall("What happened on 2 March?")
    assert (nothing.items, nothing.verdict) == ((), ResultStatus.BELOW_THRESHOLD)
    clock.move(DAY)
    assert days.recall("anything new today?").verdict is ResultStatus.BELOW_THRESHOLD


def test_query_for_a_time_in_an_empty_store_reports_an_empty_store(brain: Brain) -> None:
    assert brain.recall("What happened yesterday?").verdict is ResultStatus.NOTHING_STORED


def test_time_in_a_query_with_a_topic_is_a_preference(days: Brain, clock: FakeClock) -> None:
    early, late = "The crane was stuck in the morning", "The crane was stuck at night"
    stored(days, late, kind="event", occurred_at=clock.now() - 9 * DAY)
    stored(days, early, kind="event", occurred_at=clock.now() - 10 * DAY)
    results = bodies(days, "Was the crane stuck 10 days ago?")
    assert results[0] == early
    assert late in results


def test_equal_match_within_the_period_ranks_first(brain: Brain, clock: FakeClock) -> None:
    clock.move(NOW - clock.now())
    for number, days in ((7, 0.6), (8, 1.0), (9, 1.7)):
        stored(brain, f"Build {number} broke", kind="event", occurred_at=NOW - days * DAY)
    assert bodies(brain, "which build broke yesterday?")[0] == "Build 8 broke"


def test_query_for_the_future_returns_memories_that_name_it(days: Brain) -> None:
    plan = "Tomorrow the gate is painted"
    stored(days, plan, kind="fact")
    assert plan in bodies(days, "anything tomorrow?")


def test_proactive_recall_does_not_list_memories_of_a_time(days: Brain) -> None:
    assert not days.recall("What happened yesterday?", proactive=True).items


def test_each_day_of_a_busy_period_has_its_share_of_results(brain: Brain, clock: FakeClock) -> None:
    clock.move(NOW - clock.now())
    for day in range(1, 6):
        for number in range(8):
            at = NOW - day * DAY + timedelta(minutes=number)
            stored(brain, f"Note {'abcdefgh'[number]}{day}", kind="event", occurred_at=at)
        fire = f"Fire in hall {day}"
        stored(brain, fire, kind="incident", occurred_at=NOW - day * DAY - timedelta(hours=1))
    results = bodies(brain, "What happened in the last week?", max_items=10)
    assert [one for one in results if str(one).startswith("Fire")] == [
        f"Fire in hall {day}" for day in range(1, 6)
    ]
    assert [str(one)[-1] for one in results] == ["1", "1", "2", "2", "3", "3", "4", "4", "5", "5"]


def dates(answer: RecallResult) -> list[str]:
    return [f"{item.occurred_at:%m-%d}" for item in answer.items]


OUTAGE = "The checkout is down"
DATES = ["02-01", "02-09", "02-20", "03-11"]


@pytest.mark.parametrize("kind", ["incident", "message", "event"])
@pytest.mark.parametrize("is_dated", [True, False])
def test_timeline_shows_the_same_text_of_four_dates_four_times(
    brain: Brain, clock: FakeClock, subtests: pytest.Subtests, *, kind: str, is_dated: bool
) -> None:
    times = [datetime.fromisoformat(f"2026-{date}T10:00").replace(tzinfo=UTC) for date in DATES]
    clock.move((NOW if is_dated else times[0]) - clock.now())
    for at in times:
        if not is_dated:
            clock.move(at - clock.now())
        brain.remember(OUTAGE, kind=kind, occurred_at=at if is_dated else None)
    clock.move(NOW - clock.now())
    for query in ("checkout down", "", "What happened since January?"):
        with subtests.test(query=query):
            answer = brain.recall(query, order="timeline")
            assert [item.body for item in answer.items] == [OUTAGE] * 4
            assert dates(answer) == DATES
    assert len(brain.recall("checkout down").items) == 1


def test_recurring_event_is_recalled_by_each_of_its_times(brain: Brain, clock: FakeClock) -> None:
    id_ = stored(brain, "The export failed", kind="event")
    for _ in range(2):
        clock.move(7 * DAY)
        assert remember_one(brain, "The export failed", kind="event").status is ItemStatus.EXISTS
    clock.move(DAY)
    assert dates(brain.recall("What happened yesterday?")) == ["03-16"]
    assert dates(brain.recall("What happened on 9 March?")) == ["03-09"]
    assert dates(brain.recall("What happened on 2 March?")) == ["03-02"]
    assert dates(brain.recall("did the export fail on 9 March?")) == ["03-09"]
    assert dates(brain.recall("export failed", since="2026-03-05")) == ["03-16"]
    assert dates(brain.recall("export failed", since="2026-03-05", until="2026-03-15")) == ["03-09"]
    assert dates(brain.recall("export failed", since="2026-03-10", until="2026-03-15")) == []
    assert dates(brain.recall("export", order="timeline", since="2026-03-05")) == ["03-09", "03-16"]
    assert dates(brain.recall("export", order="timeline", as_of="2026-03-10")) == ["03-02", "03-09"]
    assert dates(brain.recall("export", order="timeline", kinds=["fact"])) == []
    answer = brain.recall("export", order="timeline")
    logged = brain.recalls.one(answer.trace_id)
    assert [one.id for one in logged.candidates or ()] == [id_]
    assert (len(answer.items), logged.packed) == (3, 1)


def test_occurrences_that_do_not_fit_are_counted_as_omitted(brain: Brain, clock: FakeClock) -> None:
    for _ in range(5):
        brain.remember("The export failed", kind="event")
        clock.move(DAY)
    answer = brain.recall("export", order="timeline", max_items=2)
    assert dates(answer) == ["03-05", "03-06"]
    assert (answer.omitted.count, answer.omitted.ids) == (3, ())


def test_recurrence_counts_once_and_not_after_an_undo(brain: Brain, clock: FakeClock) -> None:
    stored(brain, "The export took 10 minutes", kind="event")
    clock.move(DAY)
    stored(brain, "The export took 11 minutes", kind="event")
    clock.move(DAY)
    remember_one(brain, "The export took 10 minutes", kind="event")
    assert dates(brain.recall("export", order="timeline")) == ["03-02", "03-03", "03-04"]
    brain.undo(since="an hour ago", reason="a slip", confirm=1)
    assert dates(brain.recall("export", order="timeline")) == ["03-02", "03-03"]
    assert dates(brain.recall("What happened today?")) == []


def test_event_remembered_twice_with_the_same_time_did_not_recur(brain: Brain) -> None:
    at = "2026-03-01T10:00"
    id_ = stored(brain, "The export failed", kind="event", occurred_at=at)
    again = remember_one(brain, "The export failed", kind="event", occurred_at=at)
    assert (again.status, brain.get(id_).detail["recurrences"]) == (ItemStatus.EXISTS, 0)
    assert dates(brain.recall("export", order="timeline")) == ["03-01"]


@pytest.mark.requirement("CT-06")
def test_date_that_a_memory_mentions_is_shown_and_answers_a_question_for_it(
    brain: Brain, clock: FakeClock, subtests: pytest.Subtests
) -> None:
    clock.move(NOW - clock.now())
    outage = "Last Tuesday the DNS flip caused 20 minutes of downtime."
    stored(brain, outage, kind="incident")
    stored(brain, "The pentest is scheduled for 2026-12-03.", kind="event")
    stored(brain, "The rehearsal is next Friday.", kind="fact")
    clock.move(2 * DAY)
    stored(brain, "The kettle is blue", kind="fact")
    for question, text in [
        ("what happened on Tuesday", outage),
        ("december 3", "The pentest is scheduled for 2026-12-03."),
        ("what happened on 27 March", "The rehearsal is next Friday."),
    ]:
        with subtests.test(question=question):
            assert bodies(brain, question) == [text]
    [item] = brain.recall("what happened on Tuesday").items
    assert (item.occurred_at, item.notes) == (NOW, ('"Last Tuesday": 2026-03-17',))
    planned = bodies(brain, "Which appointments do we have on 27 March 2026?")
    assert "The rehearsal is next Friday." in planned


def test_dates_that_are_mentioned_do_not_pass_a_filter_of_the_time(
    brain: Brain, clock: FakeClock
) -> None:
    clock.move(NOW - clock.now())
    stored(brain, "We froze the schema yesterday.", kind="event")
    assert bodies(brain, "what changed?", since="yesterday", until="yesterday") == []
    secret = brain.acting_as(agent="bo")
    stored(brain, "I sold the boat yesterday.", kind="event", scope="private")
    assert bodies(secret, "what happened yesterday") == ["We froze the schema yesterday."]
