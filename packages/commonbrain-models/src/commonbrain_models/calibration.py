"""Thresholds of a vector space, chosen so that the default embedder gets its measured ones.

The texts ship with the package: labelled pairs, and questions with their answers. Half of the pairs
is left for `brain eval duplicates` to check the choice with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from commonbrain.embeddings.interface import Embedder, Thresholds
from commonbrain.model.kinds import Kind
from commonbrain.retrieval.plan import search_terms
from commonbrain.retrieval.score import LEXICAL_WEIGHT, word_share

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Flags: TypeAlias = NDArray[np.bool_]

SIMILAR_RECALL_MIN: Final = 0.9
"""A hint costs a line, so it may be wrong more often than it may miss."""
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
_GAP: Final = 0.01
"""The least distance between the thresholds of relevance and of similarity."""
_BOUNDS: Final = (-0.99, 0.99)


class CalibrationSplit(StrEnum):
    """Whether a row is for choosing, or for checking the choice."""

    CALIBRATE = "calibrate"
    CHECK = "check"


def split_of(text: str) -> CalibrationSplit:
    """Return the half of a text by itself alone, so that new rows move no old one."""
    is_even = hashlib.sha256(text.encode()).digest()[0] % 2 == 0
    return CalibrationSplit.CALIBRATE if is_even else CalibrationSplit.CHECK


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
    def half(self) -> CalibrationSplit:
        """The half by the first text; the file has no text in pairs of both halves."""
        return split_of(self.one)


def read_pairs() -> Sequence[Pair]:
    """Read the labelled pairs, in the order of the file."""
    return [
        Pair(label=Label(row["label"]), kind=Kind(row["kind"]), one=row["one"], other=row["other"])
        for row in _rows("calibration_pairs.jsonl")
    ]


def _rows(name: str) -> Iterator[dict[str, Any]]:
    text = files("commonbrain_models").joinpath(name).read_text("utf-8")
    return map(json.loads, text.splitlines())


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPairs:
    """Pairs with their similarity, one row each."""

    labels: NDArray[np.str_]
    similarities: NDArray[np.float64]

    def at(self, places: NDArray[np.intp]) -> Self:
        """Return some rows, by place."""
        columns: dict[str, Any] = {
            name: getattr(self, name)[places] for name in type(self).__dataclass_fields__
        }
        return type(self)(**columns)

    def labelled(self, *labels: Label) -> Flags:
        """Return which rows have one of the labels."""
        import numpy as np  # noqa: PLC0415 recall imports this module without vectors

        return np.isin(self.labels, labels)

    def similar_recall(self, threshold: float) -> float:
        """Return the share of paraphrases and updates from a similarity on."""
        near = self.labelled(Label.PARAPHRASE, Label.UPDATE)
        return float((near & (self.similarities >= threshold)).sum() / max(near.sum(), 1))


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
    pairs = [pair for pair in read_pairs() if pair.half is CalibrationSplit.CALIBRATE]
    similar = choose_similar_threshold(_score(pairs, embedder))
    relevance, answer = _of_questions(embedder)
    if similar is None:
        return None
    low, high = _BOUNDS
    similar = min(similar, high)
    return Thresholds(
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
