"""Calendar arithmetic in UTC: whole units, offsets, and periods around a date.

Months and years are added by python-dateutil. A week begins on Monday; a season is three whole
months of the northern hemisphere.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.model.revision import BeliefPeriod
from commonbrain.model.values import dataclass

if TYPE_CHECKING:
    from dateutil.relativedelta import relativedelta

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
"""Start of a period without a beginning."""
LATEST: Final = datetime.max.replace(tzinfo=UTC)
TICK: Final = timedelta(milliseconds=1)
"""The resolution of timestamps in the store."""
DAY: Final = timedelta(days=1)
_FIXED: Final[Mapping[str, timedelta]] = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": DAY,
    "week": 7 * DAY,
}
_MONTHS: Final[Mapping[str, int]] = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
SHORT: Final = frozenset({"second", "minute", "hour"})
"""Units that are never meant as calendar units: "an hour ago" is not an hour of the clock."""
_FRIDAY_NIGHT: Final = timedelta(days=5)
"""From Monday to the start of the weekend."""
_THIRDS: Final[Mapping[str, tuple[str, int]]] = {"month": ("day", 10), "year": ("month", 4)}
"""The unit and length of the first two thirds, for "early", "mid" and "late"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The period that a time expression names."""

    span: BeliefPeriod
    grain: str = "span"
    """The calendar unit that it is, or `span`."""
    cycle: str | None = None
    """The unit after which it recurs, if the expression leaves open which one.

    A month without a year.
    """
    edge: BeliefPeriod | None = None
    """The exact day, if the period is approximate: "since two weeks ago" begins on one day."""

    @property
    def bounding(self) -> BeliefPeriod:
        """The period that "since" and "until" use."""
        return self.edge or self.span


def units(unit: str, count: int) -> "relativedelta | timedelta":
    """Return a number of units as a calendar step."""
    if unit in _FIXED:
        return _FIXED[unit] * count
    from dateutil.relativedelta import relativedelta  # noqa: PLC0415 most questions name no time

    return relativedelta(months=_MONTHS[unit] * count)


def whole(time: datetime, unit: str, *, back: int = 0) -> Named:
    """Return the whole unit that contains a time, or an earlier one."""
    midnight = time.replace(hour=0, minute=0, second=0, microsecond=0)
    first = {
        "day": midnight,
        "week": midnight - midnight.weekday() * DAY,
        "month": midnight.replace(day=1),
        "quarter": midnight.replace(month=(midnight.month - 1) // 3 * 3 + 1, day=1),
        "year": midnight.replace(month=1, day=1),
        "decade": midnight.replace(year=max(midnight.year // 10 * 10, 1), month=1, day=1),
    }[unit]
    since = first - units(unit, back)
    return Named(span=BeliefPeriod(since=since, until=since + units(unit, 1)), grain=unit)


def around(time: datetime, unit: str) -> Named:
    """Return the period meant by a time that was stated with this precision."""
    if unit == "week":
        span = BeliefPeriod(since=time - 3 * DAY, until=time + 4 * DAY)
        return Named(span=span, grain=unit, edge=whole(time, "day").span)
    if unit in SHORT:
        half = _FIXED[unit] / 2
        span = BeliefPeriod(since=time - half, until=time + half)
        return Named(span=span, grain=unit, edge=BeliefPeriod(since=time, until=time + TICK))
    unit_period = whole(time, unit)
    return Named(span=unit_period.span, grain=unit, edge=whole(time, "day").span)


def weekend(time: datetime, *, back: int = 0) -> Named:
    """Return Saturday and Sunday of the week that contains a time, or of an earlier week."""
    week = whole(time, "week", back=back).span
    return Named(span=BeliefPeriod(since=week.since + _FRIDAY_NIGHT, until=week.until))


def weekday(name: str, before: datetime) -> Named:
    """Return the latest day of that name that is over."""
    from dateutil import relativedelta as calendar  # noqa: PLC0415 most questions name no time

    day = getattr(calendar, name[:2].upper())
    midnight = whole(before, "day").span.since
    since = midnight - DAY + calendar.relativedelta(weekday=day(-1))
    return Named(span=BeliefPeriod(since=since, until=since + DAY), grain="day", cycle="week")


def coming(named: Named) -> BeliefPeriod | None:
    """Return the next period that an expression may name; None if it names one alone."""
    if named.cycle is None:
        return None
    step = units(named.cycle, 1)
    return BeliefPeriod(since=named.span.since + step, until=named.span.until + step)


def working_days_back(now: datetime, count: int) -> datetime:
    """Return the start of the working day that is `count` before today."""
    first = whole(now, "day").span.since
    while count:
        first -= DAY
        # Saturday is 5, Sunday 6.
        count -= first.weekday() < _FRIDAY_NIGHT.days
    return first


def third(named: Named, place: int) -> Named:
    """Return one third (0 to 2) of a period, by calendar units if it has them."""
    since, until = named.span.since, named.span.until
    if named.grain in _THIRDS:
        unit, count = _THIRDS[named.grain]
        cuts = [since, since + units(unit, count), since + units(unit, 2 * count), until]
    else:
        cuts = [since + (until - since) * cut / 3 for cut in range(4)]
    return Named(span=BeliefPeriod(since=cuts[place], until=cuts[place + 1]))


def half(named: Named, place: int) -> Named:
    """Return one half (0 or 1) of a period; half a year is six months."""
    since, until = named.span.since, named.span.until
    middle = since + (units("month", 6) if named.grain == "year" else (until - since) / 2)
    return Named(span=BeliefPeriod(since=(since, middle)[place], until=(middle, until)[place]))


def between(one: Named, other: Named) -> Named:
    """Return the period from the start of one to the end of another.

    Raises:
        ValueError: the first does not begin before the second.

    """
    since, until = one.bounding.since, other.bounding.until
    if one.cycle:
        # "Between November and January 2025" begins in the last November before it.
        step = units(one.cycle, 1)
        while since > other.span.since:
            since -= step
        while since + step <= other.span.since:
            since += step
    return Named(span=_span(since, until))


def both(one: Named, other: Named) -> Named:
    """Return the period that spans two, in any order: "yesterday and today".

    Raises:
        ValueError: more than a week lies between them.

    """
    first, last = sorted((one.span, other.span), key=lambda span: span.since)
    if last.since - first.until > 7 * DAY:
        msg = "They are too far apart to be one period."
        raise ValueError(msg)
    return Named(span=_span(first.since, max(first.until, last.until)))


def until_start(named: Named) -> Named:
    """Return everything before it began."""
    return Named(span=_span(EARLIEST, named.bounding.since))


def until_end(named: Named) -> Named:
    """Return everything before it ended."""
    return Named(span=_span(EARLIEST, named.bounding.until))


def from_start(named: Named, now: datetime) -> Named:
    """Return everything from its start until now, or without an end if it is in the future."""
    return Named(span=_open(named.bounding.since, now))


def from_end(named: Named, now: datetime) -> Named:
    """Return everything from its end until now, or without an end if it is in the future."""
    return Named(span=_open(named.bounding.until, now))


def _open(since: datetime, now: datetime) -> BeliefPeriod:
    return BeliefPeriod(since=since, until=now + TICK if since <= now else LATEST)


def _span(since: datetime, until: datetime) -> BeliefPeriod:
    if since >= until:
        msg = "A span ends after it begins."
        raise ValueError(msg)
    return BeliefPeriod(since=since, until=until)
