"""Extractive summaries: choose the sentences of an episode, and those that may become facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice
from typing import Final

from commonbrain.text.capture import is_durable
from commonbrain.text.classification import without_tags
from commonbrain.text.clauses import is_question
from commonbrain.text.quotations import without_quotations
from commonbrain.text.reports import (
    ClauseType,
    Content,
    clauses_of,
    read_content,
    role_of,
    settles,
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
    """A sentence of a summary, with the indexes of its sources."""

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
    """The period and the main subject."""
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
_SENTENCES_MAX: Final = 300
"""Candidate sentences at most; of many texts, the first sentences of each."""
_WORDS_MIN: Final = 2
"""Sentences with fewer content words and numbers are greetings or headings."""
_MUST_BE_SAID: Final = {ClauseType.DECIDED, ClauseType.OPEN}
"""They come before what was done or noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    written: str
    """As it occurs in the source, without a speaker."""
    text: str
    """Without an opening that the section says, after its speaker."""
    of: int
    """Index of the source text."""
    role: ClauseType
    content: Content
    salience: float

    @property
    def must_be_said(self) -> bool:
        """Whether it says what was decided or is open; a question does if a label says so."""
        is_labelled = without_label(self.written) != self.written
        return self.role in _MUST_BE_SAID and (is_labelled or not is_question(self.written))

    @property
    def importance(self) -> tuple[bool, float]:
        """What must be said first, by salience; the rest by content, too.

        Chat is seldom decided or open, and its most salient sentences say little.
        """
        named = self.content.names | self.content.numbers
        content = 1 if self.must_be_said else len(self.content.all) + len(named)
        return self.must_be_said, (0.5 + self.salience) * content


def digest(sources: Sequence[SourceText], *, claims_max: int = 0) -> Reflection:
    """Choose the sentences of an episode, and those that may last as facts.

    What was decided and what is open comes first, then what has most content, as far as it fits.
    The result is deterministic. Headline and body have at most a third of the sources' tokens, more
    only for what is open, and never more than 600; texts that are too short for that have no
    summary.

    Args:
        sources: the texts, in order of time.
        claims_max: the largest number of claims.

    """
    sentences = _without_settled(_sentences(sources))
    if not sentences:
        return Reflection(fault="nothing_said")
    title = titled(_subject(sentences), sources)
    whole = min(sum(estimate(one.text) for one in sources), _TOKENS_MAX)
    points: list[Point] = []
    for group in _by_subject(sentences):
        for one in group:
            longer = [*points, Point(text=one.text, of=(one.of,), role=one.role)]
            is_open = one.role is ClauseType.OPEN and one.must_be_said
            most = whole if is_open else tokens_max(sources)
            # No decision appears without its reversal.
            if estimate(f"{title}\n{body_of(longer)}") > most:
                break
            points = longer
    if not points:
        return Reflection(fault="too_short")
    return Reflection(
        points=tuple(sorted(points, key=lambda one: (_ORDER[one.role], one.of))),
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


def _sentences(sources: Sequence[SourceText]) -> list[_Sentence]:
    each = max(1, _SENTENCES_MAX // max(len(sources), 1))
    is_of_several = len({one.who for one in sources}) > 1
    sentences = (
        sentence
        for of, source in enumerate(sources)
        for sentence in islice(_read(source, of=of, names_author=is_of_several), each)
    )
    return list(islice(sentences, _SENTENCES_MAX))


def _read(source: SourceText, *, of: int, names_author: bool) -> Iterator[_Sentence]:
    speaker = source.who if names_author else source.speaker
    for sentence in split_sentences(without_tags(without_quotations(source.text))):
        role, content = role_of(sentence), read_content(sentence)
        if role is not None and len(content.all) >= _WORDS_MIN:
            yield _Sentence(
                written=sentence,
                text=spoken(without_lead(sentence), speaker),
                of=of,
                role=role,
                content=content,
                salience=source.weight,
            )


def _without_settled(sentences: Sequence[_Sentence]) -> list[_Sentence]:
    """Drop what is open if a later sentence of another text settles it."""
    return [
        one
        for place, one in enumerate(sentences)
        if one.role is not ClauseType.OPEN
        or not any(
            later.role in {ClauseType.DECIDED, ClauseType.DONE}
            and later.of != one.of
            and settles(later.written, point=one.written)
            for later in sentences[place + 1 :]
        )
    ]


def _by_subject(sentences: Sequence[_Sentence]) -> Sequence[Sequence[_Sentence]]:
    """Group sentences with the same words: the most important first, of each the last first.

    Of results that differ in numbers alone, such as results of tests, only the last is returned;
    decisions, open points and failures that differ so are all returned.
    """
    groups: defaultdict[AbstractSet[str], dict[Content, _Sentence]] = defaultdict(dict)
    for sentence in reversed(sentences):
        group = groups[sentence.content.words]
        if not group or sentence.role in _MUST_BE_SAID or states_failure(sentence.written):
            group.setdefault(sentence.content, sentence)
    return sorted(
        (tuple(group.values()) for group in reversed(groups.values())),
        key=lambda group: max(one.importance for one in group),
        reverse=True,
    )


_SUBJECT_WORDS_MAX: Final = 3
_SUBJECT_CHARS_MIN: Final = 3


def main_subject(sources: Sequence[SourceText]) -> str:
    """Return the main subject of texts, for a headline; empty if they share none."""
    return _subject(_sentences(sources))


def _subject(sentences: Sequence[_Sentence]) -> str:
    """Return the phrase that most sources share; empty if they share none."""
    sources: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    for one in sentences:
        for is_noun, group in groupby(read_words(one.written), key=_may_be_noun):
            run = [word.plain for word in group if is_noun]
            for start in range(len(run)):
                for end in range(start + 1, min(start + _SUBJECT_WORDS_MAX, len(run)) + 1):
                    sources[tuple(run[start:end])].add(one.of)
    shared = {phrase: len(of) * len(phrase) for phrase, of in sources.items() if len(of) > 1}
    return " ".join(max(shared, key=lambda phrase: (shared[phrase], phrase), default=()))


def _may_be_noun(word: Word) -> bool:
    is_name = word.sort in {Sort.WORD, Sort.NAME} and word.plain.isalpha()
    is_time = word.plain in GROUP_OF or word.plain.removesuffix("s") in UNITS
    is_long = len(word.plain) >= _SUBJECT_CHARS_MIN
    return is_name and is_long and not is_time and not word.plain.endswith("ed")


def _claims(sources: Sequence[SourceText]) -> Iterator[Point]:
    """Return the sentences that may last, the most informative first."""
    lasting = [
        (role_of(sentence) in _MUST_BE_SAID, source.weight, sentence, of)
        for of, source in enumerate(sources)
        for one in split_sentences(without_tags(without_quotations(source.text)))
        # All of it, without its label, or one of its clauses.
        for sentence in islice(filter(is_durable, (one, without_label(one), *clauses_of(one))), 1)
    ]
    for _, _, sentence, of in sorted(lasting, key=lambda one: one[:2], reverse=True):
        yield Point(text=spoken(sentence, sources[of].speaker), of=(of,))
