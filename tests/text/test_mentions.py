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
        ("The contract was signed on 12 March 2024.", ["2024-03-12"]),
        ("The lease runs until 31 May 2027.", ["2027-05-31"]),
        ("The vet comes a week from today.", ["2026-03-25"]),
        ("We start in June.", ["2026-06-01 to 2026-06-30"]),
        ("At the start of June we move.", ["2026-06-01 to 2026-06-10"]),
        ("The fair is from 23 to 27 March.", ["2026-03-23 to 2026-03-27"]),
        ("The fair is 12-14 May.", ["2026-05-12 to 2026-05-14"]),
    ]:
        with subtests.test(text=text):
            assert days(text) == expected


@pytest.mark.requirement("DM-30")
def test_verb_of_the_same_clause_says_whether_a_date_is_over(subtests: pytest.Subtests) -> None:
    for text, expected in [
        ("We found the leak on 12 March.", ["2026-03-12"]),
        ("Ann came back on 4 February.", ["2026-02-04"]),
        ("Ann said on Monday that she will leave.", ["2026-03-16"]),
        ("Ann said she leaves on Friday.", ["2026-03-20"]),
        ("On Monday Ann said that Bob leaves on Friday.", ["2026-03-16", "2026-03-20"]),
        ("Ann told us the door broke on Monday.", ["2026-03-16"]),
        ("We agreed on 2 March to ship.", ["2026-03-02"]),
        ("Ann put the box there on Monday.", ["2026-03-16"]),
        ("Put the bins out on Friday.", ["2026-03-20"]),
        ("We will put the bins out on Friday.", ["2026-03-20"]),
        ("The invoice from 2 February is unpaid.", ["2026-02-02"]),
        ("The build from 12 March is broken.", ["2026-03-12"]),
        ("The lease runs from 1 June.", ["2026-06-01"]),
        ("The fee applies effective from Monday.", ["2026-03-23"]),
        ("Bob ordered parts on Monday, they come on Friday.", ["2026-03-16", "2026-03-20"]),
        ("Bob paid on Monday and they deliver on Friday.", ["2026-03-16", "2026-03-20"]),
        ("The flood was on Monday, the fire on Tuesday.", ["2026-03-16", "2026-03-17"]),
        ("It was paid by Bob, the owner of the shop, on Monday.", ["2026-03-16"]),
        ("Bob paid on Monday, the new keys come on Friday.", ["2026-03-16", "2026-03-20"]),
        ("On Monday, the oven door broke.", ["2026-03-16"]),
        ("The trial ended; billing starts on 1 April.", ["2026-04-01"]),
        ("We ship on Monday; the bug was found on Friday.", ["2026-03-23", "2026-03-13"]),
    ]:
        with subtests.test(text=text):
            assert days(text) == expected


@pytest.mark.requirement("DM-30")
def test_what_is_moved_has_an_old_and_a_new_date(subtests: pytest.Subtests) -> None:
    for text, expected in [
        ("The demo was moved from Tuesday to Thursday.", ["2026-03-17", "2026-03-19"]),
        ("We postponed the demo from Friday to Monday.", ["2026-03-20", "2026-03-23"]),
        ("The launch shifted from 2 April to 9 April.", ["2026-04-02", "2026-04-09"]),
        ("The demo was moved from 12 to 19 May.", ["2026-05-19"]),
        ("We pushed the release on Friday.", ["2026-03-13"]),
        ("The workshop moved to 3-5 May.", ["2026-05-03 to 2026-05-05"]),
    ]:
        with subtests.test(text=text):
            assert days(text) == expected
    assert date_marks("The demo was moved from Tuesday to Thursday.", NOW)[:2] == [
        "@2026-03-17",
        "@2026-03-19",
    ]


def test_every_day_of_a_period_is_marked_but_of_a_long_one_the_first() -> None:
    assert date_marks("The fair is from 23 to 27 March.", NOW) == [
        f"@2026-03-{day}" for day in range(23, 28)
    ]
    assert date_marks("The archive is from 2019 to 2021.", NOW) == ["@2019-01-01"]
    many = "; ".join(f"the fair is in {month} 2027" for month in ("May", "June", "July", "August"))
    marks = date_marks(f"Note: {many}.", NOW)
    assert len(marks) == len(set(marks)) == 62
    assert {"@2027-05-01", "@2027-06-01", "@2027-07-01", "@2027-08-01"} <= set(marks)


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
    assert {"@2026-03-27", "@2026-06-03"} < set(marks)
    assert {f"@2026-03-{day:02}" for day in range(9, 16)} < set(marks)
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
        "moved from Monday to Friday ",
        ", they on Monday",
        "a",
    ]:
        with subtests.test(unit=unit):
            started = process_time()
            mentions_in((unit * TEXT_BYTES_MAX)[:TEXT_BYTES_MAX], NOW)
            assert process_time() - started < 2
