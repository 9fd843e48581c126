"""A digest of several texts: the sentences that say most of what all of them say, each once.

Sentences are weighed by how central they are (LexRank: Erkan and Radev, 2004, a random walk over
sentences that share words) and chosen so that each says something new (maximal marginal relevance:
Carbonell and Goldstein, 1998). No word is added to them but who said them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from commonbrain.domain.capture import is_telling
from commonbrain.domain.durable import is_durable
from commonbrain.domain.excerpt import pieces
from commonbrain.domain.marks import unmarked
from commonbrain.domain.reflection import Point, Reflection, Told
from commonbrain.domain.statement import Reading, Statement, read
from commonbrain.domain.tokens import estimate

_KEPT: Final = 0.35
"""The share of the tokens of its sources that an episode may take."""
_TOKENS_MIN: Final = 120
"""What three plain events take: so little is not worth being shortened."""
_TOKENS_MAX: Final = 600
"""A long page; a recall has 1,400 for all that it answers."""
_SENTENCES_MAX: Final = 300
"""Sentences that are held against each other; of many texts the first of each are."""
_WORDS_MIN: Final = 3
"""Fewer words that carry meaning are a greeting or a heading."""
_DAMPING: Final = 0.85
_ROUNDS: Final = 12
"""Steps of the walk; a tenth of them settles which sentences come first."""
_NOVELTY: Final = 0.4
"""How much being new counts beside being central, which has the rest."""
_SAID: Final = 0.75
"""So like to one that was chosen, a sentence says nothing more."""
_TELLING: Final = 1.25
_NAMING: Final = 1.1
"""How much more a decision, cause or lesson counts, and what names somebody or gives a number."""

Vector = Mapping[str, float]
"""A sentence by its words, of length 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    text: str
    of: int
    """The place of the text that it stands in."""
    reading: Reading

    @property
    def words(self) -> frozenset[str]:
        """What carries its meaning."""
        return self.reading.content | self.reading.numbers


def digest(told: Sequence[Told], *, claims_max: int = 0) -> Reflection:
    """Choose the sentences of an episode, and those that state what may last.

    The same texts give the same digest. It takes at most a third of their tokens, or 120 where
    they have few, and never more than 600.

    Args:
        told: in the order in which they are told of.
        claims_max: how many claims at most.

    """
    sentences = _sentences(told)
    if not sentences:
        return Reflection(fault="nothing_said")
    near = _nearness(_vectors(sentences))
    worth = [_worth(one, told[one.of]) for one in sentences]
    scores = [one * rank for one, rank in zip(worth, _ranked(near), strict=True)]
    room = min(max(_TOKENS_MIN, _KEPT * sum(estimate(one.text) for one in told)), _TOKENS_MAX)
    costs = [estimate(one.text) + 1 for one in sentences]
    chosen = _chosen(scores, costs, near=near, room=room)
    best = max(chosen, key=lambda place: (scores[place], -place))
    return Reflection(
        points=tuple(_point(sentences[place], told) for place in sorted(chosen)),
        headline=sentences[best].text,
        claims=tuple(islice(_claims(sentences, scores, told=told), claims_max)),
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


def _sentences(told: Sequence[Told]) -> list[_Sentence]:
    each = max(1, _SENTENCES_MAX // max(len(told), 1))
    return [one for of, text in enumerate(told) for one in islice(_read(text, of=of), each)]


def _read(told: Told, *, of: int) -> Iterator[_Sentence]:
    for start, end in pieces(told.text):
        text = unmarked(told.text[start:end].strip())
        reading = read(Statement(text=text))
        if len(reading.content) + len(reading.numbers) >= _WORDS_MIN:
            yield _Sentence(text=text, of=of, reading=reading)


def _vectors(sentences: Sequence[_Sentence]) -> list[Vector]:
    """Weigh the words of sentences, the rarer the more, as in BM25's idf."""
    counts = Counter(word for one in sentences for word in one.words)
    every = len(sentences)
    rarity = {word: math.log(1 + every / count) for word, count in counts.items()}
    made: list[Vector] = []
    for one in sentences:
        length = math.sqrt(sum(rarity[word] ** 2 for word in one.words))
        made.append({word: rarity[word] / length for word in sorted(one.words)})
    return made


def _nearness(vectors: Sequence[Vector]) -> list[dict[int, float]]:
    """Give for each sentence the cosine of every one that shares a word with it, but itself."""
    holding: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for place, vector in enumerate(vectors):
        for word, weight in vector.items():
            holding[word].append((place, weight))
    near: list[dict[int, float]] = []
    for place, vector in enumerate(vectors):
        row: defaultdict[int, float] = defaultdict(float)
        for word, weight in vector.items():
            for other, others in holding[word]:
                row[other] += weight * others
        row.pop(place, None)
        near.append(dict(row))
    return near


def _ranked(near: Sequence[Mapping[int, float]]) -> list[float]:
    """Give how often a walk from sentence to sentence comes by; 1 is the mean."""
    rank = [1.0] * len(near)
    sums = [sum(row.values()) for row in near]
    for _ in range(_ROUNDS):
        came = [0.0] * len(near)
        for place, row in enumerate(near):
            if sums[place]:
                share = rank[place] / sums[place]
                for other, cosine in row.items():
                    came[other] += share * cosine
        rank = [1 - _DAMPING + _DAMPING * one for one in came]
    return rank


def _worth(sentence: _Sentence, told: Told) -> float:
    """Say what a sentence counts beside how central it is: by its source, and what it tells."""
    reading = sentence.reading
    worth = 0.5 + told.weight
    if is_telling(sentence.text):
        worth *= _TELLING
    if reading.names or reading.numbers:
        worth *= _NAMING
    return worth if reading.is_claim else worth / _TELLING


def _chosen(
    scores: Sequence[float],
    costs: Sequence[int],
    *,
    near: Sequence[Mapping[int, float]],
    room: float,
) -> list[int]:
    """Choose the best that fit, each by what it adds; one there is always."""
    most = max(scores)
    nearest = [0.0] * len(scores)
    waiting = set(range(len(scores)))
    chosen: list[int] = []
    while waiting:

        def gain(place: int) -> tuple[float, int]:
            central = scores[place] / most
            return (1 - _NOVELTY) * central - _NOVELTY * nearest[place], -place

        best = max(waiting, key=gain)
        waiting.discard(best)
        is_first = not chosen
        if not is_first and (costs[best] > room or nearest[best] >= _SAID):
            continue
        chosen.append(best)
        room -= costs[best]
        for other, cosine in near[best].items():
            nearest[other] = max(nearest[other], cosine)
    return chosen


def _point(sentence: _Sentence, told: Sequence[Told]) -> Point:
    return Point(text=spoken(sentence.text, told[sentence.of].speaker), of=(sentence.of,))


def _claims(
    sentences: Sequence[_Sentence], scores: Sequence[float], *, told: Sequence[Told]
) -> Iterator[Point]:
    """Give what may last, the most central first."""
    lasting = [place for place, one in enumerate(sentences) if is_durable(one.text)]
    for place in sorted(lasting, key=lambda place: (-scores[place], place)):
        yield _point(sentences[place], told)
