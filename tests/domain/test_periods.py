from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.domain.periods import period_of

NOW = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)
"""A Wednesday."""


def told(query: str) -> tuple[str, str] | None:
    named = period_of(query, NOW)
    return named and (named[0].since.isoformat()[:16], named[0].until.isoformat()[:16])


@pytest.mark.requirement("CT-06")
@pytest.mark.parametrize(
    ("phrase", "since", "until"),
    [
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
    ],
)
def test_a_phrase_of_time_is_a_span(phrase: str, since: str, until: str) -> None:
    assert told(f"What did we decide {phrase} about billing?") == (since, until)
    assert told(phrase.upper()) == (since, until)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "may I deploy?",
        "the last word",
        "port 2024",
        "99 bottles",
        "2024-13-45",
        "9999 years ago",
    ],
)
def test_what_names_no_time_is_none(query: str) -> None:
    assert told(query) is None


@given(st.text() | st.text("0123456789 -maylstweekgo,"))
def test_any_text_is_read_without_complaint(query: str) -> None:
    named = period_of(query, NOW)
    assert named is None or named[0].since < named[0].until
