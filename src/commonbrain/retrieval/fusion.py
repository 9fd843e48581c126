"""Making one list of several: each arm's scores brought to 0..1 and weighed together."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from heapq import nlargest
from statistics import fmean
from typing import Final

from commonbrain.embeddings.interface import Space
from commonbrain.retrieval.query_plan import AS_EVER, Tuning

Found = Mapping[str, Mapping[int, float]]
"""Raw scores of each arm by memory id."""

# BM25 and cosine weigh the same, each brought to 0..1 over the candidates; how this and their
# quadratic mean were chosen is told with its measure in docs/explanation/decisions.md.
# A skill is placed by its trigger, and a time that the query names is a feature of its own.
ARM_WEIGHTS: Final[Mapping[str, float]] = {
    "recent": 1.0,
    "skill": 0.0,
    "lexical": 0.5,
    "time": 0.0,
    "vector": 0.5,
}
WORDS: Final = "lexical"
"""The arm that asks by words; what it does not find has none of them."""
_NAMING: Final = ("recent", "skill", WORDS)
"""Arms that find only what the query names."""

_NOTHING: Final[Mapping[int, float]] = {}
_BESIDE: Final = 0.5
"""The share of a passage before it is known how long the message is."""
_OF_THREAD: Final = 3
"""Messages that speak for their thread."""


def answering(
    found: Found, space: Space, *, is_about_time: bool = False, is_unasked: bool = False
) -> Found:
    """Leave out what shares no word with the query and whose meaning is too far from it.

    What only happened in the time that a query names answers it if that is all it asks for. Where
    nobody asked, a shared word is not enough once meaning is known.
    """
    if is_unasked and found["vector"]:
        near = {i for i, cosine in found["vector"].items() if cosine >= standing_out_at(space)}
        return _only(found, near | set(found.get("skill", ())))
    arms = (*_NAMING, "time") if is_about_time else _NAMING
    named = {id_ for arm in arms for id_ in found.get(arm, ())}
    close = {id_ for id_, cosine in found["vector"].items() if cosine >= space.relevant_at}
    return _only(found, named | close)


def standing_out_at(space: Space) -> float:
    """Give the cosine at which a memory is worth telling who did not ask.

    Half-way from what may be an answer to what says nearly the same.
    """
    return (space.relevant_at + space.similar_at) / 2


def _only(found: Found, kept: Collection[int]) -> Found:
    return {arm: {i: s for i, s in scores.items() if i in kept} for arm, scores in found.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """What is known of all candidates together, all scores 0..1; of one when it is asked for."""

    scaled: Found
    """By arm: what it found."""
    own: Mapping[int, float]
    """What each matches by itself, the quadratic mean of its arms."""
    beside: Mapping[int, float]
    """The plain mean of the passage around it, where it has one."""
    fused: Mapping[int, float]
    """Between the two."""
    thread: Mapping[int, float]
    """How well the best of its thread match."""

    def of(self, id_: int) -> dict[str, float]:
        """Give the features of one; of what no arm found, that it is nothing to the query."""
        if id_ not in self.own:
            return {"own": 0.0, "beside": 0.0, "skill": 0.0}
        return {
            **{arm: self.scaled.get(arm, _NOTHING).get(id_, 0.0) for arm in ARM_WEIGHTS},
            "own": self.own[id_],
            "beside": self.beside.get(id_, self.own[id_]),
            "fused": self.fused[id_],
            "thread": self.thread[id_],
        }

    def shortlist(self, *, count: int) -> list[int]:
        """Give the ids of the best by fused score, skills before all."""
        skills = self.scaled.get("skill", _NOTHING)
        best = sorted(self.fused, key=self.fused.__getitem__, reverse=True)
        return sorted(best, key=lambda id_: -skills.get(id_, 0.0))[:count]


def fuse(
    found: Found,
    tuning: Tuning = AS_EVER,
    *,
    views: Found | None = None,
    threads: Mapping[int, int] | None = None,
) -> Fused:
    """Bring the arms' scores, and those of the passages around what they found, to one scale."""
    weights = _shares(tuning.of(ARM_WEIGHTS), of={arm for arm, scores in found.items() if scores})
    scaled = {
        arm: _scale(scores, least=0.0 if arm == WORDS else None) for arm, scores in found.items()
    }
    own = _quadratic_means(scaled, weights=weights)
    own |= dict.fromkeys((threads or {}).keys() - own.keys(), 0.0)
    beside = _means(_views(views or {}, found=found, scaled=scaled), weights=weights)
    return Fused(
        scaled=scaled,
        own=own,
        beside=beside,
        fused={id_: blended(one, beside.get(id_, one), share=_BESIDE) for id_, one in own.items()},
        thread=_by_thread(own, threads or {}),
    )


def _shares(table: Mapping[str, float], *, of: Collection[str]) -> Mapping[str, float]:
    """Give the shares of those arms that found anything in what is weighed at all."""
    taking_part = {arm: weight for arm, weight in table.items() if weight and arm in of}
    total = sum(taking_part.values())
    return {arm: weight / total for arm, weight in taking_part.items()}


def _quadratic_means(scaled: Found, *, weights: Mapping[str, float]) -> dict[int, float]:
    """Give the root of the weighted mean of squares, in which one sure arm beats two half-sure."""
    squares = dict.fromkeys((id_ for scores in scaled.values() for id_ in scores), 0.0)
    for arm, weight in weights.items():
        for id_, score in scaled[arm].items():
            squares[id_] += weight * score**2
    return {id_: math.sqrt(square) for id_, square in squares.items()}


def _views(views: Found, *, found: Found, scaled: Found) -> Found:
    """Bring views to one scale: from the least that was found to the best message by itself.

    Were the least of a few passages nothing, the next best would be. Were the best always all,
    passages that miss would stand above knowledge that has none.
    """
    told: dict[str, dict[int, float]] = {}
    for arm, scores in views.items():
        most = max((scaled[arm].get(id_, 0.0) for id_ in scores), default=0.0)
        least = 0.0 if arm == WORDS else min(found[arm].values(), default=0.0)
        told[arm] = {id_: most * score for id_, score in _scale(scores, least=least).items()}
    return told


def _means(scaled: Found, *, weights: Mapping[str, float]) -> Mapping[int, float]:
    means: defaultdict[int, float] = defaultdict(float)
    for arm, scores in scaled.items():
        weight = weights.get(arm, 0.0)
        for id_, score in scores.items():
            means[id_] += weight * score
    return means


def blended(own: float, beside: float, *, share: float) -> float:
    """Give what one matches by itself and by what was said around it, by this share."""
    return own + share * (beside - own)


def _by_thread(own: Mapping[int, float], threads: Mapping[int, int]) -> dict[int, float]:
    """Say how well the best of each one's thread match; what has no thread stands for itself.

    Threads are held against the best of them, the rest against the best of all.
    """
    said: defaultdict[int, list[float]] = defaultdict(list)
    for id_, thread in threads.items():
        said[thread].append(own[id_])
    best = {thread: fmean(nlargest(_OF_THREAD, scores)) for thread, scores in said.items()}
    most_of_thread = max(best.values(), default=0.0) or 1.0
    most = max(own.values(), default=0.0) or 1.0
    return {
        id_: best[threads[id_]] / most_of_thread if id_ in threads else one / most
        for id_, one in own.items()
    }


def _scale(scores: Mapping[int, float], *, least: float | None = None) -> dict[int, float]:
    """Bring scores to 0..1 by min-max; when all are equal, all are 1.

    `least` is what counts as nothing, where that may be less than the least of them.
    """
    if not scores:
        return {}
    high, low = max(scores.values()), min(scores.values())
    if least is not None and high > least:
        low = min(low, least)
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {id_: (score - low) / (high - low) for id_, score in scores.items()}
