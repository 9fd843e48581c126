from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.timestamps import from_millis, parse_instant, show_instant, to_millis, to_utc

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
INSTANTS = st.datetimes(
    min_value=datetime(1900, 1, 2),  # noqa: DTZ001 the zone is drawn beside it
    max_value=datetime(2109, 1, 1),  # noqa: DTZ001
    timezones=ZONES,
)


@given(INSTANTS)
def test_instant_survives_storage_to_the_millisecond(instant: datetime) -> None:
    stored = to_utc(instant)
    assert from_millis(to_millis(stored)) == stored
    assert timedelta(0) <= instant - stored < timedelta(milliseconds=1)


@given(INSTANTS)
def test_instant_is_parsed_from_its_displayed_form(instant: datetime) -> None:
    assert parse_instant(show_instant(to_utc(instant))) == to_utc(instant)


@given(INSTANTS, INSTANTS)
def test_stored_instants_sort_in_their_order(one: datetime, other: datetime) -> None:
    assert (to_millis(one) <= to_millis(other)) or one > other


def test_time_without_a_zone_is_read_as_utc() -> None:
    assert parse_instant("2026-03-02T14:05:00") == datetime(2026, 3, 2, 14, 5, tzinfo=UTC)


def test_time_with_a_zone_is_converted_to_utc() -> None:
    assert parse_instant("2026-03-02T14:05:00+02:00") == datetime(2026, 3, 2, 12, 5, tzinfo=UTC)


def test_date_is_read_as_the_start_or_on_request_the_end_of_its_day() -> None:
    assert parse_instant("2026-03-02") == datetime(2026, 3, 2, tzinfo=UTC)
    end = parse_instant("2026-03-02", ends_day=True)
    assert end + timedelta(milliseconds=1) == datetime(2026, 3, 3, tzinfo=UTC)


def test_instants_are_displayed_to_the_second_or_with_their_milliseconds() -> None:
    assert show_instant(datetime(2026, 3, 2, tzinfo=UTC)) == "2026-03-02T00:00:00Z"
    assert show_instant(datetime(2026, 3, 2, 0, 0, 0, 5000, UTC)) == "2026-03-02T00:00:00.005Z"


def test_invalid_time_is_refused_with_an_example(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        "soon",
        "2026-13-01",
        "2026-02-30",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59-14:00",
    ]:
        with subtests.test(text=text), pytest.raises(InvalidInputError, match="2026-03-31"):
            parse_instant(text)


@given(st.text(max_size=40), st.booleans())
def test_arbitrary_text_is_parsed_or_refused_as_a_time(text: str, ends_day: bool) -> None:  # noqa: FBT001
    with suppress(InvalidInputError):
        assert parse_instant(text, ends_day=ends_day).tzinfo is UTC
