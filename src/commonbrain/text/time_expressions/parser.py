"""Parse English time expressions into periods: what does "two days before 8 May" mean?

Every parsed expression is replaced by one mark character, and `BOUNDS` parses what surrounds marks:
"before" one, "between" two, the morning "of" one. To support another, add a pattern and its
meaning. The first expression of a query that states its year counts, or else the first: in "last
week, as she said on 6 May 2023", last week is relative to that date. All times are UTC.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from typing import Final, NamedTuple

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.revision import BeliefPeriod
from commonbrain.model.timestamps import parse_instant, to_utc
from commonbrain.model.values import dataclass
from commonbrain.text.languages import is_english
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.time_expressions import calendar
from commonbrain.text.time_expressions.calendar import (
    DAY,
    EARLIEST,
    LATEST,
    TICK,
    Named,
    around,
    units,
    whole,
)
from commonbrain.text.time_expressions.grammar import (
    COUNT,
    DATES,
    MARK,
    PART,
    UNIT,
    WRITTEN_IN_DIGITS,
    Meaning,
    count_of,
    part_of,
    unit_of,
)
from commonbrain.text.time_expressions.translations import TRANSLATIONS

_HINT: Final = lazy_pattern(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|weekend|before last|(?:19|20)\d\d(?:s|q[1-4])?"
    r"|\d0s|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|on the \w+|(?:jan|feb|mar|apr|may|june?"
    r"|july?|aug|sept?|oct|nov|dec)(?:[a-z]{2,6})?|(?:last|past|previous|this|current|next"
    r"|coming)\s+(?:\w+\s+){0,3}(?:second|sec|minute|min|hour|hr|day|week|month|quarter|year|yr"
    r"|decade|morning|afternoon|evening|night|spring|summer|autumn|fall|winter|business|working)s?"
    r"|the (?:spring|summer|autumn|fall|winter)|q[1-4]|in (?:\w+ ){1,2}(?:day|week|month|year)s?"
    r"|from (?:now|today)|(?:end|start|beginning|middle) of the)\b",
    re.IGNORECASE,
)
"""Every expression contains one of these; most queries contain none and are not parsed further."""
# Months and weekdays must be capitalized, because "may" and "march" are words too.
_NAMED: Final = lazy_pattern(
    r"\b(?:(?i:yesterday|today|tonight|tomorrow|ago|(?:19|20)\d\d|(?:last|past|previous|this|next"
    r"|coming)\s+(?:\w+\s+)?(?:day|week|weekend|month|quarter|year|morning|evening|night|spring"
    r"|summer|autumn|fall|winter)s?)|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|January|February"
    r"|March|April|May|June|July|August|September|October|November|December)\b"
)
_READ: Final = 500
"""Characters of a query that are parsed."""
_FIRST_MARK: Final = 0xE000
_MARKED: Final = lazy_pattern(MARK)
_LEADS: Final = ("", "on ", "in ")
"""Prepositions that an expression on its own lacks."""
_ALONE: Final = lazy_pattern(rf"(?:(?:on|in|at|the)\s+)*{MARK}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Near:
    """A match of a pattern in a text with marks."""

    match: re.Match[str]
    named: Sequence[Named]
    """The periods of its marks, in order."""
    now: datetime


Around = Callable[[_Near], Named]
"""Computes the period of a match from those of its marks."""


def _at(near: _Near) -> Named:
    """Parse "yesterday at 15:00": half an hour around it."""
    from dateutil.parser import parse  # noqa: PLC0415 most questions name no time

    (day,) = near.named
    if day.grain not in {"day", "part"}:
        msg = "A time of day is one of a day."
        raise ValueError(msg)
    clock = {"noon": "12:00", "midnight": "0:00"}.get(
        near.match["clock"].lower(), near.match["clock"]
    )
    instant = parse(clock, default=whole(day.span.since, "day").span.since)
    # Two at night belongs to the next day.
    if not day.span.holds(instant) and day.span.holds(instant + DAY):
        instant += DAY
    return around(instant.replace(tzinfo=near.now.tzinfo), "hour")


def _part(near: _Near) -> Named:
    (day,) = near.named
    if day.grain != "day":
        msg = "A part of the day is one of a day."
        raise ValueError(msg)
    return part_of(day, near.match["part"])


def _offset(near: _Near) -> Named:
    """Parse "two days before X": the unit around that time, or the whole way."""
    (start,) = near.named
    unit, edge = unit_of(near.match), start.bounding
    step = units(unit, count_of(near.match))
    is_before = near.match["side"].lower() in {"before", "prior to"}
    if near.match["all"]:
        since = edge.since - step if is_before else edge.until
        return Named(span=BeliefPeriod(since=since, until=since + step))
    instant = edge.since - step if is_before else edge.since + step
    return around(instant, unit)


def _adjacent(near: _Near) -> Named:
    """Parse "the day before X" and "the Friday after X"."""
    (start,) = near.named
    edge, what = start.bounding, near.match["what"].lower()
    is_before = near.match["side"].lower() == "before"
    if what == "weekend":
        day = calendar.weekday("sunday" if is_before else "saturday", _beyond(edge, is_before))
        since = day.span.since - DAY * is_before
        return Named(span=BeliefPeriod(since=since, until=since + 2 * DAY))
    if what.endswith("day") and what != "day":
        return calendar.weekday(what, _beyond(edge, is_before))
    step = units(what, 1)
    since = edge.since - step if is_before else edge.until
    return Named(span=BeliefPeriod(since=since, until=since + step), grain=what)


def _beyond(edge: BeliefPeriod, is_before: bool) -> datetime:  # noqa: FBT001 said by its caller
    """Return the time before which the day in question is the latest of its name."""
    return edge.since if is_before else edge.until + 7 * DAY


def _week_of(near: _Near) -> Named:
    return whole(near.named[0].span.since, "week")


def _piece(near: _Near) -> Named:
    """Parse "early March", "the end of 2024", "the second half of last year"."""
    word, span = " ".join(near.match["piece"].lower().split()), near.named[0].span
    if word.endswith("week"):
        place = {"first": 0, "second": 1, "third": 2, "fourth": 3}.get(word.split()[0])
        since = span.until - 7 * DAY if place is None else span.since + 7 * place * DAY
        return Named(span=BeliefPeriod(since=since, until=since + 7 * DAY))
    if word.endswith("half"):
        return calendar.half(near.named[0], int(word.startswith("second")))
    places = {"early": 0, "start": 0, "beginning": 0, "mid": 1, "middle": 1}
    return calendar.third(near.named[0], places.get(word, 2))


_CLOCK: Final = (
    r"(?P<clock>[012]?\d:[0-5]\d(?::[0-5]\d)?(?:\s*[ap]\.?m\b)?|1?\d\s*[ap]m\b|noon\b|midnight\b)"
)
_THE: Final = r"(?:the\s+)?"
_UNITS_AWAY: Final = rf"{COUNT}\s+{UNIT}\s+(?P<side>before|after|prior to)\s+{_THE}{MARK}"
_WHAT: Final = r"(?P<what>day|week|weekend|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
_PIECE: Final = (
    # A verb otherwise: "talks start next week", "we start in June".
    r"(?P<piece>early|late|mid|(?:middle|start|beginning|end)(?=\s+of\b)|(?:first|second)\s+half"
    r"|(?:first|second|third|fourth|last)\s+week)"
)
_TO: Final = r"to|until|till|through|thru|-|–"  # noqa: RUF001 as typed
BOUNDS: Final[tuple[tuple[str, Around], ...]] = (
    (rf"{MARK}(?:'s)?,?\s+(?:(?:at|around|about)\s+)?{_CLOCK}", _at),
    (rf"\b{_CLOCK},?\s+(?:on\s+|of\s+)?{_THE}{MARK}", _at),
    (rf"{MARK}\s+(?:in\s+the\s+)?{PART}", _part),
    (rf"\b(?:(?:in|on)\s+)?{_THE}{PART}\s+of\s+{_THE}{MARK}", _part),
    (rf"\b(?P<all>in|during|over|within|for)\s+the\s+{_UNITS_AWAY}", _offset),
    (rf"\b(?P<all>(?!)x)?{_UNITS_AWAY}", _offset),
    (
        rf"\b{_THE}(?:(?:last|next|first)\s+)?{_WHAT}\s+(?P<side>before|after)\s+{_THE}{MARK}",
        _adjacent,
    ),
    (rf"\b{_THE}{_PIECE}[\s-]+(?:(?:in|of)\s+)?{_THE}{MARK}", _piece),
    (rf"\b{_THE}week\s+(?:of|starting|beginning)\s+{_THE}{MARK}", _week_of),
    (
        rf"\bbetween\s+{_THE}{MARK}\s+and\s+{_THE}{MARK}",
        lambda near: calendar.between(*near.named),
    ),
    (
        rf"(?:\bfrom\s+{_THE})?{MARK}\s*(?:{_TO})\s*{_THE}{MARK}",
        lambda near: calendar.between(*near.named),
    ),
    (
        rf"\b(?:before|prior\s+to|earlier\s+than)\s+{_THE}{MARK}",
        lambda near: calendar.until_start(near.named[0]),
    ),
    (
        rf"\b(?:after|later\s+than)\s+{_THE}{MARK}",
        lambda near: calendar.from_end(near.named[0], near.now),
    ),
    (
        rf"\b(?:ever\s+since|since|starting)\s+{_THE}{MARK}",
        lambda near: calendar.from_start(near.named[0], near.now),
    ),
    (
        rf"(?:\bfrom\s+{_THE})?{MARK}\s+(?:onwards?|on)\b",
        lambda near: calendar.from_start(near.named[0], near.now),
    ),
    (
        rf"{MARK}\s+(?:and|or)\s+(?:on\s+)?{_THE}{MARK}",
        lambda near: calendar.both(*near.named),
    ),
    (
        rf"\b(?:until|till|up\s+to|up\s+until|through|by|no\s+later\s+than)\s+{_THE}{MARK}",
        lambda near: calendar.until_end(near.named[0]),
    ),
)


@dataclass(frozen=True, slots=True)
class _Phrase:
    """The period of a mark, and the text that it replaced."""

    named: Named
    source: str
    is_dated: bool
    """Whether it states its year; other expressions of the query may be relative to it."""


Dates = Sequence[tuple[str, Meaning]]
Accepts = Callable[[BeliefPeriod, re.Match[str]], bool]


@dataclass(slots=True)
class _ExpressionParser:
    """A text while its expressions are being parsed."""

    text: str
    now: datetime
    phrases: list[_Phrase]
    accepts: Accepts = lambda _, __: True

    def read_all(self, dates: Dates) -> str:
        """Read dates and then what surrounds them, and return the text with marks.

        Of a text in another language, only what is written in digits or translated is read.
        """
        is_read = is_english(self.text)
        for pattern, dated in dates if is_read else _IN_OTHER_LANGUAGES:
            self.read(_compiled(pattern), lambda near, dated=dated: dated(near.match, near.now))
        if self.phrases and is_read:
            for pattern, meaning in BOUNDS:
                self.read(_compiled(pattern), meaning)
        return self.text

    def read(self, pattern: re.Pattern[str], meaning: Around) -> None:
        """Replace each match of a pattern by a mark.

        A match that is not a valid date, such as 31 June, stays.
        """
        start = 0
        while match := pattern.search(self.text, start):
            first = match.end("keep") if "keep" in pattern.groupindex else match.start()
            phrase = self.text[first : match.end()]
            inside = [self.of(mark) for mark in _MARKED.findall(phrase)]
            try:
                named = meaning(_Near(match, [one.named for one in inside], self.now))
            except (ValueError, OverflowError):
                named = None
            if named is None or not self.accepts(named.span, match):
                start = match.start() + 1
                continue
            mark = chr(_FIRST_MARK + len(self.phrases))
            given = match.groupdict()
            is_dated = bool(given.get("year") or given.get("short"))
            is_dated = is_dated or any(one.is_dated for one in inside)
            self.phrases.append(_Phrase(named, self.original(phrase), is_dated))
            self.text = f"{self.text[:first]}{mark}{self.text[match.end() :]}"
            start = first + 1

    def of(self, mark: str) -> _Phrase:
        """Return the phrase of a mark."""
        return self.phrases[ord(mark) - _FIRST_MARK]

    def original(self, text: str) -> str:
        """Restore the text that marks replaced."""
        return _MARKED.sub(lambda match: self.of(match[0]).source, text)


def names_time(text: str) -> bool:
    """Return whether a text contains a word that may name a time."""
    return _NAMED.search(text) is not None


class TimeRange(NamedTuple):
    """The period that a query names."""

    period: BeliefPeriod
    rest: str
    """The query without the expression."""
    coming: BeliefPeriod | None
    """The next such period, if the expression leaves open which: "on Friday", "in March"."""


def parse_time_range(query: str, now: datetime) -> TimeRange | None:
    """Return the period that a query names; without a year, the latest."""
    reading = _read(query[:_READ], now)
    marks = list(_MARKED.finditer(reading.text)) if reading else []
    if not reading or not marks:
        return None
    meant = next((mark for mark in marks if reading.of(mark[0]).is_dated), marks[0])
    before = reading.original(reading.text[: meant.start()])
    after = reading.original(reading.text[meant.end() :])
    named = reading.of(meant[0]).named
    return TimeRange(named.span, f"{before} {after}{query[_READ:]}", calendar.coming(named))


def parse_time_expression(given: datetime | str, now: datetime, *, ends: bool = False) -> datetime:
    """Parse a bound: ISO 8601, or English words for a time.

    A date or a period means its first instant, or its last with `ends`.

    Raises:
        InvalidInputError: it is neither.

    """
    instant = find_instant(given, now, ends=ends) if isinstance(given, str) else to_utc(given)
    if instant is not None:
        return instant
    raise InvalidInputError(
        f"{str(given)[:80]!r} is not a time.",
        hint="Give ISO 8601, such as 2026-03-31, or words, such as yesterday or 2 weeks ago.",
    )


def find_instant(text: str, now: datetime, *, ends: bool = False) -> datetime | None:
    """Return the first instant of the time that a text names, or its last.

    None if it names none.
    """
    try:
        return parse_instant(text, ends_day=ends)
    except InvalidInputError:
        text = text.strip()
        if text.casefold() == "now":
            return now
    for lead in _LEADS:
        span = _whole_text(f"{lead}{text}", now)
        edge = span and (span.until - TICK if ends else span.since)
        if edge and EARLIEST < edge < LATEST - DAY:
            return edge
    return None


def _whole_text(text: str, now: datetime) -> BeliefPeriod | None:
    """Return the period of a text that is nothing but a time expression."""
    reading = _read(text, now) if len(text) <= _READ else None
    if reading is None or not _ALONE.fullmatch(reading.text):
        return None
    return reading.phrases[-1].named.bounding


def may_name_time(text: str) -> bool:
    """Return whether a text has a word that every expression of the grammar has one of.

    Any text in another language may name one.
    """
    return _HINT.search(text) is not None or not is_english(text)


def read_phrases(
    text: str, now: datetime, *, dates: Dates, accepts: Accepts
) -> list[tuple[str, Named, bool]]:
    """Read the expressions of a text by a table of dates, in order.

    Returns:
        The words of each, what they name, and whether they name its year. Where a bound such as
        "by Friday" leaves the period open, it is that of the date alone.

    """
    reading = _ExpressionParser(text, now, [], accepts)
    marks = _MARKED.findall(reading.read_all(dates)) if not _MARKED.search(text) else []
    return [(one.source, one.named, one.is_dated) for one in map(reading.of, marks)]


def _translation(english: str) -> Meaning:
    """Return what parses the English for an expression of another language."""

    def read(match: re.Match[str], now: datetime) -> Named:
        reading = _ExpressionParser(english.format(*match.groups()), now, [])
        reading.read_all(DATES)
        if not reading.phrases:
            msg = "It is no date, such as 31.02.2026."
            raise ValueError(msg)
        return reading.phrases[-1].named

    return read


_IN_OTHER_LANGUAGES: Final = (
    *WRITTEN_IN_DIGITS,
    *((pattern, _translation(english)) for pattern, english in TRANSLATIONS),
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile on first use; most queries name no time."""
    return re.compile(pattern, re.IGNORECASE)


def _read(text: str, now: datetime) -> _ExpressionParser | None:
    """Parse all expressions of a text; None if there are none or it already contains marks."""
    if not may_name_time(text) or _MARKED.search(text):
        return None
    reading = _ExpressionParser(text, now, [])
    reading.read_all(DATES)
    return reading
