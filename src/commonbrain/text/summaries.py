"""Extractive summaries: choose the clauses of an episode, and sentences that may become facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from typing import Final

from commonbrain.text.capture import is_durable
from commonbrain.text.classification import without_tags
from commonbrain.text.clauses import is_question
from commonbrain.text.frames import place_of_verb
from commonbrain.text.headlines import shorten_to_headline
from commonbrain.text.quotations import without_quotations
from commonbrain.text.reports import (
    ClauseType,
    Content,
    clauses_of,
    read_content,
    role_of,
    settles,
    shortened,
    states_failure,
    without_label,
    without_lead,
)
from commonbrain.text.segmentation import split_sentences
from commonbrain.text.tokens import estimate
from commonbrain.text.words import GROUP_OF, UNITS, Sort, Word, read_words


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
    role: ClauseType | None = None
    """What it says, if that was recognized."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCost:
    """Tokens spent on a language model; all 0 if none was asked."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.tokens_in + self.tokens_out

    def plus(self, other: TokenCost) -> TokenCost:
        """Return the sum of both."""
        return TokenCost(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
        )


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
    spent: TokenCost = TokenCost()
    fault: str | None = None


_STATED_SHARE_MIN: Final = 0.7
"""Share of a sentence's words that must occur in its sources; the rest may connect them."""


def is_stated(text: str, sources: Sequence[str]) -> bool:
    """Return whether a sentence has only words, numbers, names and denials of its sources."""
    content, known = read_content(text), [read_content(one) for one in sources]
    words = frozenset[str]().union(*(one.words for one in known))
    numbers = frozenset[str]().union(*(one.numbers for one in known))
    if not content.words or not content.numbers <= numbers or not content.names <= words:
        return False
    if content.is_denied and not any(one.is_denied for one in known):
        return False
    return len(content.words & words) >= _STATED_SHARE_MIN * len(content.words)


_SHARE_MAX: Final = 3
"""An episode has one token for so many of its sources; what is open may take more."""
_TOKENS_MAX: Final = 600
"""About a page; a recall has 1,400 tokens for its whole result."""
_CLAUSES_MAX: Final = 300
"""Candidate clauses at most; of many texts, the first clauses of each."""
_WORDS_MIN: Final = 2
"""Clauses with fewer content words and numbers are greetings or headings."""
_LONG_SHARE: Final = 0.25
"""A clause that would take more of the tokens than this is reduced to its main clause."""
_MUST_BE_SAID: Final = {ClauseType.DECIDED, ClauseType.OPEN}
"""They come before what was done or noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clause:
    written: str
    """As it occurs in the source, without a speaker."""
    text: str
    short: str
    """Without what subordinate clauses add."""
    of: int
    """Index of the source text."""
    role: ClauseType
    content: Content
    weight: float
    """The salience of its source, from 0.5."""
    must_be_said: bool
    """Whether it was decided, or is open."""

    @property
    def is_distinct(self) -> bool:
        """Whether another number or negation makes it another point, not a routine result."""
        return self.role in _MUST_BE_SAID or states_failure(self.written)

    def is_in(self, other: _Clause) -> bool:
        """Return whether another clause says the same and more."""
        is_same_way = self.content.is_denied == other.content.is_denied
        return is_same_way and self.content.all <= other.content.all


def digest(sources: Sequence[SourceText], *, claims_max: int = 0) -> Reflection:
    """Choose the clauses of an episode, and the sentences that may last as facts.

    The result is deterministic. Headline and body have at most a third of the sources' tokens, more
    only for what is open, and never more than 600; texts that are too short for that have no
    summary.

    Args:
        sources: the texts, in order of time.
        claims_max: the largest number of claims.

    """
    clauses = _without_routine(_without_settled(_clauses(sources)))
    if not clauses:
        return Reflection(fault="nothing_said")
    title = titled(_subjects(clauses), sources)
    chosen = _chosen(clauses, title=title, sources=sources)
    if not chosen:
        return Reflection(fault="too_short")
    return Reflection(
        points=tuple(sorted(chosen, key=lambda one: (_ORDER[one.role], one.of))),
        headline=title,
        claims=tuple(islice(_claims(sources), claims_max)),
    )


_ORDER: Final = {role: place for place, role in enumerate((*ClauseType, None))}


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
    sections: defaultdict[ClauseType, list[str]] = defaultdict(list)
    for point in points:
        if point.role is None:
            lines[point.of].append(point.text)
        else:
            sections[point.role].append(point.text)
    listed = [
        line for role in ClauseType if sections[role] for line in (f"{role}:", *sections[role])
    ]
    return "\n".join([*listed, *(" ".join(of_source) for of_source in lines.values())])


def spoken(text: str, speaker: str | None) -> str:
    """Prefix a sentence with its speaker, if there is one."""
    return f"{speaker}: {text}" if speaker else text


def _clauses(sources: Sequence[SourceText]) -> list[_Clause]:
    each = max(1, _CLAUSES_MAX // max(len(sources), 1))
    is_of_several = len({one.who for one in sources}) > 1
    clauses = (
        clause
        for of, source in enumerate(sources)
        for clause in islice(_read(source, of=of, names_author=is_of_several), each)
    )
    return list(islice(clauses, _CLAUSES_MAX))


def _read(source: SourceText, *, of: int, names_author: bool) -> Iterator[_Clause]:
    speaker = source.who if names_author else source.speaker
    for clause in clauses_of(without_tags(without_quotations(source.text))):
        role, content = role_of(clause), read_content(clause)
        if role is not None and len(content.all) >= _WORDS_MIN:
            yield _Clause(
                written=clause,
                text=spoken(without_lead(clause), speaker),
                short=spoken(without_lead(shortened(clause)), speaker),
                of=of,
                role=role,
                content=content,
                weight=0.5 + source.weight,
                # A question says less than a statement of what is open.
                must_be_said=role in _MUST_BE_SAID and not is_question(clause),
            )


def _without_settled(clauses: Sequence[_Clause]) -> list[_Clause]:
    """Drop what is open if a later clause of another text settles it."""
    return [
        one
        for place, one in enumerate(clauses)
        if one.role is not ClauseType.OPEN
        or not any(
            later.role in {ClauseType.DECIDED, ClauseType.DONE}
            and later.of != one.of
            and settles(later.written, point=one.written)
            for later in clauses[place + 1 :]
        )
    ]


def _without_routine(clauses: Sequence[_Clause]) -> list[_Clause]:
    """Keep the last of the results that differ in numbers alone, such as results of tests.

    Decisions, open points and failures that differ so are all kept.
    """
    last = _last_of_subjects(clauses)
    return [
        one
        for place, one in enumerate(clauses)
        if one.is_distinct or last[one.content.words] == place
    ]


def _last_of_subjects(clauses: Sequence[_Clause]) -> Mapping[AbstractSet[str], int]:
    return {one.content.words: place for place, one in enumerate(clauses)}


def _chosen(
    clauses: Sequence[_Clause], *, title: str, sources: Sequence[SourceText]
) -> list[Point]:
    """Choose the best clauses while they fit.

    What was decided and what is open comes first, and what is open is never left out for its
    length. Each clause is worth its new words, names and numbers twice, by the tokens that it
    takes. An earlier decision follows the last on its subject, so that none appears without its
    reversal.
    """
    tokens = tokens_max(sources)
    whole = min(sum(estimate(one.text) for one in sources), _TOKENS_MAX)
    last = _last_of_subjects(clauses)
    covered: set[str] = set()
    waiting = set(range(len(clauses)))
    taken: dict[int, _Clause] = {}
    chosen: list[Point] = []

    def gain(place: int) -> tuple[bool, float, int]:
        one = clauses[place]
        new = one.content.all - covered
        named = new & (one.content.names | one.content.numbers)
        return one.must_be_said, one.weight * (len(new) + len(named)) / estimate(one.text), -place

    while eligible := [
        place for place in waiting if last[clauses[place].content.words] in {place, *taken}
    ]:
        best = max(eligible, key=gain)
        waiting.discard(best)
        one = clauses[best]
        if any(one.is_in(other) for other in taken.values()):
            continue
        # Better the main clause of it than nothing of another.
        is_long = estimate(one.text) > tokens * _LONG_SHARE
        for text in (one.text, one.short)[is_long:]:
            longer = [*chosen, Point(text=text, of=(one.of,), role=one.role)]
            is_open = one.role is ClauseType.OPEN and not _is_taken_up(one, clauses[best + 1 :])
            most = whole if one.must_be_said and is_open else tokens
            if estimate(f"{title}\n{body_of(longer)}") <= most:
                chosen = longer
                taken[best] = one
                covered |= one.content.all
                break
    return chosen


def _is_taken_up(one: _Clause, later: Sequence[_Clause]) -> bool:
    """Return whether a later clause that is not open has half of its words."""
    words = one.content.words
    return any(
        2 * len(words & other.content.words) >= len(words)
        for other in later
        if other.role is not ClauseType.OPEN
    )


_SUBJECTS_MAX: Final = 3
_SUBJECT_WORDS_MAX: Final = 3
_SUBJECT_CHARS_MIN: Final = 3


def subjects(sources: Sequence[SourceText]) -> str:
    """Return the main subjects of texts, for a headline; empty if they say nothing."""
    clauses = _clauses(sources)
    return _subjects(clauses) if clauses else ""


def _subjects(clauses: Sequence[_Clause]) -> str:
    """Return the phrases that most sources share, or the best clause if they share none."""
    sources: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    written: dict[tuple[str, ...], str] = {}
    texts = [read_words(one.written) for one in clauses]
    heads = {word.key for words in texts for word in words[: place_of_verb(words) or 0]}
    for one, words in zip(clauses, texts, strict=True):
        for is_noun, group in groupby(words, key=_may_be_noun):
            run = list(group)
            for phrase in (run[-size:] for size in range(1, _SUBJECT_WORDS_MAX + 1) if is_noun):
                if phrase[-1].key in heads:
                    key = tuple(word.key for word in phrase)
                    sources[key].add(one.of)
                    written.setdefault(key, " ".join(word.plain for word in phrase))
    shared = [key for key, of in sources.items() if len(of) > 1]
    chosen: list[tuple[str, ...]] = []
    for key in sorted(shared, key=lambda one: (-len(sources[one]) * len(one), one)):
        if len(chosen) < _SUBJECTS_MAX and not any(set(key) & set(one) for one in chosen):
            chosen.append(key)
    if not chosen:
        return shorten_to_headline(
            max(clauses, key=lambda one: (one.must_be_said, one.weight)).text
        )
    return ", ".join(written[key] for key in chosen)


def _may_be_noun(word: Word) -> bool:
    is_name = word.sort in {Sort.WORD, Sort.NAME} and word.plain.isalpha()
    is_time = word.plain in GROUP_OF or word.plain.removesuffix("s") in UNITS
    is_long = len(word.plain) >= _SUBJECT_CHARS_MIN
    return is_name and is_long and not is_time and not word.plain.endswith("ed")


def _claims(sources: Sequence[SourceText]) -> Iterator[Point]:
    """Return the sentences that may last, the most informative first."""
    lasting = [
        (role_of(sentence) in _MUST_BE_SAID, 0.5 + source.weight, sentence, of)
        for of, source in enumerate(sources)
        for one in split_sentences(without_tags(without_quotations(source.text)))
        # All of it, without its label, or one of its clauses.
        for sentence in islice(filter(is_durable, (one, without_label(one), *clauses_of(one))), 1)
    ]
    for _, _, sentence, of in sorted(lasting, key=lambda one: one[:2], reverse=True):
        yield Point(text=spoken(sentence, sources[of].speaker), of=(of,))
