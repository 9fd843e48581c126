"""The dates that a statement mentions, from when it was made: "the audit is next Friday".

They are read by the grammar of questions. In a question "on Friday" is the last one; a statement
says by its tense whether it means the last or the coming one. Habits ("every Friday") and durations
("built in two weeks", "within 30 days") are no dates.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Final

from commonbrain.model.limits import NAME_CHARS_MAX
from commonbrain.model.revision import BeliefPeriod
from commonbrain.model.values import dataclass, replace
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import split_sentences
from commonbrain.text.time_expressions.calendar import (
    DAY,
    EARLIEST,
    LATEST,
    TICK,
    Named,
    coming,
    whole,
)
from commonbrain.text.time_expressions.grammar import MARK, STATED, Meaning
from commonbrain.text.time_expressions.parser import may_name_time, read_phrases
from commonbrain.text.words import IRREGULAR_FORMS, UNCHANGED

_CHARS_MAX: Final = 4000
"""Characters of a text that are read."""
_SENTENCE_CHARS_MAX: Final = 500
_MENTIONS_MAX: Final = 8
_CACHED: Final = 512
_SIGN: Final = "@"
"""No topic that is read from a text begins with it."""
_NOTE: Final = "@:"
_NOTES_MAX: Final = 3
_MARKED_DAYS_MAX: Final = 31
"""Days of a mention by which it is found; of a longer one, the first."""
_MARKS_MAX: Final = 62
_DAYS_MAX: Final = 100
"""Days of a period whose mentions are searched; a longer one is asked for by its topic."""

_COMING: Final = (
    r"will|'ll|won't|shall|must|should|can|may|has to|have to|going to|(?:it|he|she|that|there)'s"
    r"|to be(?:\s+\w+ed)?|(?:is|are|am|isn't|aren't|be)(?:\s+(?:not|now|being))?(?:\s+\w+ed)?"
    r"|(?:agreed|decided|planned|promised|wants?|wanted|needs?|supposed|expected|hopes?|due) to"
)
_PAST: Final = (
    r"was|were|had|did|didn't|been|got|[a-z]{2,}[^e\W]ed|"
    + "|".join(sorted(IRREGULAR_FORMS))
    + rf"|(?:I|we|you|he|she|it|they|who|(?-i:[A-Z][a-z]+))\s+(?:{'|'.join(sorted(UNCHANGED))})"
)
_TENSE: Final = lazy_pattern(rf"\b(?:(?P<coming>{_COMING})|(?P<past>{_PAST}))\b", re.IGNORECASE)
"""Verbs by which a sentence is about the past or about what is to come."""
_ONCE: Final = lazy_pattern(
    r"\b(?:will|'ll|won't|shall|going to|to be|due|deadline|moved|postponed"
    rf"|planned|agreed|decided|promised|(?<!is )(?<!are )(?:{_PAST}))\b",
    re.IGNORECASE,
)
"""Words of what happens once."""
_WEEKDAY: Final = lazy_pattern(
    r"(?:on\s+)?(?:mon|tues|wednes|thurs|fri|satur|sun)day\b", re.IGNORECASE
)
"""A weekday without a word that says which."""
_TARGET: Final = lazy_pattern(
    r"\b(?:to|by|until|till|for|before|(?:effective|starting|as|valid)(?:\s+(?:from|of))?)"
    r"\s+(?:the\s+)?$",
    re.IGNORECASE,
)
"""Words before a date to come, even after a verb of the past: "moved to Thursday"."""
_MOVED_FROM: Final = lazy_pattern(
    r"\b(?:mov|postpon|chang|push|shift|reschedul|delay)(?:e[sd]?|s|ing)?\b"
    r"(?:\s+[\w'-]+){0,4}?\s+from\s+(?:the\s+)?$",
    re.IGNORECASE,
)
"""Words before the old date of what has a new one: "moved from Tuesday to Thursday"."""
_RANGE: Final = lazy_pattern(
    rf"(?P<lead>(?:from\s+)?(?:the\s+)?)(?:{MARK}|\d+)\s*(?:to|until|till|-)", re.IGNORECASE
)
_SINCE: Final = lazy_pattern(
    r"(?:^\W*(?:the|an?|my|our|your|his|her|its|their|this|that)\s+[\w-]+\s+from"
    r"|\bsince|\b(?<!as )(?<!end )(?<!start )(?<!beginning )(?<!middle )(?<!week )(?<!weekend )of)"
    r"\s+(?:the\s+)?$",
    re.IGNORECASE,
)
"""Words before a date that is over: "the minutes of 4 March", but not "by the end of May"."""
_SUBJECTS: Final = (
    r"(?:I|we|you|he|she|it|they|there)\b"
    # One verb: "the flood was on Monday, the fire on Tuesday", "by Bob, the owner, on Monday".
    r"|(?:the|an?|my|our|your|his|her|its|their|this|that)\s+(?!\w+\s+(?:on|in|at|by|from)\b)"
    r"(?![^,;]{0,80}(?:,|\band\b))"
)
_NEW_CLAUSE: Final = lazy_pattern(
    rf";|,\s+(?:(?:and|but|so|yet|while|whereas)\s+)?(?={_SUBJECTS})"
    r"|\s(?:and|but|so)\s+(?=(?:I|we|he|she|it|they)\b)"
    rf"|\b(?:said|told\s+(?:me|us|him|her|them)|that)\s+(?={_SUBJECTS}|(?-i:[A-Z]))",
    re.IGNORECASE,
)
"""Where a clause ends, after which another has a verb of its own."""
_LEAD_IN: Final = lazy_pattern(
    r"\W*(?:(?:and|but|so|then)\s+)?(?:on|in|at|by|since|after|before|until|from|during|last|next"
    rf"|when|if|once|as|yesterday|today|tomorrow)\b|\W*{MARK}",
    re.IGNORECASE,
)
"""What begins a sentence before its clause: "On Monday, the door broke"."""
_HABIT: Final = lazy_pattern(
    r"\b(?:every|each|always|never|usually|often|weekly|daily|monthly|regularly"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day(?:s|\s+(?:morning|afternoon|evening|night)s))\b",
    re.IGNORECASE,
)
_LIMIT: Final = lazy_pattern(r"\b(?:can|could|expires?|due|within|takes?|took)\b", re.IGNORECASE)
"""Words of durations: "expires in 30 days", "can be built in a week"."""


@dataclass(frozen=True, slots=True)
class DateMention:
    """A date in a text: the words for it, and the period that they name."""

    phrase: str
    span: BeliefPeriod
    is_dated: bool
    """Whether the words name the year, or the date in the year, so that a reader needs no note."""
    is_once: bool = True
    """Whether it cannot be a habit: "rubbish is collected on Tuesday" may mean every Tuesday."""

    @property
    def first(self) -> str:
        """The first day: "2026-03-27"."""
        since, length = self.span.since, self.span.until - self.span.since
        # A time of day is the middle of an hour.
        return f"{since + length / 2 if length <= DAY / 24 else since:%Y-%m-%d}"

    @property
    def days(self) -> str:
        """The first and the last day: "2026-03-27", "2026-03-23 to 2026-03-29"."""
        last = f"{self.span.until - TICK:%Y-%m-%d}"
        # A night is of the day on which it begins.
        is_one = self.first == last or self.span.until - self.span.since < DAY
        return self.first if is_one else f"{self.first} to {last}"


@lru_cache(maxsize=_CACHED)
def mentions_in(text: str, now: datetime) -> tuple[DateMention, ...]:
    """List the dates that a statement made at `now` mentions, in order, at most eight."""
    sentences = split_sentences(text[:_CHARS_MAX]) if may_name_time(text[:_CHARS_MAX]) else ()
    mentions = (
        mention
        for one in sentences
        if len(one) <= _SENTENCE_CHARS_MAX and may_name_time(one) and not one.endswith("?")
        for mention in _in_sentence(one, now)
    )
    return tuple(islice(mentions, _MENTIONS_MAX))


def _in_sentence(sentence: str, now: datetime) -> list[DateMention]:
    has_habit = _HABIT.search(sentence) is not None

    def directed(meaning: Meaning) -> Meaning:
        def read(match: re.Match[str], now: datetime) -> Named:
            named = meaning(match, now)
            is_duration = bool(match.groupdict().get("lead")) and _is_duration(match)
            if is_duration or (named.cycle and has_habit):
                msg = "It is a duration, or recurs."
                raise ValueError(msg)
            next_span = coming(named)
            if next_span is None or named.span.until > now:
                return named
            if _MOVED_FROM.search(_before(match)):
                # What was moved was near.
                is_over = now - named.span.until < next_span.since - now
            else:
                is_over = _is_past(match)
            return named if is_over else replace(named, span=next_span)

        return read

    dates = [(pattern, directed(meaning)) for pattern, meaning in STATED]
    phrases = read_phrases(
        sentence,
        now,
        dates=dates,
        accepts=lambda span, match: (
            span.since != EARLIEST
            and span.until not in {LATEST, now + TICK}
            and not _is_move(match)
        ),
    )
    is_of_one_time = _ONCE.search(sentence) is not None
    return [
        DateMention(
            source,
            named.span,
            is_dated or named.cycle == "year",
            is_once=is_of_one_time or _WEEKDAY.match(source) is None,
        )
        for source, named, is_dated in phrases
    ]


def _is_duration(match: re.Match[str]) -> bool:
    """Return whether "in two weeks" is how long something took, or in digits a limit."""
    return _is_past(match) or (match["count"].isdigit() and _LIMIT.search(match.string) is not None)


def _is_past(match: re.Match[str]) -> bool:
    """Return whether a clause is about the past: by the verb before the date, else after it."""
    at, before = len(_before(match)), _before(match)
    since, until = _clause_around(match.string, at)
    if _TARGET.search(before):
        return False
    if _SINCE.search(before[since:]):
        return True
    verbs = [*_TENSE.finditer(match.string, since, until)]
    earlier = [one for one in verbs if one.end() <= at]
    nearest = earlier[-1:] or [one for one in verbs if one.start() >= match.end()][:1]
    return bool(nearest) and nearest[0]["past"] is not None


def _is_move(match: re.Match[str]) -> bool:
    """Return whether two dates are the old and the new one of something that was moved."""
    # With words before it, an expression is the second date alone.
    both = None if "keep" in match.re.groupindex else _RANGE.match(match[0])
    at = match.start() + both.end("lead") if both else 0
    return _MOVED_FROM.search(match.string[:at]) is not None


def _before(match: re.Match[str]) -> str:
    """Return the text before a date."""
    at = match.end("keep") if "keep" in match.re.groupindex else match.start()
    return match.string[:at]


def _clause_around(sentence: str, at: int) -> tuple[int, int]:
    """Return where the clause begins and ends that has a place; what leads it in is part of it."""
    since = 0
    for cut in _NEW_CLAUSE.finditer(sentence):
        leads_in = cut[0] != ";" and _LEAD_IN.match(sentence, since)
        if leads_in and not _TENSE.search(sentence, since, cut.end()):
            continue
        if cut.end() > at:
            return since, cut.end()
        since = cut.end()
    return since, len(sentence)


def time_notes(text: str, now: datetime) -> Sequence[str]:
    """Return what the words for another day in a text mean: `"next Friday": 2026-03-27`."""
    others = _on_other_days(text, now)
    mentions = (one for one in others if one.is_once and not one.is_dated)
    return tuple(dict.fromkeys(f'"{one.phrase}": {one.days}' for one in mentions))


def date_marks(text: str, now: datetime) -> Sequence[str]:
    """Return topics: the other days by which a memory is found, and its notes.

    With the notes stored, no recall has to read its memories for times.
    """
    mentions = tuple(_on_other_days(text, now))
    first = [f"{_SIGN}{one.first}" for one in mentions]
    others = (
        mark
        for one in mentions
        if DAY <= one.span.until - one.span.since <= _MARKED_DAYS_MAX * DAY
        for mark in marks_of(one.span)
    )
    days = islice(dict.fromkeys((*first, *others)), _MARKS_MAX)
    notes = (f"{_NOTE}{note}" for note in time_notes(text, now)[:_NOTES_MAX])
    return [*sorted(days), *(one for one in notes if len(one) <= NAME_CHARS_MAX)]


def day_marks(at: datetime, now: datetime) -> Sequence[str]:
    """Return topics: the later day by which a planned event is found, and a note of it."""
    if at.date() <= now.date():
        return []
    return [f"{_SIGN}{at:%Y-%m-%d}", f"{_NOTE}planned for {at:%Y-%m-%d}"]


def notes_in(topics: Iterable[str]) -> Sequence[str]:
    """Return the notes among the topics of a memory."""
    return [one.removeprefix(_NOTE) for one in topics if one.startswith(_NOTE)]


def _on_other_days(text: str, now: datetime) -> Iterator[DateMention]:
    return (one for one in mentions_in(text, now) if one.days != f"{now:%Y-%m-%d}")


def marks_of(period: BeliefPeriod) -> Sequence[str]:
    """Return the topics of all days of a period; none if it is open or too long."""
    if period.until - period.since > _DAYS_MAX * DAY:
        return ()
    first = whole(period.since, "day").span.since
    count = (period.until - TICK - first) // DAY + 1
    return [f"{_SIGN}{first + day * DAY:%Y-%m-%d}" for day in range(count)]
