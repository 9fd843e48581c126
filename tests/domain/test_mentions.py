"""The dates that statements mention, read from when they were made."""

from datetime import UTC, datetime, timedelta
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.model.revision import BeliefPeriod
from commonbrain.text.time_expressions.mentions import (
    date_marks,
    marks_of,
    mentions_in,
    notes_in,
    time_notes,
)

NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)
"""A Wednesday."""


def days(text: str) -> list[str]:
    return [one.days for one in mentions_in(text, NOW)]


@pytest.mark.requirement("DM-30")
def test_date_in_a_statement_is_past_or_to_come_by_its_tense(subtests: pytest.Subtests) -> None:
    for text, expected in [
        ("The rehearsal is on Monday.", ["2026-03-23"]),
        ("On Monday the oven door broke.", ["2026-03-16"]),
        ("He said that the demo is on Friday.", ["2026-03-20"]),
        ("The lesson was moved to Thursday.", ["2026-03-19"]),
        ("Deadline: Friday. The flood was in January.", ["2026-03-20", "2026-01-01 to 2026-01-31"]),
        ("The rent goes up in January.", ["2027-01-01 to 2027-01-31"]),
        ("The minutes of 4 March have two pages.", ["2026-03-04"]),
        ("They are to be swapped by the end of May.", ["2026-05-21 to 2026-05-31"]),
        (
            "The fair opens in two weeks, and closes a month from now.",
            ["2026-04-01", "2026-04-01 to 2026-04-30"],
        ),
        ("Talks start next week.", ["2026-03-23 to 2026-03-29"]),
        ("Invoices go out by the end of the month.", ["2026-03-21 to 2026-03-31"]),
        (
            "The boiler failed on Tuesday night, and on 2026-02-03 at 00:10.",
            ["2026-03-17", "2026-02-03"],
        ),
        ("Since last Thursday the lift stops between floors.", ["2026-03-12"]),
        ("Is the demo on Friday?", []),
    ]:
        with subtests.test(text=text):
            assert days(text) == expected


@pytest.mark.requirement("DM-30")
def test_habits_durations_and_names_are_no_dates(
    subtests: pytest.Subtests,
) -> None:
    for text in [
        "We meet every Friday at ten, and on Mondays.",
        "Never deploy on Friday.",
        "The course has moved to Tuesday afternoons.",
        "May the build pass; march on with the migration.",
        "The last item is the next step.",
        "The painters did the hall in two weeks.",
        "Sessions expire in 14 days, retries happen in 5 seconds.",
        "It can be built in a week.",
        "Backups are kept for the last 30 days.",
        "The Friday report counts orders.",
        "Sun Microsystems, August Strindberg and April O'Neil.",
    ]:
        with subtests.test(text=text):
            assert days(text) == []


def test_notes_say_which_day_is_meant_unless_the_text_says_it_or_it_is_the_same() -> None:
    text = "Today we agreed: the demo is next Friday, the audit on 3 June, see last week."
    assert time_notes(text, NOW) == (
        '"next Friday": 2026-03-27',
        '"last week": 2026-03-09 to 2026-03-15',
    )
    assert time_notes("The bridge will be closed on Monday.", NOW) == ('"Monday": 2026-03-23',)
    assert not time_notes("Rubbish is collected on Tuesday morning.", NOW)
    marks = date_marks(text, NOW)
    assert marks[:3] == ["@2026-03-09", "@2026-03-27", "@2026-06-03"]
    assert tuple(notes_in(marks)) == time_notes(text, NOW)


@given(st.integers(0, 36_500), st.integers(1, 12))
def test_mentioned_day_is_found_in_every_period_around_it(day: int, count: int) -> None:
    now = datetime(1990, 1, 1, 12, tzinfo=UTC) + timedelta(days=day)
    [mention] = mentions_in(f"The ewes came {count} days ago.", now)
    since, until = mention.span.since - timedelta(days=day % 7), mention.span.until
    mark, _ = date_marks(f"The ewes came {count} days ago.", now)
    assert mark in marks_of(BeliefPeriod(since=since, until=until))
    assert not marks_of(BeliefPeriod(since=until - timedelta(days=200), until=until))


def test_hostile_text_is_read_in_linear_time(subtests: pytest.Subtests) -> None:
    for unit in [
        "in two weeks ",
        "on Friday ",
        "was ",
        "end of the ",
        "3 May ",
        "to Monday\n",
        "a",
    ]:
        with subtests.test(unit=unit):
            started = process_time()
            mentions_in((unit * TEXT_BYTES_MAX)[:TEXT_BYTES_MAX], NOW)
            assert process_time() - started < 2
