from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.revision import BeliefPeriod
from commonbrain.text.time_expressions.calendar import EARLIEST
from commonbrain.text.time_expressions.parser import parse_time_expression, parse_time_range

NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)
"""A Wednesday."""


def span(query: str) -> tuple[str, str] | None:
    named = parse_time_range(query, NOW)
    return named and (named[0].since.isoformat()[:16], named[0].until.isoformat()[:16])


@pytest.mark.requirement("CT-06")
def test_time_expression_is_parsed_as_a_span(subtests: pytest.Subtests) -> None:
    for phrase, since, until in [
        ("today", "2026-03-18T00:00", "2026-03-19T00:00"),
        ("yesterday", "2026-03-17T00:00", "2026-03-18T00:00"),
        ("yesterday evening", "2026-03-17T18:00", "2026-03-18T00:00"),
        ("the day before yesterday", "2026-03-16T00:00", "2026-03-17T00:00"),
        ("this morning", "2026-03-18T00:00", "2026-03-18T12:00"),
        ("last night", "2026-03-17T18:00", "2026-03-18T06:00"),
        ("3 days ago", "2026-03-15T00:00", "2026-03-16T00:00"),
        ("an hour ago", "2026-03-18T14:00", "2026-03-18T15:00"),
        ("two weeks ago", "2026-03-01T15:30", "2026-03-08T15:30"),
        ("a couple of months ago", "2026-01-01T00:00", "2026-02-01T00:00"),
        ("last 2 weeks", "2026-03-04T15:30", "2026-03-18T15:30"),
        ("past 24 hours", "2026-03-17T15:30", "2026-03-18T15:30"),
        ("last week", "2026-03-09T00:00", "2026-03-16T00:00"),
        ("last month", "2026-02-01T00:00", "2026-03-01T00:00"),
        ("this year", "2026-01-01T00:00", "2027-01-01T00:00"),
        ("last weekend", "2026-03-14T00:00", "2026-03-16T00:00"),
        ("last Wednesday", "2026-03-11T00:00", "2026-03-12T00:00"),
        ("in March 2024", "2024-03-01T00:00", "2024-04-01T00:00"),
        ("in February", "2026-02-01T00:00", "2026-03-01T00:00"),
        ("last March", "2025-03-01T00:00", "2025-04-01T00:00"),
        ("last May", "2025-05-01T00:00", "2025-06-01T00:00"),
        ("on 8 May 2023", "2023-05-08T00:00", "2023-05-09T00:00"),
        ("May 8th, 2023", "2023-05-08T00:00", "2023-05-09T00:00"),
        ("30 December", "2025-12-30T00:00", "2025-12-31T00:00"),
        ("2024-03-05", "2024-03-05T00:00", "2024-03-06T00:00"),
        ("in 2023", "2023-01-01T00:00", "2024-01-01T00:00"),
    ]:
        with subtests.test(phrase=phrase, since=since, until=until):
            assert span(f"What did we decide {phrase} about billing?") == (since, until)
            assert span(phrase.upper()) == (since, until)


def test_text_without_a_time_has_no_period(subtests: pytest.Subtests) -> None:
    for query in [
        "",
        "may I deploy?",
        "the last word",
        "port 2024",
        "99 bottles",
        "2024-13-45",
        "9999 years ago",
    ]:
        with subtests.test(query=query):
            assert span(query) is None


@pytest.mark.requirement("CT-06")
def test_bounds_and_relative_time_expressions_are_parsed(subtests: pytest.Subtests) -> None:
    for phrase, since, until in [
        ("before March 2024", "0001-01-01T00:00", "2024-03-01T00:00"),
        ("by last Friday", "0001-01-01T00:00", "2026-03-14T00:00"),
        ("after 5 March", "2026-03-06T00:00", "2026-03-18T15:30"),
        ("since Monday", "2026-03-16T00:00", "2026-03-18T15:30"),
        ("until June 2023", "0001-01-01T00:00", "2023-07-01T00:00"),
        ("between November and January 2025", "2024-11-01T00:00", "2025-02-01T00:00"),
        ("between May and July 2028", "2028-05-01T00:00", "2028-08-01T00:00"),
        ("from Monday to Wednesday", "2026-03-09T00:00", "2026-03-12T00:00"),
        ("two days before 8 May 2023", "2023-05-06T00:00", "2023-05-07T00:00"),
        ("the Friday after 8 May 2023", "2023-05-12T00:00", "2023-05-13T00:00"),
        ("in the 3 days before 8 May 2023", "2023-05-05T00:00", "2023-05-08T00:00"),
        ("last winter", "2025-12-01T00:00", "2026-03-01T00:00"),
        ("in Q2 2025", "2025-04-01T00:00", "2025-07-01T00:00"),
        ("over the past month", "2026-02-18T15:30", "2026-03-18T15:30"),
        ("on the last three Mondays", "2026-03-02T00:00", "2026-03-17T00:00"),
        ("in the last 2 working days", "2026-03-16T00:00", "2026-03-18T15:30"),
        ("yesterday at 3pm", "2026-03-17T14:30", "2026-03-17T15:30"),
        ("last night at 2 am", "2026-03-18T01:30", "2026-03-18T02:30"),
        ("late February", "2026-02-21T00:00", "2026-03-01T00:00"),
        ("in the 1990s", "1990-01-01T00:00", "2000-01-01T00:00"),
        ("yesterday and today", "2026-03-17T00:00", "2026-03-19T00:00"),
        ("on Tuesday and Monday", "2026-03-16T00:00", "2026-03-18T00:00"),
        ("yesterday and last March", "2026-03-17T00:00", "2026-03-18T00:00"),
        ("in the second week of March 2024", "2024-03-08T00:00", "2024-03-15T00:00"),
    ]:
        with subtests.test(phrase=phrase, since=since, until=until):
            assert span(f"What did we decide {phrase}, about billing?") == (since, until)


def test_range_that_ends_before_it_begins_is_its_first_period() -> None:
    range_ = span("What did we decide between May 2026 and March 2026?")
    assert range_ == ("2026-05-01T00:00", "2026-06-01T00:00")


def test_time_expression_with_a_year_takes_precedence() -> None:
    query = "What was her issue last week, as she said on 6 November 2023?"
    named = parse_time_range(query, NOW)
    assert span(query) == ("2023-11-06T00:00", "2023-11-07T00:00")
    assert named
    assert named[1] == "What was her issue last week, as she said on  ?"


DAYS = st.sampled_from(["yesterday", "last Friday", "Sunday's", "8 May 2023", "2024-02-29"])
UNITS = st.sampled_from(["last month", "in March 2024", "this year", "in 2021", "last Friday"])
WEEKDAYS = st.sampled_from(
    [
        "last Friday",
        "on Monday",
        "since Tuesday",
        "before last Sunday",
        "this Thursday",
        "last week",
    ]
)
PHRASES = st.one_of(
    DAYS,
    UNITS,
    WEEKDAYS,
    st.builds("{} {} ago".format, st.integers(1, 99), st.sampled_from(["days", "weeks", "hours"])),
    st.builds("{} days before {}".format, st.integers(1, 99), DAYS),
    st.builds("the morning of {}".format, DAYS),
    st.builds("since {}".format, DAYS),
    st.builds("between {} and {}".format, DAYS, DAYS),
)
NOWS = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 the zone is given beside


def span_of(phrase: str, now: datetime = NOW) -> BeliefPeriod:
    named = parse_time_range(phrase, now)
    assert named
    return named[0]


@given(PHRASES, NOWS)
def test_span_begins_before_it_ends(phrase: str, now: datetime) -> None:
    named = span_of(phrase, now)
    assert named.since < named.until


@given(WEEKDAYS, NOWS, st.integers(-99, 99))
def test_weekday_expressions_shift_with_the_current_week(
    phrase: str, now: datetime, weeks: int
) -> None:
    step = timedelta(weeks=weeks)
    one, other = span_of(phrase, now), span_of(phrase, now + step)
    assert other.until - one.until == step
    assert EARLIEST in {one.since, other.since} or other.since - one.since == step


@given(st.sampled_from(["early", "mid", "late", "the end of", "the first half of"]), UNITS, NOWS)
def test_part_of_a_period_lies_within_the_period(part: str, whole: str, now: datetime) -> None:
    inner, outer = span_of(f"in {part} {whole}", now), span_of(whole, now)
    assert outer.since <= inner.since < inner.until <= outer.until


@given(DAYS, NOWS)
def test_before_and_after_exclude_the_day_and_since_and_until_include_it(
    day: str, now: datetime
) -> None:
    it = span_of(day, now)
    assert span_of(f"before {day}", now).until == it.since
    assert span_of(f"until {day}", now).until == it.until
    assert span_of(f"since {day}", now).since == it.since
    assert span_of(f"after {day}", now).since == it.until


def is_lossless(query: str, rest: str) -> bool:
    """Whether the rest is the query with one stretch of it replaced by a space."""
    return any(
        query.startswith(rest[:cut]) and query.endswith(rest[cut + 1 :])
        for cut, character in enumerate(rest)
        if character == " "
    )


@given(st.text(), PHRASES, st.text())
def test_only_the_time_expression_is_removed_from_a_query(
    before: str, phrase: str, after: str
) -> None:
    query = f"{before} {phrase} {after}"
    named = parse_time_range(query, NOW)
    assert named is None or is_lossless(query, named[1])


def test_time_bound_can_be_given_in_words_or_as_iso_8601(subtests: pytest.Subtests) -> None:
    for text, first, last in [
        ("2026-03-02", "2026-03-02T00:00:00", "2026-03-02T23:59:59.999"),
        ("2026-03-02T14:05:00+02:00", "2026-03-02T12:05:00", "2026-03-02T12:05:00"),
        ("yesterday", "2026-03-17T00:00:00", "2026-03-17T23:59:59.999"),
        ("Monday", "2026-03-16T00:00:00", "2026-03-16T23:59:59.999"),
        ("last monday", "2026-03-16T00:00:00", "2026-03-16T23:59:59.999"),
        ("2 weeks ago", "2026-03-04T00:00:00", "2026-03-04T23:59:59.999"),
        ("3 hours ago", "2026-03-18T12:30:00", "2026-03-18T12:30:00"),
        ("yesterday at 15:00", "2026-03-17T15:00:00", "2026-03-17T15:00:00"),
        ("march 2024", "2024-03-01T00:00:00", "2024-03-31T23:59:59.999"),
        ("2023", "2023-01-01T00:00:00", "2023-12-31T23:59:59.999"),
        ("the summer of 2024", "2024-06-01T00:00:00", "2024-08-31T23:59:59.999"),
        ("now", "2026-03-18T15:30:00", "2026-03-18T15:30:00"),
    ]:
        with subtests.test(text=text, first=first, last=last):
            assert parse_time_expression(text, NOW) == datetime.fromisoformat(first).replace(
                tzinfo=UTC
            )
            assert parse_time_expression(text, NOW, ends=True) == datetime.fromisoformat(
                last
            ).replace(tzinfo=UTC)


def test_invalid_time_bound_is_refused_with_examples(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        "soon",
        "before march",
        "the deploy yesterday",
        "in 3 steps",
        "9999 years ago",
    ]:
        with (
            subtests.test(text=text),
            pytest.raises(InvalidInputError, match=r"2026-03-31.*2 weeks ago"),
        ):
            parse_time_expression(text, NOW)


@given(st.text() | st.text("0123456789 -maylstweekgo,"))
def test_arbitrary_text_is_parsed_without_an_error(query: str) -> None:
    named = parse_time_range(query, NOW)
    assert named is None or named[0].since < named[0].until
