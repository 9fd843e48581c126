"""Timestamps: aware UTC inside, ISO 8601 outside, whole milliseconds in the store."""

from datetime import UTC, date, datetime, timedelta

from commonbrain.model.errors import InvalidInputError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(given: datetime | str, *, ends_day: bool = False) -> datetime:
    """Convert a datetime or ISO 8601 text to aware UTC in whole milliseconds.

    Raises:
        InvalidInputError: the text is not an ISO 8601 date or time.

    """
    return parse_instant(given, ends_day=ends_day) if isinstance(given, str) else to_utc(given)


def to_utc(time: datetime) -> datetime:
    """Interpret a naive time as UTC and convert an aware one; cut to whole milliseconds."""
    try:
        aware = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:
        # Within a day of the ends of the calendar there may be no such time in UTC.
        aware = time.replace(tzinfo=UTC)
    return aware.replace(microsecond=aware.microsecond // 1000 * 1000)


def to_millis(time: datetime) -> int:
    """Return whole milliseconds since 1970 in UTC; negative before."""
    return (time - EPOCH) // timedelta(milliseconds=1)


def from_millis(millis: int) -> datetime:
    """Return the time of `to_millis`."""
    return EPOCH + timedelta(milliseconds=millis)


def parse_instant(text: str, *, ends_day: bool = False) -> datetime:
    """Parse an ISO 8601 date or time; a date is the start of its day, or its end on request.

    Raises:
        InvalidInputError: the text is neither.

    """
    stripped = text.strip()
    try:
        if len(stripped) == len("2026-01-31"):
            day = date.fromisoformat(stripped)
            midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
            return midnight + timedelta(days=1, milliseconds=-1) if ends_day else midnight
        given = datetime.fromisoformat(stripped)
        return to_utc(given.astimezone(UTC) if given.tzinfo else given)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{text[:80]!r} is not a time.",
            hint="Give ISO 8601, such as 2026-03-31 or 2026-03-31T14:05:00Z.",
        ) from error


def show_day(time: datetime) -> str:
    """Format the UTC day as ISO 8601."""
    return time.astimezone(UTC).date().isoformat()


def show_second(time: datetime) -> str:
    """Format as `show_instant`, to the second."""
    return show_instant(time.replace(microsecond=0))


def show_instant(time: datetime) -> str:
    """Format as ISO 8601 in UTC with Z, to the second, or finer if needed."""
    spec = "milliseconds" if time.microsecond else "seconds"
    return time.astimezone(UTC).isoformat(timespec=spec).replace("+00:00", "Z")
