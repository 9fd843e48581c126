"""Thresholds of a vector space, chosen so that the default embedder gets its measured ones.

The texts ship with the package: labelled pairs, and questions with their answers. Half of the pairs
is left for `brain eval duplicates` to check the choice with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from commonbrain.embeddings.interface import Embedder, Thresholds
from commonbrain.model.kinds import Kind
from commonbrain.retrieval.query_plan import search_terms
from commonbrain.retrieval.ranking import LEXICAL_WEIGHT, word_share
from commonbrain.text.repetition import adds_nothing
from commonbrain.text.statements import Statement, read_statement

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Flags: TypeAlias = NDArray[np.bool_]

DUPLICATE_PRECISION_MIN: Final = 0.98
"""One refusal in fifty may be wrong; the refused agent learns the reason and can insist."""
SIMILAR_RECALL_MIN: Final = 0.9
"""A hint costs a line, so it may be wrong more often than it may miss."""
CAUTION: Final = 0.9
"""The share of resamples that must agree; one lucky sample would set the threshold too low."""
UNRELATED_SHARE: Final = 0.95
"""The share of unrelated questions and texts below the threshold of relevance.

The criterion of the default embedder on 60,000 pairs of LoCoMo; both give it 0.21.
"""
LOST_ANSWERS_SHARE: Final = 0.24
"""The share of these questions whose answer is below the threshold of answers.

It is set so that the default embedder gets the 0.44 that was measured for it on other data. That it
suits other models was not measured.
"""
GRID: Final = tuple(n / 100 for n in range(30, 100))
EDITION: Final = 2
"""It changes whenever other thresholds would be chosen, so that stored ones are measured again."""
_RESAMPLES: Final = 200
_SEED: Final = 20_000
_GAP: Final = 0.01
"""The least distance between the thresholds of relevance and of similarity."""
_BOUNDS: Final = (-0.99, 0.99)


class Half(StrEnum):
    """Whether a row is for choosing, or for checking the choice."""

    CALIBRATE = "calibrate"
    CHECK = "check"


def half_of(text: str) -> Half:
    """Return the half of a text by itself alone, so that new rows move no old one."""
    is_even = hashlib.sha256(text.encode()).digest()[0] % 2 == 0
    return Half.CALIBRATE if is_even else Half.CHECK


class Label(StrEnum):
    """The relation of one text to another."""

    PARAPHRASE = "paraphrase"
    UPDATE = "update"
    NEAR_MISS = "near_miss"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two texts of one kind, and their relation."""

    label: Label
    kind: Kind
    one: str
    other: str

    @property
    def half(self) -> Half:
        """The half by the first text; the file has no text in pairs of both halves."""
        return half_of(self.one)


def read_pairs() -> Sequence[Pair]:
    """Read the labelled pairs, in the order of the file."""
    return [
        Pair(label=Label(row["label"]), kind=Kind(row["kind"]), one=row["one"], other=row["other"])
        for row in _rows("calibration_pairs.jsonl")
    ]


def _rows(name: str) -> Iterator[dict[str, Any]]:
    text = files("commonbrain.retrieval").joinpath(name).read_text("utf-8")
    return map(json.loads, text.splitlines())


_UNLIKE: Final = (Label.NEAR_MISS, Label.UNRELATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPairs:
    """Pairs with their similarity and what the rules say, one row each."""

    labels: NDArray[np.str_]
    similarities: NDArray[np.float64]
    are_news: Flags
    """Whether the rules let the second text pass at any similarity."""
    have_different_numbers: Flags

    def at(self, kept: NDArray[np.intp]) -> Self:
        """Return some rows, by place."""
        columns: dict[str, Any] = {name: getattr(self, name)[kept] for name in _columns(self)}
        return type(self)(**columns)

    def labelled(self, *labels: Label) -> Flags:
        """Return which rows have one of the labels."""
        import numpy as np  # noqa: PLC0415 recall imports this module without vectors

        return np.isin(self.labels, labels)

    def duplicate(self, threshold: float) -> Flags:
        """Return which rows count as duplicates, by similarity and the rules."""
        return (self.similarities >= threshold) & ~self.are_news

    def expected_precision(self, threshold: float) -> float:
        """Weigh the unlike by how often the rule misses one; other numbers it never misses."""
        at_risk = self.labelled(*_UNLIKE) & ~self.have_different_numbers
        missed = float((at_risk & ~self.are_news).sum() / max(at_risk.sum(), 1))
        right = int((self.duplicate(threshold) & self.labelled(Label.PARAPHRASE)).sum())
        wrong = missed * int((at_risk & (self.similarities >= threshold)).sum())
        return round(right / (right + wrong), 4) if right else 0.0

    def similar_recall(self, threshold: float) -> float:
        """Return the share of paraphrases and updates from a similarity on."""
        near = self.labelled(Label.PARAPHRASE, Label.UPDATE)
        return float((near & (self.similarities >= threshold)).sum() / max(near.sum(), 1))


def _columns(scored: ScoredPairs) -> tuple[str, ...]:
    return tuple(type(scored).__dataclass_fields__)


def has_different_numbers(pair: Pair) -> bool:
    """Return whether the two texts have other numbers."""
    one, other = (read_statement(Statement(text=text)) for text in (pair.one, pair.other))
    return one.numbers != other.numbers


def choose_duplicate_threshold(scored: ScoredPairs) -> float | None:
    """Choose the threshold that most resamples find high enough; None if too many find none."""
    import numpy as np  # noqa: PLC0415 see `labelled`

    random_source = np.random.default_rng(_SEED)
    draws = random_source.integers(0, len(scored.labels), size=(_RESAMPLES, len(scored.labels)))
    lowest = sorted(_lowest_precise(scored.at(draw)) for draw in draws)
    chosen = lowest[int(CAUTION * _RESAMPLES)]
    return None if chosen > GRID[-1] else chosen


def _lowest_precise(scored: ScoredPairs) -> float:
    """Return the lowest threshold that is precise together with all above it; 1 if none is."""
    precise = takewhile(
        lambda threshold: scored.expected_precision(threshold) >= DUPLICATE_PRECISION_MIN,
        _useful(scored, reversed(GRID)),
    )
    return min(precise, default=1.0)


def _useful(scored: ScoredPairs, thresholds: Iterable[float]) -> Iterator[float]:
    """Skip thresholds above every pair, which have no precision."""
    return (threshold for threshold in thresholds if scored.duplicate(threshold).any())


def choose_similar_threshold(scored: ScoredPairs) -> float | None:
    """Choose the highest threshold that finds nearly all paraphrases and updates, if one does."""
    return max(
        (one for one in GRID if scored.similar_recall(one) >= SIMILAR_RECALL_MIN), default=None
    )


def calibrate(embedder: Embedder) -> Thresholds | None:
    """Choose the thresholds of an embedder's space; None if none meets the criteria.

    It embeds some 600 short texts, and never asks for the embedder's space.

    Raises:
        UnavailableError: `embedder_down`.

    """
    pairs = [pair for pair in read_pairs() if pair.half is Half.CALIBRATE]
    scored = _score(pairs, embedder)
    duplicate, similar = choose_duplicate_threshold(scored), choose_similar_threshold(scored)
    relevance, answer = _of_questions(embedder)
    if similar is None:
        return None
    low, high = _BOUNDS
    # The rule for repetitions is precise at any similarity of texts that are compared at all.
    similar = min(similar, high)
    duplicate = min(max(duplicate or similar, similar), high)
    return Thresholds(
        duplicate=duplicate,
        similar=similar,
        relevance=round(max(low, min(relevance, similar - _GAP)), 3),
        answer=round(max(answer, 0.0), 3),
        origin="calibrated",
    )


def _score(pairs: Sequence[Pair], embedder: Embedder) -> ScoredPairs:
    import numpy as np  # noqa: PLC0415 see `labelled`

    ones, others = (
        _vectors(embedder, texts)
        for texts in ([pair.one for pair in pairs], [pair.other for pair in pairs])
    )
    return ScoredPairs(
        labels=np.array([pair.label.value for pair in pairs]),
        similarities=np.sum(ones.astype(np.float64) * others, axis=1),
        are_news=np.array([not adds_nothing(one.one, known=one.other) for one in pairs]),
        have_different_numbers=np.array([has_different_numbers(pair) for pair in pairs]),
    )


def _of_questions(embedder: Embedder) -> tuple[float, float]:
    """Return the thresholds of relevance and of answers."""
    import numpy as np  # noqa: PLC0415 see `labelled`

    rows = list(_rows("calibration_questions.jsonl"))
    questions, answers = ([row[name] for row in rows] for name in ("question", "answer"))
    queries = np.stack([embedder.query(text) for text in questions])
    cosines = queries @ _vectors(embedder, answers).T
    shared = [
        word_share(search_terms(question), answer.lower())
        for question, answer in zip(questions, answers, strict=True)
    ]
    scores = np.diagonal(cosines) + LEXICAL_WEIGHT * np.array(shared)
    unrelated = cosines[~np.eye(len(rows), dtype=bool)]
    return (
        float(np.quantile(unrelated, UNRELATED_SHARE)),
        float(np.quantile(scores, LOST_ANSWERS_SHARE)),
    )


def _vectors(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed short texts: the first window of each is the whole of it."""
    import numpy as np  # noqa: PLC0415 see `labelled`

    return np.stack([windows[0] for windows in embedder.passages(texts)])
