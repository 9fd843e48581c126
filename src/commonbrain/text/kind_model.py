"""Which kind a text is, by a linear model of how its sentences are built.

The features are the words of each sentence and their pairs, how it opens, and its verb; names,
numbers and code count by their sort, other words also by their ending. No embedder is asked: the
kind is decided before a vector exists, and must be the same whichever embedder a store has. With
the vector of the default one, three or four texts more in a hundred would be right.

`kind_weights.bin` comes from `brain eval kinds --fit PATH`: ridge regression on the half calibrate
of `kinds.jsonl` in `commonbrain-evals`, texts of many trades and styles by several hands.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from math import sqrt
from struct import Struct
from typing import Final
from zlib import crc32

from commonbrain.model.kinds import Kind
from commonbrain.text.frames import (
    DATES,
    place_of_verb,
    read_report,
    sentences_of,
    split_clauses,
)
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.words import GROUP_OF, Sort, Word, is_past, read_words

PREDICTED: Final = (Kind.RULE, Kind.FACT, Kind.EVENT, Kind.INCIDENT, Kind.TASK)
"""The kinds that are chosen, in the order of the weights in a row."""
ROW: Final = Struct(f"<I{len(PREDICTED)}b")
"""A row of the table: the hash of a feature, and its weight for each kind."""
WEIGHTS_FILE: Final = "kind_weights.bin"
BIAS: Final = "bias"
"""The feature that every text has."""
_BIAS_VALUE: Final = 0.5
_CHARS_MAX: Final = 1000
"""A longer text is known by its beginning."""
_SIGNS: Final = {Sort.NUMBER: "#1", Sort.CODE: "#c", Sort.NAME: "#n", Sort.OPERATOR: "#o"}
"""What words count as that say which thing is meant, not what is said of it."""
_LISTED: Final = {Sort.FUNCTION, Sort.MODAL, Sort.NEGATION, Sort.QUANTIFIER, Sort.STOP}
_TIMES: Final = frozenset(
    "yesterday today tonight ago last weekend morning noon afternoon evening night week month day"
    " year spring summer autumn winter".split()
)
_TIME: Final = lazy_pattern(r"\d:\d|\d(?:st|nd|rd|th)$|^(?:19|20)\d\d$")
# How much a feature counts before it is fitted; chosen by cross-validation.
_STRONG: Final = 2.0
_WEAK: Final = 0.5


def predict(text: str) -> Kind:
    """Return the kind that fits a text best: rule, fact, event, incident or task.

    A report of a new value without a time is a fact, for it says what holds from then on.
    """
    table, scores = _weights(), [0.0] * len(PREDICTED)
    for feature, value in read_features(text).items():
        weights = table.get(feature)
        # Most words are in no text that the model was fitted to.
        for place, weight in enumerate(weights) if weights else ():
            scores[place] += value * weight
    best = PREDICTED[max(range(len(scores)), key=scores.__getitem__)]
    words = read_words(text[:_CHARS_MAX])
    is_statement = best is Kind.EVENT and not _names_time(words) and _reports_value(words)
    return Kind.FACT if is_statement else best


def _names_time(words: Sequence[Word]) -> bool:
    """Return whether it says when: on a day, in a month, at a time, this morning, two weeks ago."""
    return any(
        word.plain in _TIMES
        or GROUP_OF.get(word.plain, DATES) < DATES
        or (word.sort is Sort.NUMBER and _TIME.search(word.written) is not None)
        for word in words
    )


def _reports_value(words: Sequence[Word]) -> bool:
    """Return whether it reports a new value, which holds on: "We raised the limit to 25 MB"."""
    return any(
        read_report(clause, place_of_verb(clause)) is not None
        for sentence in sentences_of(words)
        for clause in split_clauses(sentence)
    )


def read_features(text: str) -> Mapping[int, float]:
    """Return the hashes of a text's features with their values: a vector of length 1, and bias."""
    features = dict(_features(read_words(text[:_CHARS_MAX])))
    length = sqrt(sum(value * value for value in features.values())) or 1.0
    hashed = {crc32(name.encode()): value / length for name, value in features.items()}
    return {**hashed, crc32(BIAS.encode()): _BIAS_VALUE}


@lru_cache(maxsize=1)
def _weights() -> Mapping[int, Sequence[int]]:
    table = files("commonbrain.text").joinpath(WEIGHTS_FILE).read_bytes()
    return {feature: weights for feature, *weights in ROW.iter_unpack(table)}


def _features(words: Sequence[Word]) -> Iterator[tuple[str, float]]:
    for number, sentence in enumerate(sentences_of(words)):
        plain = ["^", *(_SIGNS.get(word.sort, word.plain) for word in sentence), "$"]
        shapes = ["^", *map(_shape, sentence), "$"]
        for word, name in zip(sentence, plain[1:], strict=False):
            yield f"word {name}", 1.0
            yield f"stem {name if word.sort in _SIGNS else word.stem}", 1.0
        for pair, shape_pair in zip(pairwise(plain), pairwise(shapes), strict=True):
            yield "words " + " ".join(pair), _STRONG
            yield "shapes " + " ".join(shape_pair), _WEAK
            yield f"mixed {pair[0]} {shape_pair[1]}", 1.0
        if not number:
            yield f"first {plain[1]}", _STRONG
            yield f"first {plain[1]} {' '.join(shapes[2:3])}", _STRONG
            yield f"opening {' '.join(shapes[1:3])}", _STRONG
            yield f"opening {' '.join(shapes[1:4])}", _STRONG
        yield from ((name, 1.0) for name in _of_verb(sentence))
    yield f"length {len(words) // 8}", 1.0


def _of_verb(sentence: Sequence[Word]) -> Iterator[str]:
    """Yield where the verb is and its form; an order begins with one, so that it has none."""
    place = place_of_verb(sentence)
    yield f"verb at {None if place is None else min(place, 3)}"
    yield f"opens in the past {is_past(sentence[0].plain)}"
    yield f"opens with a capital {sentence[0].written[:1].isupper()}"
    if place is not None:
        yield f"verb {_shape(sentence[place])}"
        yield f"verb stem {sentence[place].stem}"
        yield f"before the verb {_shape(sentence[place - 1]) if place else '^'}"
        yield f"verb in the past {is_past(sentence[place].plain)}"


def _shape(word: Word) -> str:
    """Return a function word itself, and of another what its sort and ending say."""
    plain = word.plain
    if word.sort in _LISTED:
        return plain
    if GROUP_OF.get(plain, DATES) < DATES:
        return "#day"
    if word.sort in _SIGNS:
        return "#t" if word.sort is Sort.NUMBER and ":" in plain else _SIGNS[word.sort]
    endings = (ending for ending in ("ed", "ing", "s") if plain.endswith(ending))
    return f"#{next(endings, 'w')}"
