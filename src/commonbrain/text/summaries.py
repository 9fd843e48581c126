"""Extractive summaries: choose the clauses of an episode, and sentences that may become facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from commonbrain.text.capture import is_durable
from commonbrain.text.classification import without_tags
from commonbrain.text.clause_roles import (
    Role,
    clauses_of,
    role_of,
    shortened,
    states_cause,
    states_failure,
    without_label,
    without_lead,
)
from commonbrain.text.clauses import is_question, words
from commonbrain.text.headlines import shorten_to_headline
from commonbrain.text.open_points import settles
from commonbrain.text.segmentation import split_sentences
from commonbrain.text.statements import CHOICES, Reading, Statement, read_statement
from commonbrain.text.tokens import estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """One memory to summarize: its text, speaker and salience."""

    text: str
    speaker: str | None = None
    weight: float = 0.5
    """Salience, 0..1."""
    at: datetime | None = None
    """When it occurred."""
    author: str | None = None
    """Who wrote it, if no speaker is named."""

    @property
    def who(self) -> str | None:
        """The speaker, or else the author."""
        return self.speaker or self.author


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A clause or sentence of a summary, with the indexes of its sources."""

    text: str
    of: tuple[int, ...]
    role: Role | None = None
    """What it says, if that was recognized."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens spent on a language model; all 0 if none was asked."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.tokens_in + self.tokens_out

    def plus(self, other: Spent) -> Spent:
        """Return the sum of both."""
        return Spent(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
        )

    def as_counts(self) -> Mapping[str, int]:
        """Return the counts by name, as they appear in a job's result."""
        return {
            "calls": self.calls,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """A summary of several memories.

    `points` are in the order of their sources; `claims` are statements that may last, the most
    certain first. Without points there is no summary, and `fault` says why.
    """

    points: tuple[Point, ...] = ()
    headline: str = ""
    """The period and the main subjects."""
    claims: tuple[Point, ...] = ()
    spent: Spent = Spent()
    fault: str | None = None


_STATED_SHARE_MIN: Final = 0.7
"""Share of a sentence's words that must occur in its sources; the rest may connect them."""


def is_stated(text: str, sources: Sequence[str]) -> bool:
    """Return whether a sentence has only words, numbers, names and denials of its sources."""
    reading = read_statement(Statement(text=text))
    known = [read_statement(Statement(text=one)) for one in sources]
    words = frozenset[str]().union(*(one.content for one in known))
    numbers = frozenset[str]().union(*(one.numbers for one in known))
    if (
        not reading.content
        or not reading.numbers <= numbers
        or not reading.names <= words | numbers
    ):
        return False
    if reading.is_denied and not any(one.is_denied for one in known):
        return False
    return len(reading.content & words) >= _STATED_SHARE_MIN * len(reading.content)


_SHARE_MAX: Final = 3
"""An episode has at most one token for so many of its sources."""
_TOKENS_MAX: Final = 600
"""About a page; a recall has 1,400 tokens for its whole result."""
_CLAUSES_MAX: Final = 300
"""Candidate clauses at most; of many texts, the first clauses of each."""
_WORDS_MIN: Final = 2
"""Clauses with fewer content words and numbers are greetings or headings."""
_NEW_MIN: Final = 2
"""A clause must add at least this many new words."""
_WORTH: Final = {Role.DECIDED: 1.8, Role.OPEN: 1.8, Role.DONE: 1.1, Role.NOTED: 1.0}
_QUESTION: Final = 0.5
"""A question is worth less than a statement of what is open."""
_CAUSE: Final = 1.4
_NAMING: Final = 1.3
"""Bonus for a cause or lesson, and for each a name and a number."""
_DISTINCT: Final = 0.5
"""Share of its words that a decision or open point counts at least, also where others have them."""
_RECURRING: Final = 0.35
"""What each further source, up to three, adds to a word that several have."""
_PRICE: Final = 0.75
"""Without a price, long clauses would win; at 1, short ones that add little."""
_OVERHEAD: Final = 3
"""Tokens of a line's marker and end."""


_Subject = tuple[frozenset[str], frozenset[str]]
"""Content words and names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clause:
    written: str
    """As it occurs in the source, without a speaker."""
    text: str
    short: str
    """Without what subordinate clauses add."""
    of: int
    """Index of the source text."""
    role: Role
    reading: Reading
    worth: float
    """Value of each word: by the source's salience and by what the clause says."""
    tokens: int

    @property
    def words(self) -> frozenset[str]:
        """The content words."""
        return self.reading.content | self.reading.numbers

    @property
    def is_distinct(self) -> bool:
        """Whether another number, name or negation makes it another point, not a routine result."""
        return self.role in {Role.DECIDED, Role.OPEN} or states_failure(self.written)

    @property
    def subject(self) -> _Subject:
        """What it is about, for any number and negation; names may have numbers: db-1."""
        return self.reading.content, self.reading.names

    def adds(self, chosen: Iterable[_Clause], *, covered: AbstractSet[str]) -> bool:
        """Return whether it says something that the chosen clauses, with their words, do not."""
        if not self.is_distinct:
            return len(self.words - covered) >= _NEW_MIN
        return not any(
            self.words <= one.words and self.reading.is_denied == one.reading.is_denied
            for one in chosen
        )


def digest(sources: Sequence[SourceText], *, claims_max: int = 0) -> Reflection:
    """Choose the clauses of an episode, and the sentences that may last as facts.

    The result is deterministic. Headline and body have at most a third of the sources' tokens, and
    never more than 600; texts that are too short for that have no summary.

    Args:
        sources: the texts, in order of time.
        claims_max: the largest number of claims.

    """
    clauses = _without_routine(_without_settled(_clauses(sources)))
    if not clauses:
        return Reflection(fault="nothing_said")
    title = titled(_subjects(clauses), sources)
    chosen = _chosen(clauses, title=title, tokens=tokens_max(sources))
    if not chosen:
        return Reflection(fault="too_short")
    return Reflection(
        points=tuple(sorted(chosen, key=lambda one: (_ORDER[one.role], one.of))),
        headline=title,
        claims=tuple(islice(_claims(sources), claims_max)),
    )


_ORDER: Final = {role: place for place, role in enumerate((*Role, None))}


def tokens_max(sources: Sequence[SourceText]) -> int:
    """Return the tokens that a summary of texts may have."""
    return min(sum(estimate(one.text) for one in sources) // _SHARE_MAX, _TOKENS_MAX)


def fitted(
    points: Sequence[Point], *, headline: str, sources: Sequence[SourceText]
) -> Sequence[Point]:
    """Drop the last points until headline and body fit."""
    most = tokens_max(sources)
    chosen = list(points)
    while chosen and estimate(f"{headline}\n{body_of(chosen)}") > most:
        chosen.pop()
    return chosen


def titled(subject: str, sources: Sequence[SourceText]) -> str:
    """Return a headline: the period of the sources, and the subject."""
    times = [one.at for one in sources if one.at is not None]
    return ": ".join(filter(None, [_period(min(times), max(times)) if times else "", subject]))


def _period(start: datetime, end: datetime) -> str:
    """Return the days, or the minutes if they are less than half a day, in UTC."""
    first, last = start.astimezone(UTC), end.astimezone(UTC)
    if first.date() != last.date():
        return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"
    if last - first >= _WHOLE_DAY:
        return f"{first:%Y-%m-%d}"
    to = f"-{last:%H:%M}" if f"{last:%H:%M}" != f"{first:%H:%M}" else ""
    return f"{first:%Y-%m-%d %H:%M}{to}"


_WHOLE_DAY: Final = timedelta(hours=4)
"""From half a working day on, the day is the period."""


def body_of(points: Sequence[Point]) -> str:
    """Join points to a text: under what they say if that is known, else a line for each source."""
    lines: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    sections: defaultdict[Role, list[str]] = defaultdict(list)
    for point in points:
        if point.role is None:
            lines[point.of].append(point.text)
        else:
            sections[point.role].append(point.text)
    listed = [line for role in Role if sections[role] for line in (f"{role}:", *sections[role])]
    return "\n".join([*listed, *(" ".join(of_source) for of_source in lines.values())])


def spoken(text: str, speaker: str | None) -> str:
    """Prefix a sentence with its speaker, if there is one."""
    return f"{speaker}: {text}" if speaker else text


def _clauses(sources: Sequence[SourceText]) -> list[_Clause]:
    each = max(1, _CLAUSES_MAX // max(len(sources), 1))
    is_of_several = len({one.who for one in sources}) > 1
    return [
        clause
        for of, source in enumerate(sources)
        for clause in islice(_read(source, of=of, names_author=is_of_several), each)
    ]


def _read(source: SourceText, *, of: int, names_author: bool) -> Iterator[_Clause]:
    for clause in clauses_of(without_tags(source.text)):
        role = role_of(clause)
        reading = read_statement(Statement(text=clause))
        if role is None or len(reading.content) + len(reading.numbers) < _WORDS_MIN:
            continue
        speaker = source.who if names_author else source.speaker
        text = spoken(without_lead(clause), speaker)
        yield _Clause(
            written=clause,
            text=text,
            short=spoken(without_lead(shortened(clause)), speaker),
            of=of,
            role=role,
            reading=reading,
            worth=_worth(clause, reading, role=role, weight=source.weight),
            tokens=estimate(text) + _OVERHEAD,
        )


def _worth(clause: str, reading: Reading, *, role: Role, weight: float) -> float:
    worth = _WORTH[role] * (0.5 + weight)
    if is_question(clause):
        worth *= _QUESTION
    if states_cause(clause):
        worth *= _CAUSE
    return worth * _NAMING ** (bool(reading.names) + bool(reading.numbers))


def _without_settled(clauses: Sequence[_Clause]) -> list[_Clause]:
    """Drop what is open if a later clause settles it."""
    return [
        one
        for place, one in enumerate(clauses)
        if one.role is not Role.OPEN
        or not any(_settles(later, one) for later in clauses[place + 1 :])
    ]


def _without_routine(clauses: Sequence[_Clause]) -> list[_Clause]:
    """Keep the last of the results that differ in numbers alone, such as results of tests.

    Decisions, open points and failures that differ so are all kept.
    """
    last = _last_of_subjects(clauses)
    return [
        one for place, one in enumerate(clauses) if one.is_distinct or last[one.subject] == place
    ]


def _last_of_subjects(clauses: Sequence[_Clause]) -> Mapping[_Subject, int]:
    return {one.subject: place for place, one in enumerate(clauses)}


def _settles(later: _Clause, one: _Clause) -> bool:
    is_result = later.role in {Role.DECIDED, Role.DONE}
    is_other = later.of != one.of
    return is_result and is_other and settles(later.written, point=one.written)


def _chosen(clauses: Sequence[_Clause], *, title: str, tokens: int) -> list[Point]:
    """Choose clauses while they fit: the best of what was decided, open and done, then any.

    Each is worth its new words by the price of its tokens. An earlier decision follows the last on
    its subject, so that none appears without its reversal.
    """
    weights = _word_weights(clauses)
    last = _last_of_subjects(clauses)
    covered: set[str] = set()
    waiting = set(range(len(clauses)))
    taken: dict[int, _Clause] = {}
    chosen: list[Point] = []

    def gain(place: int) -> tuple[float, int]:
        one = clauses[place]
        new = sum(weights[word] for word in one.words - covered)
        if one.is_distinct:
            # Its words are covered by another decision or open point, and it is not.
            new = max(new, _DISTINCT * sum(weights[word] for word in one.words))
        return one.worth * new / one.tokens**_PRICE, -place

    firsts = [Role.DECIDED, Role.OPEN, Role.DONE]
    while eligible := [
        place for place in waiting if last[clauses[place].subject] in {place, *taken}
    ]:
        of_role = [place for place in eligible if firsts and clauses[place].role is firsts[0]]
        if firsts and not of_role:
            firsts.pop(0)
            continue
        best = max(of_role or eligible, key=gain)
        waiting.discard(best)
        one = clauses[best]
        if not one.adds(taken.values(), covered=covered):
            continue
        # Better the main clause of a decision than no decision.
        for text in (one.short, one.text) if of_role else (one.text,):
            longer = [*chosen, Point(text=text, of=(one.of,), role=one.role)]
            if estimate(f"{title}\n{body_of(longer)}") <= tokens:
                chosen = longer
                taken[best] = one
                covered |= one.words
                firsts = firsts[1:]
                break
    return chosen


def _word_weights(clauses: Sequence[_Clause]) -> Mapping[str, float]:
    """Weigh words by the number of sources that have them."""
    sources: defaultdict[str, set[int]] = defaultdict(set)
    for one in clauses:
        for word in one.words:
            sources[word].add(one.of)
    return {word: 1 + _RECURRING * min(len(of) - 1, 3) for word, of in sources.items()}


_SUBJECTS_MAX: Final = 3
_SUBJECT_WORDS: Final = (3, 2, 1)
_SUBJECT_CHARS_MIN: Final = 3
_NO_SUBJECTS: Final = frozenset("because both when which what who take more than one two".split())


def subjects(sources: Sequence[SourceText]) -> str:
    """Return the main subjects of texts, for a headline; empty if they say nothing."""
    clauses = _clauses(sources)
    return _subjects(clauses) if clauses else ""


def _subjects(clauses: Sequence[_Clause]) -> str:
    """Return the phrases that most sources share, or the best clause if they share none."""
    sources: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    written: dict[tuple[str, ...], str] = {}
    heads = frozenset[str]().union(*(one.reading.subject for one in clauses))
    for one in clauses:
        for phrase in _phrases(one):
            key = tuple(word.key for word in phrase)
            if key[-1] in heads:
                sources[key].add(one.of)
                written.setdefault(key, " ".join(word.text for word in phrase))
    shared = [key for key, of in sources.items() if len(of) > 1]
    chosen: list[tuple[str, ...]] = []
    for key in sorted(shared, key=lambda one: (-len(sources[one]) * len(one), one)):
        if len(chosen) < _SUBJECTS_MAX and not any(set(key) & set(one) for one in chosen):
            chosen.append(key)
    if not chosen:
        return shorten_to_headline(max(clauses, key=lambda one: one.worth).text)
    return ", ".join(written[key] for key in chosen)


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    key: str
    """The same for singular and plural."""


def _phrases(clause: _Clause) -> Iterator[Sequence[_Word]]:
    """Return the runs of content words in a clause, up to three words long."""
    run: list[_Word] = []
    runs = [run]
    for text in words(clause.text):
        key = next((one for one in (text, text[:-1], text[:-2]) if one in clause.words), None)
        is_noun = key is not None and key not in CHOICES | _NO_SUBJECTS and key.isalpha()
        if key is not None and is_noun and len(key) >= _SUBJECT_CHARS_MIN:
            run.append(_Word(text, key))
        else:
            run = []
            runs.append(run)
    for one in runs:
        for size in _SUBJECT_WORDS:
            for start in range(len(one) - size + 1):
                phrase = one[start : start + size]
                if not any(word.key.endswith("ed") for word in phrase):
                    yield phrase


def _claims(sources: Sequence[SourceText]) -> Iterator[Point]:
    """Return the sentences that may last, the most informative first."""
    lasting = [
        (sentence, of)
        for of, source in enumerate(sources)
        for one in split_sentences(without_tags(source.text))
        if (sentence := _claim(one)) is not None
    ]
    for sentence, of in sorted(lasting, key=lambda one: -_claim_worth(one[0], sources[one[1]])):
        yield Point(text=spoken(sentence, sources[of].speaker), of=(of,))


def _claim(sentence: str) -> str | None:
    """Return what may last of a sentence: all of it, without its label, or one of its clauses."""
    return next(
        filter(is_durable, (sentence, without_label(sentence), *clauses_of(sentence))), None
    )


def _claim_worth(sentence: str, source: SourceText) -> float:
    role = role_of(sentence) or Role.NOTED
    reading = read_statement(Statement(text=sentence))
    return _worth(sentence, reading, role=role, weight=source.weight)
