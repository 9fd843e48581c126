"""Spans of the calendar in UTC: whole units, so many units away, and what lies around a date.

Calendar arithmetic is python-dateutil's. A week begins on Monday, a season is three whole months
of the north.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.model.revision import BeliefPeriod

if TYPE_CHECKING:
    from dateutil.relativedelta import relativedelta

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
"""Where a span begins that has no beginning."""
LATEST: Final = datetime.max.replace(tzinfo=UTC)
TICK: Final = timedelta(milliseconds=1)
"""The finest that the store tells apart."""
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
"""Units that nobody means by the calendar: "an hour ago" is no hour of the clock."""
_FRIDAY_NIGHT: Final = timedelta(days=5)
"""From Monday to the first moment of the weekend."""
_THIRDS: Final[Mapping[str, tuple[str, int]]] = {"month": ("day", 10), "year": ("month", 4)}
"""What "early", "mid" and "late" cut a unit by; the last third takes what is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a phrase of time names."""

    span: BeliefPeriod
    grain: str = "span"
    """The unit that it is one of; `span` when it is none."""
    cycle: str | None = None
    """After what it comes again, when the phrase leaves open which one: a month without a year."""
    edge: BeliefPeriod | None = None
    """What bounds by it, where that is sharper: "two weeks ago" is about a week, since one day."""

    @property
    def bounding(self) -> BeliefPeriod:
        """What "since" and "until" go by."""
        return self.edge or self.span


def units(unit: str, count: int) -> "relativedelta | timedelta":
    """Give so many of a unit as a step of the calendar."""
    if unit in _FIXED:
        return _FIXED[unit] * count
    from dateutil.relativedelta import relativedelta  # noqa: PLC0415 most questions name no time

    return relativedelta(months=_MONTHS[unit] * count)


def whole(moment: datetime, unit: str, *, back: int = 0) -> Named:
    """Give the whole unit that a moment lies in, or the one so many before it."""
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
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


def around(moment: datetime, unit: str) -> Named:
    """Give what is meant by a moment that was told so roughly."""
    if unit == "week":
        span = BeliefPeriod(since=moment - 3 * DAY, until=moment + 4 * DAY)
        return Named(span=span, grain=unit, edge=whole(moment, "day").span)
    if unit in SHORT:
        half = _FIXED[unit] / 2
        span = BeliefPeriod(since=moment - half, until=moment + half)
        return Named(span=span, grain=unit, edge=BeliefPeriod(since=moment, until=moment + TICK))
    told = whole(moment, unit)
    return Named(span=told.span, grain=unit, edge=whole(moment, "day").span)


def weekend(moment: datetime, *, back: int = 0) -> Named:
    """Give Saturday and Sunday of the week that a moment lies in, or of one before it."""
    week = whole(moment, "week", back=back).span
    return Named(span=BeliefPeriod(since=week.since + _FRIDAY_NIGHT, until=week.until))


def weekday(name: str, before: datetime) -> Named:
    """Give the latest such day that is over at a moment."""
    from dateutil import relativedelta as calendar  # noqa: PLC0415 most questions name no time

    day = getattr(calendar, name[:2].upper())
    midnight = whole(before, "day").span.since
    since = midnight - DAY + calendar.relativedelta(weekday=day(-1))
    return Named(span=BeliefPeriod(since=since, until=since + DAY), grain="day", cycle="week")


def working_days_back(now: datetime, count: int) -> datetime:
    """Give the first moment of the working day that is so many before today."""
    first = whole(now, "day").span.since
    while count:
        first -= DAY
        # Saturday is 5, Sunday 6.
        count -= first.weekday() < _FRIDAY_NIGHT.days
    return first


def third(named: Named, place: int) -> Named:
    """Give the first, second or last third of what is named, 0 to 2; by the calendar if it can."""
    since, until = named.span.since, named.span.until
    if named.grain in _THIRDS:
        unit, count = _THIRDS[named.grain]
        cuts = [since, since + units(unit, count), since + units(unit, 2 * count), until]
    else:
        cuts = [since + (until - since) * cut / 3 for cut in range(4)]
    return Named(span=BeliefPeriod(since=cuts[place], until=cuts[place + 1]))


def half(named: Named, place: int) -> Named:
    """Give the first or second half of what is named, 0 or 1; of a year, six months."""
    since, until = named.span.since, named.span.until
    middle = since + (units("month", 6) if named.grain == "year" else (until - since) / 2)
    return Named(span=BeliefPeriod(since=(since, middle)[place], until=(middle, until)[place]))


def between(one: Named, other: Named) -> Named:
    """Give all from the first to the end of the second.

    Raises:
        ValueError: the first is not before the second.

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


def until_start(named: Named) -> Named:
    """Give all that was before it."""
    return Named(span=_span(EARLIEST, named.bounding.since))


def until_end(named: Named) -> Named:
    """Give all that was before it was over."""
    return Named(span=_span(EARLIEST, named.bounding.until))


def from_start(named: Named, now: datetime) -> Named:
    """Give all from it until now; what is to come has no end."""
    return Named(span=_open(named.bounding.since, now))


def from_end(named: Named, now: datetime) -> Named:
    """Give all from when it was over until now; what is to come has no end."""
    return Named(span=_open(named.bounding.until, now))


def _open(since: datetime, now: datetime) -> BeliefPeriod:
    return BeliefPeriod(since=since, until=now + TICK if since <= now else LATEST)


def _span(since: datetime, until: datetime) -> BeliefPeriod:
    if since >= until:
        msg = "A span ends after it begins."
        raise ValueError(msg)
    return BeliefPeriod(since=since, until=until)
