"""Extractive summaries: choose the sentences of an episode, and those that may become facts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from commonbrain.text.capture import is_durable, is_informative
from commonbrain.text.classification import without_tags
from commonbrain.text.segmentation import pieces
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
    """The most representative sentence."""
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


_EPISODE_SHARE_MAX: Final = 0.35
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
_INFORMATIVE: Final = 1.25
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


def digest(sources: Sequence[SourceText], *, claims_max: int = 0) -> Reflection:
    """Choose the sentences of an episode, and those that may last as facts.

    The result is deterministic. It uses at most a third of the sources' tokens, or 120 if they are
    short, and never more than 600; it has at least one sentence.

    Args:
        sources: the texts, in the order in which the summary presents them.
        claims_max: the largest number of claims.

    """
    sentences = _sentences(sources)
    if not sentences:
        return Reflection(fault="nothing_said")
    budget = min(
        max(_TOKENS_MIN, _EPISODE_SHARE_MAX * sum(estimate(one.text) for one in sources)),
        _TOKENS_MAX,
    )
    chosen = sorted(_chosen(sentences, budget=budget))
    return Reflection(
        points=tuple(_point(sentences[place], sources) for place in chosen),
        headline=_shared_most([sentences[place] for place in chosen], sentences).text,
        claims=tuple(islice(_claims(sentences, sources), claims_max)),
    )


def body_of(points: Sequence[Point]) -> str:
    """Join points to a text, with one line for each source."""
    lines: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for point in points:
        lines[point.of].append(point.text)
    return "\n".join(" ".join(words_of_source) for words_of_source in lines.values())


def spoken(text: str, speaker: str | None) -> str:
    """Prefix a sentence with its speaker, if there is one."""
    return f"{speaker}: {text}" if speaker else text


def _sentences(sources: Sequence[SourceText]) -> list[_Sentence]:
    each = max(1, _SENTENCES_MAX // max(len(sources), 1))
    return [one for of, text in enumerate(sources) for one in islice(_read(text, of=of), each)]


def _read(source: SourceText, *, of: int) -> Iterator[_Sentence]:
    for start, end in pieces(source.text):
        text = without_tags(source.text[start:end].strip())
        reading = read_statement(Statement(text=text))
        if len(reading.content) + len(reading.numbers) >= _WORDS_MIN:
            yield _Sentence(
                text=text,
                of=of,
                reading=reading,
                worth=_worth(text, reading, source=source),
                tokens=estimate(spoken(text, source.speaker)) + 1,
            )


def _worth(text: str, reading: Reading, *, source: SourceText) -> float:
    worth = 0.5 + source.weight
    if is_informative(text):
        worth *= _INFORMATIVE
    if reading.names or reading.numbers:
        worth *= _NAMING
    return worth if reading.is_claim else worth / _INFORMATIVE


def _chosen(sentences: Sequence[_Sentence], *, budget: float) -> list[int]:
    """Choose sentences greedily by new words per square root of their tokens, while they fit.

    Without the root, short sentences that add little would win; without a price, the longest.
    """
    covered: set[str] = set()
    waiting = set(range(len(sentences)))
    chosen: list[int] = []

    def gain(place: int) -> tuple[float, int]:
        one = sentences[place]
        return one.worth * len(one.words - covered) / math.sqrt(one.tokens), -place

    while waiting:
        best = max(waiting, key=gain)
        waiting.discard(best)
        one = sentences[best]
        if chosen and (one.tokens > budget or len(one.words - covered) < _NEW_MIN):
            continue
        chosen.append(best)
        budget -= one.tokens
        covered |= one.words
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


def _point(sentence: _Sentence, sources: Sequence[SourceText]) -> Point:
    return Point(text=spoken(sentence.text, sources[sentence.of].speaker), of=(sentence.of,))


def _claims(sentences: Sequence[_Sentence], sources: Sequence[SourceText]) -> Iterator[Point]:
    """Return the claims, the most informative first."""
    lasting = [one for one in sentences if is_durable(one.text)]
    for one in sorted(lasting, key=lambda one: -one.worth):
        yield _point(one, sources)
