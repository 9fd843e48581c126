"""Extractive summaries: choose the sentences of an episode, and those that may become facts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from commonbrain.text.capture import is_durable, is_informative
from commonbrain.text.excerpts import pieces
from commonbrain.text.inline_tags import without_tags
from commonbrain.text.statements import Reading, Statement, read_statement
from commonbrain.text.tokens import estimate

SUMMARY: Final = "reflection"
"""Label of episodes made by a reflection, and of the facts that it proposes."""
COMPACTED: Final = "compaction"
"""Label of an episode that summarizes what was found for a question."""
CORRECTION: Final = "correction"
"""Label of rules proposed because the same correction was made several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """One memory to summarize: its text, speaker and salience."""

    text: str
    speaker: str | None = None
    weight: float = 0.5
    """Salience, 0..1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A sentence of a summary, with the indexes of its sources."""

    text: str
    of: tuple[int, ...]


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

    def and_(self, other: Spent) -> Spent:
        """Return the sum of both."""
        return Spent(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
        )

    def told(self) -> Mapping[str, int]:
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
    """The most representative sentence."""
    claims: tuple[Point, ...] = ()
    spent: Spent = Spent()
    fault: str | None = None


_TOLD_FROM: Final = 0.7
"""Share of a sentence's words that must occur in its sources; the rest may connect them."""


def is_stated(text: str, sources: Sequence[str]) -> bool:
    """Return whether a sentence consists of its sources' words, without a new number, name or
    denial."""
    said = read_statement(Statement(text=text))
    known = [read_statement(Statement(text=one)) for one in sources]
    words = frozenset[str]().union(*(one.content for one in known))
    numbers = frozenset[str]().union(*(one.numbers for one in known))
    if not said.content or not said.numbers <= numbers or not said.names <= words | numbers:
        return False
    if said.is_denied and not any(one.is_denied for one in known):
        return False
    return len(said.content & words) >= _TOLD_FROM * len(said.content)


_KEPT: Final = 0.35
"""Largest share of the sources' tokens that an episode may use."""
_TOKENS_MIN: Final = 120
"""Tokens of three plain events, which are not worth shortening."""
_TOKENS_MAX: Final = 600
"""About a page; a recall has 1,400 tokens for its whole result."""
_SENTENCES_MAX: Final = 300
"""Candidate sentences at most; of many texts, the first sentences of each."""
_WORDS_MIN: Final = 3
"""Sentences with fewer content words are greetings or headings."""
_NEW_MIN: Final = 2
"""A sentence must add at least this many new words."""
_TELLING: Final = 1.25
_NAMING: Final = 1.1
"""Bonus for a decision, cause or lesson, and for a name or a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    text: str
    of: int
    """Index of the source text."""
    reading: Reading
    worth: float
    """Value of each word: by the source's salience and by what the sentence states."""
    tokens: int

    @property
    def words(self) -> frozenset[str]:
        """The content words."""
        return self.reading.content | self.reading.numbers


def digest(told: Sequence[SourceText], *, claims_max: int = 0) -> Reflection:
    """Choose the sentences of an episode, and those that may last as facts.

    The result is deterministic. It uses at most a third of the sources' tokens, or 120 if they are
    short, and never more than 600; it has at least one sentence.

    Args:
        told: the sources, in the order in which the summary presents them.
        claims_max: the largest number of claims.

    """
    sentences = _sentences(told)
    if not sentences:
        return Reflection(fault="nothing_said")
    room = min(max(_TOKENS_MIN, _KEPT * sum(estimate(one.text) for one in told)), _TOKENS_MAX)
    chosen = sorted(_chosen(sentences, room=room))
    return Reflection(
        points=tuple(_point(sentences[place], told) for place in chosen),
        headline=_shared_most([sentences[place] for place in chosen], sentences).text,
        claims=tuple(islice(_claims(sentences, told), claims_max)),
    )


def body_of(points: Sequence[Point]) -> str:
    """Join points to a text, with one line for each source."""
    lines: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for point in points:
        lines[point.of].append(point.text)
    return "\n".join(" ".join(said) for said in lines.values())


def spoken(text: str, speaker: str | None) -> str:
    """Prefix a sentence with its speaker, if there is one."""
    return f"{speaker}: {text}" if speaker else text


def _sentences(told: Sequence[SourceText]) -> list[_Sentence]:
    each = max(1, _SENTENCES_MAX // max(len(told), 1))
    return [one for of, text in enumerate(told) for one in islice(_read(text, of=of), each)]


def _read(told: SourceText, *, of: int) -> Iterator[_Sentence]:
    for start, end in pieces(told.text):
        text = without_tags(told.text[start:end].strip())
        reading = read_statement(Statement(text=text))
        if len(reading.content) + len(reading.numbers) >= _WORDS_MIN:
            yield _Sentence(
                text=text,
                of=of,
                reading=reading,
                worth=_worth(text, reading, told=told),
                tokens=estimate(spoken(text, told.speaker)) + 1,
            )


def _worth(text: str, reading: Reading, *, told: SourceText) -> float:
    worth = 0.5 + told.weight
    if is_informative(text):
        worth *= _TELLING
    if reading.names or reading.numbers:
        worth *= _NAMING
    return worth if reading.is_claim else worth / _TELLING


def _chosen(sentences: Sequence[_Sentence], *, room: float) -> list[int]:
    """Choose sentences greedily by new words per square root of their tokens, while they fit.

    Without the root, short sentences that add little would win; without a price, the longest.
    """
    said: set[str] = set()
    waiting = set(range(len(sentences)))
    chosen: list[int] = []

    def gain(place: int) -> tuple[float, int]:
        one = sentences[place]
        return one.worth * len(one.words - said) / math.sqrt(one.tokens), -place

    while waiting:
        best = max(waiting, key=gain)
        waiting.discard(best)
        one = sentences[best]
        if chosen and (one.tokens > room or len(one.words - said) < _NEW_MIN):
            continue
        chosen.append(best)
        room -= one.tokens
        said |= one.words
    return chosen


def _shared_most(among: Sequence[_Sentence], sentences: Sequence[_Sentence]) -> _Sentence:
    """Return the sentence that shares most words with all texts, to represent them."""
    texts: defaultdict[str, set[int]] = defaultdict(set)
    for one in sentences:
        for word in one.words:
            texts[word].add(one.of)

    def shared(one: _Sentence) -> float:
        held = sum(math.log(len(texts[word])) for word in one.words)
        return one.worth * held / math.sqrt(len(one.words))

    return max(among, key=shared)


def _point(sentence: _Sentence, told: Sequence[SourceText]) -> Point:
    return Point(text=spoken(sentence.text, told[sentence.of].speaker), of=(sentence.of,))


def _claims(sentences: Sequence[_Sentence], told: Sequence[SourceText]) -> Iterator[Point]:
    """Return the claims, the most informative first."""
    lasting = [one for one in sentences if is_durable(one.text)]
    for one in sorted(lasting, key=lambda one: -one.worth):
        yield _point(one, told)
