"""Absolute and relative time expressions: "last week", "8 May 2023", "Q2 2025", "an hour ago".

`DATES` is the table: to support another expression, add a pattern and its meaning. If a pattern has
a group `keep`, the expression is what follows it: a bare "march" is a month after "in", not after
"we". Written dates are parsed by python-dateutil.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from commonbrain.model.revision import BeliefPeriod
from commonbrain.text.time_expressions import calendar
from commonbrain.text.time_expressions.calendar import SHORT, TICK, Named, around, units, whole

MARK: Final = "(?-i:[\ue000-\uf8ff])"
"""One character that replaces an expression that was already parsed; see `parser`."""
_FULL_MONTH: Final = "january|february|april|june|july|august|september|october|november|december"
_MONTH: Final = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_WEEKDAY: Final = r"(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
_SEASON: Final = r"(?P<season>spring|summer|autumn|fall|winter)"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)\b(?!\s*%)"
# In "since 2000 requests failed", 2000 is a count and not a year.
_NO_COUNT: Final = r"(?!\s+(?!(?:as|is|was|has|does|vs|versus|us|this|his|its)\b)\w+s\b)"
_ORDINALS: Final[Sequence[str]] = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first "
    "twenty-second twenty-third twenty-fourth twenty-fifth twenty-sixth twenty-seventh "
    "twenty-eighth twenty-ninth thirtieth thirty-first"
).split()
_ORDINAL: Final = "|".join(sorted(_ORDINALS, key=len, reverse=True))
_NTH: Final = rf"(?P<nth>\d{{1,2}}(?:st|nd|rd|th)|{_ORDINAL})\b"
_DAY: Final = r"(?P<day>\d{1,2})\b"
_ANY_DAY: Final = rf"(?:{_NTH}|{_DAY})"
UNIT: Final = r"(?P<unit>second|sec|minute|min|hour|hr|day|week|month|quarter|year|yr|decade)s?\b"
_SPELT: Final[Mapping[str, str]] = {"sec": "second", "min": "minute", "hr": "hour", "yr": "year"}
_NUMBERS: Final = "one two three four five six seven eight nine ten eleven twelve".split()
_COUNTS: Final[Mapping[str, int]] = {
    **{word: number for number, word in enumerate(_NUMBERS, 1)},
    "a": 1,
    "an": 1,
    "couple of": 2,
    "a couple of": 2,
    "few": 3,
    "a few": 3,
    "several": 3,
}
COUNT: Final = rf"(?P<count>\d{{1,4}}|{'|'.join(sorted(_COUNTS, key=len, reverse=True))})"
HOURS: Final[Mapping[str, tuple[int, int]]] = {
    "morning": (0, 12),
    "afternoon": (12, 18),
    "evening": (18, 24),
    "night": (18, 30),
}
PART: Final = rf"(?P<part>{'|'.join(HOURS)})\b"
_SEASONS: Final[Mapping[str, int]] = {
    "spring": 3,
    "summer": 6,
    "autumn": 9,
    "fall": 9,
    "winter": 12,
}
_LEAD: Final = (
    r"in|during|since|of|for|early|late|mid|before|after|until|till|by|from|between|through"
    r"|throughout|around|prior to|up to"
)
"""Words after which a bare month, year or quarter is a date."""
_PREPOSITION: Final = rf"(?P<keep>\b(?:{_LEAD})[\s-]+(?:the\s+)?)"
# The second date of a range, after the first was parsed: "from March to" a month.
_RANGE_START: Final = rf"(?P<keep>{MARK}\s*(?:and|to|until|till|through|thru|-|–)\s*)"  # noqa: RUF001 as typed

Meaning = Callable[[re.Match[str], datetime], Named]


def unit_of(match: re.Match[str]) -> str:
    """Return the unit, spelled out."""
    unit = match["unit"].lower()
    return _SPELT.get(unit, unit)


def count_of(match: re.Match[str]) -> int:
    """Return the count, given in digits or as a word."""
    count = " ".join(match["count"].lower().split())
    return int(count) if count.isdigit() else _COUNTS[count]


def part_of(day: Named, part: str) -> Named:
    """Return the morning, afternoon, evening or night of a day."""
    since, until = (timedelta(hours=hour) for hour in HOURS[part.lower()])
    first = day.span.since
    return Named(span=BeliefPeriod(since=first + since, until=first + until), grain="part")


def _iso(match: re.Match[str], now: datetime) -> Named:
    text = match[0].replace("/", "-")
    time = datetime.fromisoformat(text)
    time = time.replace(tzinfo=time.tzinfo or now.tzinfo).astimezone(now.tzinfo)
    return around(time, "hour") if ":" in text else whole(time, "day")


def _date(match: re.Match[str], now: datetime) -> Named:
    """Parse a written day, month or year; without a year it is the latest."""
    from dateutil.parser import parse  # noqa: PLC0415 most questions name no time

    given = match.groupdict()
    day = given.get("day") or _day_of(given.get("nth"))
    unit = "day" if day else "month" if given.get("month") else "year"
    year = given.get("year") or (given.get("short") and f"20{given['short']}")
    words = (day or "1", given.get("month") or "january", year)
    default = whole(now, "day").span.since
    since = parse(" ".join(part for part in words if part), default=default)
    if year:
        return whole(since, unit)
    if since > now:
        since -= units("year", 1)
    return Named(span=whole(since, unit).span, grain=unit, cycle="year")


def _day_of(nth: str | None) -> str | None:
    if not nth:
        return None
    return str(_place(nth)) if nth.lower() in _ORDINALS else nth[:-2]


def _place(ordinal: str) -> int:
    """Return the number of an ordinal word, from 1."""
    return {word: number for number, word in enumerate(_ORDINALS, 1)}[ordinal.lower()]


def _days(match: re.Match[str], now: datetime) -> Named:
    """Parse "3-9 March 2026"."""
    last = _date(match, now)
    first = last.span.since.replace(day=int(match["first"]))
    if first >= last.span.until:
        msg = "The days are in no order."
        raise ValueError(msg)
    return replace(last, span=BeliefPeriod(since=first, until=last.span.until), grain="span")


def _which_month(match: re.Match[str], now: datetime) -> Named:
    """Parse "last March" (not the current one), "this March" or "next March"."""
    latest = _date(match, now)
    since = latest.span.since
    match match["which"].lower():
        case "this":
            since = since.replace(year=now.year)
        case "next":
            since += units("year", 1)
        case _:
            since -= units("year", int(latest.span.until > now))
    return whole(since, "month")


def _nth_day(match: re.Match[str], now: datetime) -> Named:
    """Parse "on the 5th": the latest."""
    since = whole(now, "day").span.since.replace(day=int(_day_of(match["nth"]) or 0))
    if since > now:
        since -= units("month", 1)
    return Named(span=whole(since, "day").span, grain="day", cycle="month")


def _year_month(match: re.Match[str], now: datetime) -> Named:
    first = whole(now, "day").span.since
    return whole(first.replace(int(match["year"]), int(match["number"]), 1), "month")


def _quarter(match: re.Match[str], now: datetime) -> Named:
    number = match["number"]
    place = int(number) if number.isdigit() else _place(number)
    year = match.groupdict().get("year")
    first = whole(now, "year").span.since.replace(month=3 * place - 2)
    if year:
        return whole(first.replace(year=int(year)), "quarter")
    since = first if first <= now else first - units("year", 1)
    return Named(span=whole(since, "quarter").span, grain="quarter", cycle="year")


def _half_year(match: re.Match[str], now: datetime) -> Named:
    first = whole(now, "year").span.since.replace(year=int(match["year"]))
    return calendar.half(whole(first, "year"), int(match["number"]) - 1)


def _season(match: re.Match[str], now: datetime) -> Named:
    """Parse a season with its year (winter has the year it begins in), or "last summer"."""
    given = match.groupdict()
    first = whole(now, "year").span.since.replace(month=_SEASONS[match["season"].lower()])
    if given.get("year"):
        return _three_months(first.replace(year=int(given["year"])))
    which = (given.get("which") or "").lower()
    latest = first if first <= now else first - units("year", 1)
    is_over = latest + units("month", 3) <= now
    if which == "last" and not is_over:
        latest -= units("year", 1)
    if which == "next" or (which == "this" and is_over):
        latest += units("year", 1)
    return _three_months(latest)


def _three_months(since: datetime) -> Named:
    return Named(span=BeliefPeriod(since=since, until=since + units("month", 3)), grain="season")


def _decade(match: re.Match[str], now: datetime) -> Named:
    tens = int(match["tens"])
    century = int(match["century"] or 0) * 100 or now.year // 100 * 100
    year = century + tens
    first = whole(now, "year").span.since
    return whole(first.replace(year=year if year <= now.year else year - 100), "decade")


def _named_day(match: re.Match[str], now: datetime) -> Named:
    """Parse today, yesterday, tomorrow, tonight or this morning."""
    word, given = match["word"].lower(), match.groupdict()
    back = {"yesterday": 1, "last": 1, "tomorrow": -1}.get(word, 0)
    day = whole(now, "day", back=back)
    part = "night" if word == "tonight" else given.get("part")
    return part_of(day, part) if part else day


def _stretch(match: re.Match[str], now: datetime) -> Named:
    """Parse "last 2 weeks": from then until now, or from now on."""
    step = units(unit_of(match), count_of(match) if match.groupdict().get("count") else 1)
    if match["which"].lower() in {"next", "coming"}:
        return Named(span=BeliefPeriod(since=now, until=now + step))
    return Named(span=BeliefPeriod(since=now - step, until=now + TICK))


def _distance(match: re.Match[str], now: datetime) -> Named:
    """Parse "3 days ago": the unit around that time."""
    unit = unit_of(match)
    return around(now - units(unit, count_of(match)), unit)


def _unit(match: re.Match[str], now: datetime) -> Named:
    """Parse "last week", "this month" or "the week before last": a whole calendar unit."""
    unit, which = unit_of(match), (match.groupdict().get("which") or "before last").lower()
    if unit in SHORT:
        return _stretch(match, now)
    back = {"this": 0, "current": 0, "next": -1, "coming": -1, "before last": 2}.get(which, 1)
    return whole(now, unit, back=back)


def _weekend(match: re.Match[str], now: datetime) -> Named:
    given = match.groupdict()
    if given.get("count"):
        return calendar.weekend(now, back=count_of(match))
    which = (given.get("which") or "before last").lower()
    back = {"this": 0, "next": -1, "before last": 2}.get(which, 1)
    return calendar.weekend(now, back=back)


def _weekday(match: re.Match[str], now: datetime) -> Named:
    """Parse "on Friday": the latest that is over, unless "this" or "next" is given."""
    given = match.groupdict()
    which = (given.get("which") or "").lower()
    if which in {"this", "next", "coming"}:
        week = whole(now, "week", back=-1 if which == "this" else -2).span.since
        return Named(span=calendar.weekday(match["weekday"], week).span, grain="day")
    latest = calendar.weekday(match["weekday"], now)
    if not given.get("count"):
        return latest
    step = units("week", count_of(match) - 1)
    first = latest.span.since - step
    if which:
        return Named(span=BeliefPeriod(since=first, until=latest.span.until))
    return Named(span=BeliefPeriod(since=first, until=latest.span.until - step), grain="day")


def _ahead(match: re.Match[str], now: datetime) -> Named:
    """Parse "in two weeks" and "two weeks from now": that day, or that month or year."""
    unit = unit_of(match)
    if unit in SHORT:
        msg = "It is a duration."
        raise ValueError(msg)
    time = now + units(unit, count_of(match))
    return whole(time, "day") if unit in {"day", "week"} else around(time, unit)


def _piece_of_unit(match: re.Match[str], now: datetime) -> Named:
    """Parse "the end of the month": a third of the present one."""
    place = {"start": 0, "beginning": 0, "middle": 1}.get(match["piece"].lower(), 2)
    return calendar.third(whole(now, unit_of(match)), place)


def _working_days(match: re.Match[str], now: datetime) -> Named:
    since = calendar.working_days_back(now, count_of(match))
    return Named(span=BeliefPeriod(since=since, until=now + TICK))


_LAST: Final = r"(?P<which>last|past|previous)"
_WHICH: Final = r"(?P<which>last|past|previous|this|current|next|coming)"
_BIG: Final = r"(?P<unit>week|month|quarter|year|decade)\b(?!-|\s+(?:of|before|after)\b)"
_OF_YEAR: Final = rf"(?:,?\s+(?:of\s+)?{_YEAR}|,?\s+'(?P<short>\d\d)\b)"
_ON_WEEKDAY: Final = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s+(?:the\s+)?)?"
WRITTEN_IN_DIGITS: Final[tuple[tuple[str, Meaning], ...]] = (
    (r"(?a:\b)(?P<year>\d{4})-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:Z\b|[+-]\d\d:\d\d)?", _iso),
    (r"(?a:\b)(?P<year>\d{4})(?P<mark>[-/])\d\d(?P=mark)\d\d(?a:\b)", _iso),
    (r"(?<![\d-])(?P<year>(?:19|20)\d\d)-(?P<number>0[1-9]|1[0-2])(?![\d-])", _year_month),
)
"""What is written alike in every language."""
DATES: Final[tuple[tuple[str, Meaning], ...]] = (
    *WRITTEN_IN_DIGITS,
    (rf"\b(?P<first>\d{{1,2}})\s*[-–]\s*{_DAY}\s+{_MONTH}{_OF_YEAR}?", _days),  # noqa: RUF001 as typed
    (
        rf"\bfrom\s+(?P<first>\d{{1,2}})\s+(?:to|until|till)\s+{_DAY}\s+{_MONTH}{_OF_YEAR}?",
        _days,
    ),
    (rf"\b{_MONTH}\s+(?P<first>\d{{1,2}})\s*[-–]\s*{_DAY}{_OF_YEAR}?", _days),  # noqa: RUF001 as typed
    (rf"\b{_ON_WEEKDAY}{_ANY_DAY}\s+(?:of\s+)?{_MONTH}{_OF_YEAR}", _date),
    (rf"\b{_ON_WEEKDAY}{_MONTH}\s+{_ANY_DAY}{_OF_YEAR}", _date),
    (rf"\b{_ON_WEEKDAY}{_NTH}\s+(?:of\s+)?{_MONTH}", _date),
    (rf"\b{_ON_WEEKDAY}{_MONTH}\s+(?:the\s+)?{_NTH}", _date),
    (rf"\b{_DAY}\s+(?:of\s+)?(?P<month>{_FULL_MONTH})\b", _date),
    (rf"\b(?P<month>{_FULL_MONTH})\s+{_DAY}", _date),
    # "May" and "mar" have other meanings, so they need a preceding word that marks a date.
    (rf"(?P<keep>\b(?:on|{_LEAD})\s+(?:the\s+)?){_DAY}\s+(?:of\s+)?{_MONTH}", _date),
    (rf"(?P<keep>\b(?:on|{_LEAD})\s+){_MONTH}\s+{_DAY}", _date),
    (rf"{_RANGE_START}{_DAY}\s+(?:of\s+)?{_MONTH}", _date),
    (rf"{_RANGE_START}{_MONTH}\s+{_DAY}", _date),
    (rf"\b{_MONTH}{_OF_YEAR}", _date),
    (rf"\b{_SEASON},?\s+(?:of\s+)?{_YEAR}", _season),
    (rf"\bQ(?P<number>[1-4])[\s/,-]*(?:of\s+)?{_YEAR}", _quarter),
    (r"\b(?P<year>(?:19|20)\d\d)[\s/-]*Q(?P<number>[1-4])\b", _quarter),
    (rf"\b(?P<number>first|second|third|fourth) quarter of (?:the year )?{_YEAR}", _quarter),
    (rf"\bH(?P<number>[12])[\s/,-]*(?:of\s+)?{_YEAR}", _half_year),
    (rf"\b(?P<which>last|this|next)\s+{_SEASON}\b", _season),
    # "In the summer intern programme" is not a season.
    (
        rf"(?P<keep>\b(?:in|during|since|before|after)\s+the\s+){_SEASON}(?=\s*(?:[?.,;!]|$))",
        _season,
    ),
    (r"(?P<keep>\bthe\s+)'?(?P<century>19|20)?(?P<tens>\d0)s\b", _decade),
    (rf"\b(?P<word>yesterday|today|tonight|tomorrow)(?:\s+{PART})?", _named_day),
    (rf"\b(?P<word>this|last)\s+{PART}", _named_day),
    (rf"\b{COUNT}\s+{UNIT}\s+ago\b", _distance),
    (rf"\b{COUNT}\s+{_WEEKDAY}s?\s+ago\b", _weekday),
    (rf"\b(?:the\s+)?{_LAST}\s+{COUNT}\s+(?:working|business|week)\s*days\b", _working_days),
    (rf"\b(?:the\s+)?{_LAST}\s+{COUNT}\s+{_WEEKDAY}s\b", _weekday),
    (rf"\b(?P<which>last|past|previous|next|coming)\s+{COUNT}\s+{UNIT}", _stretch),
    (rf"\b(?:in|over|during|within|for|throughout)\s+the\s+{_LAST}\s+{UNIT}(?!\s+of\b)", _stretch),
    (rf"\b(?:the\s+)?(?P<which>past)\s+{_BIG}", _stretch),
    (rf"\b{_WHICH}\s+{_BIG}", _unit),
    (r"\b(?P<which>this|last)\s+(?P<unit>hour|minute)\b", _unit),
    (r"\b(?:the\s+)?(?P<unit>week|month|quarter|year) before last\b", _unit),
    (r"\b(?:the\s+)?weekend before last\b", _weekend),
    (rf"\b{COUNT}\s+weekends?\s+ago\b", _weekend),
    (r"\b(?P<which>last|past|this|next)\s+weekend\b(?!\s+(?:before|after)\b)", _weekend),
    (r"\b(?:over|at|on|during)\s+(?P<which>the)\s+weekend\b", _weekend),
    (
        rf"\b(?P<which>last|past|previous|this|next|coming)\s+{_WEEKDAY}\b(?!\s+(?:before|after)\b)",
        _weekday,
    ),
    (rf"(?<!every ){_WEEKDAY}(?=\s+{PART})", _weekday),
    (rf"\b{_WEEKDAY}'s\b", _weekday),
    (rf"(?P<keep>\b(?:on|{_LEAD})\s+){_WEEKDAY}\b", _weekday),
    (rf"{_RANGE_START}{_WEEKDAY}\b", _weekday),
    (rf"(?P<keep>\bon\s+the\s+){_NTH}(?=\s*(?:[?.,;!]|$))", _nth_day),
    (rf"\b(?P<which>last|this|next)\s+{_MONTH}", _which_month),
    (rf"{_PREPOSITION}{_MONTH}", _date),
    (rf"{_RANGE_START}{_MONTH}", _date),
    (rf"{_PREPOSITION}Q(?P<number>[1-4])\b", _quarter),
    (rf"\bthe\s+year\s+{_YEAR}", _date),
    (rf"{_PREPOSITION}{_YEAR}{_NO_COUNT}", _date),
    (rf"{_RANGE_START}{_YEAR}", _date),
)
STATED: Final[tuple[tuple[str, Meaning], ...]] = (
    # Before "from today" is read as that day.
    (rf"\b(?P<lead>in)\s+{COUNT}\s+{UNIT}(?!\s+time\s)", _ahead),
    (rf"\b{COUNT}\s+{UNIT}\s+from\s+(?:now|today)\b", _ahead),
    (
        r"\b(?P<piece>end|start|beginning|middle)\s+of\s+the\s+(?P<unit>week|month|quarter|year)\b",
        _piece_of_unit,
    ),
    (rf"(?P<keep>(?:(?<!day )\bto|(?<!today )\bis|\bdue|:)\s+){_WEEKDAY}\b", _weekday),
    *DATES,
    # After the dates that have a year, or are the end of "12-14 May".
    (r"\b(?P<day>\d{1,2})\s+(?P<month>(?-i:March|May))\b", _date),
)
"""Expressions of statements; those that `DATES` lacks are seldom times in questions.

"What was built in two weeks" names a duration.
"""
