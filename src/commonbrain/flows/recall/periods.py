"""Phrases of time in English: which span does "last week" or "on 8 May 2023" mean, and when?

`PHRASES` is the table: to understand another phrase, add a pattern and what it means. Calendar
arithmetic and the reading of dates are python-dateutil's. A question's first phrase counts; all
is reckoned in UTC, and a date without a year is the latest that has come.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.domain.revision import Span

if TYPE_CHECKING:
    from dateutil.relativedelta import relativedelta

_MONTH: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_WEEKDAY: Final = r"(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)\b"
_UNIT: Final = r"(?P<unit>minute|hour|day|week|month|year)s?"
_COUNTS: Final[Mapping[str, int]] = {
    **{
        word: number
        for number, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
    },
    "a": 1,
    "an": 1,
    "couple of": 2,
    "a couple of": 2,
    "few": 3,
    "a few": 3,
}
_COUNT: Final = rf"(?P<count>\d{{1,4}}|{'|'.join(sorted(_COUNTS, key=len, reverse=True))})"
_HOURS: Final[Mapping[str, tuple[int, int]]] = {
    "morning": (0, 12),
    "afternoon": (12, 18),
    "evening": (18, 24),
    "night": (18, 30),
}
_HINT: Final = re.compile(
    r"\d|yesterday|today|tonight|morning|afternoon|evening|night|minute|hour|day|week|month|year"
    r"|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec",
    re.IGNORECASE,
)
"""Every phrase holds one of these; most questions hold none."""
_READ: Final = 500
"""Characters of a question that are read; what is longer is a text, not a question of time."""
_SHORT: Final = frozenset({"minute", "hour"})
_FRIDAY_NIGHT: Final = timedelta(days=5)
"""From Monday to the first moment of the weekend."""


def _units(unit: str, count: int) -> "relativedelta":
    """Give so many of a unit as a step of the calendar."""
    from dateutil.relativedelta import relativedelta  # noqa: PLC0415 most questions name no time

    return {
        "minute": relativedelta(minutes=count),
        "hour": relativedelta(hours=count),
        "day": relativedelta(days=count),
        "week": relativedelta(weeks=count),
        "month": relativedelta(months=count),
        "year": relativedelta(years=count),
    }[unit]


def _calendar(now: datetime, unit: str, *, back: int, count: int = 1) -> Span:
    """Give whole calendar units: `back` 1 is the last one, 0 the one that is running."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    first = {
        "day": midnight,
        "week": midnight - timedelta(days=midnight.weekday()),
        "month": midnight.replace(day=1),
        "year": midnight.replace(month=1, day=1),
    }[unit]
    step = _units(unit, 1)
    since = first - back * step
    return Span(since=since, until=since + count * step)


def _date(found: re.Match[str], now: datetime) -> Span:
    """Read a date, a month or a year that is written out, with or without its year."""
    from dateutil.parser import parse  # noqa: PLC0415 most questions name no time

    given = found.groupdict()
    unit = next(unit for unit in ("day", "month", "year") if given.get(unit))
    said = [given.get("day") or "1", given.get("month") or "january", given.get("year")]
    text = " ".join(part for part in said if part)
    since = parse(text, default=now.replace(hour=0, minute=0, second=0, microsecond=0))
    step, year = _units(unit, 1), _units("year", 1)
    # In March, "last March" is not the one that is running.
    is_last = found[0].lower().startswith("last")
    if not given.get("year") and (since > now or (is_last and since + step > now)):
        since -= year
    return Span(since=since, until=since + step)


def _iso(found: re.Match[str], now: datetime) -> Span:
    since = datetime.fromisoformat(found[0]).replace(tzinfo=now.tzinfo)
    return Span(since=since, until=since + timedelta(days=1))


def _named_day(found: re.Match[str], now: datetime) -> Span:
    """Read today, yesterday or tonight, and a part of such a day."""
    word = found["word"].lower()
    back = {"yesterday": 1, "last": 1}.get(word, 2 if "before" in word else 0)
    day = _calendar(now, "day", back=back)
    part = "night" if word == "tonight" else (found["part"] or "").lower()
    if not part:
        return day
    since, until = (timedelta(hours=hour) for hour in _HOURS[part])
    return Span(since=day.since + since, until=day.since + until)


def _stretch(found: re.Match[str], now: datetime) -> Span:
    """Read "last 2 weeks": from so long ago until now."""
    return Span(since=_ago(found, now), until=now + timedelta(milliseconds=1))


def _distance(found: re.Match[str], now: datetime) -> Span:
    """Read "3 days ago": the unit around that moment."""
    unit, moment = found["unit"].lower(), _ago(found, now)
    if unit == "week":
        return Span(since=moment - timedelta(days=3), until=moment + timedelta(days=4))
    if unit in _SHORT:
        half = timedelta(**{f"{unit}s": 1}) / 2
        return Span(since=moment - half, until=moment + half)
    return _calendar(moment, unit, back=0)


def _ago(found: re.Match[str], now: datetime) -> datetime:
    count, unit = found["count"].lower(), found["unit"].lower()
    number = int(count) if count.isdigit() else _COUNTS[count]
    return now - _units(unit, number)


def _unit(found: re.Match[str], now: datetime) -> Span:
    """Read "last week" or "this month": a whole one of the calendar."""
    unit, is_running = found["unit"].lower(), found["which"].lower() in {"this", "current"}
    if unit in _SHORT:
        return Span(since=now - timedelta(**{f"{unit}s": 1}), until=now + timedelta(milliseconds=1))
    return _calendar(now, unit, back=0 if is_running else 1)


def _weekday(found: re.Match[str], now: datetime) -> Span:
    """Read "last Friday": the latest that is over."""
    from dateutil import relativedelta as calendar  # noqa: PLC0415 most questions name no time

    day = getattr(calendar, found["weekday"][:2].upper())
    today = _calendar(now, "day", back=0).since
    since = today - timedelta(days=1) + calendar.relativedelta(weekday=day(-1))
    return Span(since=since, until=since + timedelta(days=1))


def _weekend(found: re.Match[str], now: datetime) -> Span:
    week = _calendar(now, "week", back=0 if found["which"].lower() == "this" else 1)
    return Span(since=week.since + _FRIDAY_NIGHT, until=week.until)


Meaning = Callable[[re.Match[str], datetime], Span]
PHRASES: Final[tuple[tuple[re.Pattern[str], Meaning], ...]] = tuple(
    (re.compile(rf"\b{pattern}", re.IGNORECASE), meaning)
    for pattern, meaning in (
        (r"\d{4}-\d\d-\d\d\b", _iso),
        (rf"{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?", _date),
        (rf"{_MONTH}\s+{_DAY}(?:,?\s+{_YEAR})?", _date),
        (rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}", _date),
        (rf"(?:in|last|this|during|since|of|early|late|mid)\s+{_MONTH}", _date),
        (rf"(?:in|during|since|of|spring|summer|autumn|fall|winter|early|late)\s+{_YEAR}", _date),
        (
            r"(?P<word>the day before yesterday|yesterday|today|tonight)"
            r"(?:\s+(?P<part>morning|afternoon|evening|night)\b)?",
            _named_day,
        ),
        (r"(?P<word>this|last)\s+(?P<part>morning|afternoon|evening|night)\b", _named_day),
        (rf"{_COUNT}\s+{_UNIT}\s+ago\b", _distance),
        (rf"(?:last|past|previous)\s+{_COUNT}\s+{_UNIT}\b", _stretch),
        (rf"(?P<which>last|past|previous|this|current)\s+{_UNIT}\b", _unit),
        (r"(?P<which>last|past|this)\s+weekend\b", _weekend),
        (rf"(?:last|past|on|this)\s+{_WEEKDAY}\b", _weekday),
    )
)


def period_of(query: str, now: datetime) -> tuple[Span, str] | None:
    """Give the span that a question's phrase of time means, and the question without the phrase.

    A phrase that names no day there is, such as 31 June, is none.
    """
    if not _HINT.search(query[:_READ]):
        return None
    for pattern, meaning in PHRASES:
        found = pattern.search(query, 0, _READ)
        if found is None:
            continue
        try:
            span = meaning(found, now)
        except (ValueError, OverflowError):
            continue
        return span, f"{query[: found.start()]} {query[found.end() :]}"
    return None
