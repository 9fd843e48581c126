"""Reflection: what several memories tell together, and what looking them through has cost."""

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
"""The label of episodes that a reflection made, and of the facts that it proposes."""
COMPACTED: Final = "compaction"
"""The label of an episode that sums up what was found of a question."""
CORRECTION: Final = "correction"
"""The label of rules that are proposed because the same was corrected again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """One memory that is reflected on: what it says, who says it, and how much it matters."""

    text: str
    speaker: str | None = None
    weight: float = 0.5
    """0..1, its salience."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A sentence of a reflection, with the places of those whom it is taken from."""

    text: str
    of: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What asking a language model has cost; nothing where none was asked."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.tokens_in + self.tokens_out

    def and_(self, other: Spent) -> Spent:
        """Add what was spent besides."""
        return Spent(
            calls=self.calls + other.calls,
            tokens_in=self.tokens_in + other.tokens_in,
            tokens_out=self.tokens_out + other.tokens_out,
        )

    def told(self) -> Mapping[str, int]:
        """Give the counts by name, as a job's result has them."""
        return {
            "calls": self.calls,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflection:
    """What several memories tell together.

    `points` are in the order of what they are taken from; `claims` state what may last, the surest
    first. Without points it is no reflection, and `fault` says why.
    """

    points: tuple[Point, ...] = ()
    headline: str = ""
    """The sentence that says most of it."""
    claims: tuple[Point, ...] = ()
    spent: Spent = Spent()
    fault: str | None = None


_TOLD_FROM: Final = 0.7
"""The share of a sentence's words that its sources must have; the rest joins them."""


def is_stated(text: str, sources: Sequence[str]) -> bool:
    """Say whether a sentence is made of the words of its sources, with no other number or name.

    It must deny nothing that none of them denies, either.
    """
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
"""The share of the tokens of its sources that an episode may take."""
_TOKENS_MIN: Final = 120
"""What three plain events take: so little is not worth being shortened."""
_TOKENS_MAX: Final = 600
"""A long page; a recall has 1,400 for all that it answers."""
_SENTENCES_MAX: Final = 300
"""Sentences that are chosen from; of many texts the first of each are."""
_WORDS_MIN: Final = 3
"""Fewer words that carry meaning are a greeting or a heading."""
_NEW_MIN: Final = 2
"""Who adds fewer words says what was said."""
_TELLING: Final = 1.25
_NAMING: Final = 1.1
"""How much more a decision, cause or lesson counts, and what names somebody or gives a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    text: str
    of: int
    """The place of the text that it stands in."""
    reading: Reading
    worth: float
    """What a word of it counts: by its source, and by what it tells."""
    tokens: int

    @property
    def words(self) -> frozenset[str]:
        """What carries its meaning."""
        return self.reading.content | self.reading.numbers


def digest(told: Sequence[SourceText], *, claims_max: int = 0) -> Reflection:
    """Choose the sentences of an episode, and those that state what may last.

    The same texts give the same digest. It takes at most a third of their tokens, or 120 where
    they have few, and never more than 600; one sentence there is always.

    Args:
        told: in the order in which they are told of.
        claims_max: how many claims at most.

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
    """Join points to a text: what is taken from one memory stands on one line."""
    lines: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for point in points:
        lines[point.of].append(point.text)
    return "\n".join(" ".join(said) for said in lines.values())


def spoken(text: str, speaker: str | None) -> str:
    """Say who said a sentence, where somebody did."""
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
    """Choose one by one what adds most new words for the root of its tokens, as long as it fits.

    Without the root short sentences would win that add little each; without a price the longest.
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
    """Give the sentence whose words most of the texts have, so that it can stand for them."""
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
    """Give what may last, what tells most first."""
    lasting = [one for one in sentences if is_durable(one.text)]
    for one in sorted(lasting, key=lambda one: -one.worth):
        yield _point(one, told)
