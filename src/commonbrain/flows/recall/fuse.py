"""Making one list of several: each arm's scores brought to 0..1 and weighed together."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from heapq import nlargest
from statistics import fmean
from typing import Final

from commonbrain.domain.space import Space
from commonbrain.flows.recall.tuning import AS_EVER, Tuning

Found = Mapping[str, Mapping[int, float]]
"""Raw scores of each arm by memory id."""
Features = dict[int, dict[str, float]]
"""What is known of each candidate, by name, 0..1."""

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
_WORDS: Final = "lexical"
_NAMING: Final = ("recent", "skill", "lexical")
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


def shortlist(features: Features, *, count: int) -> list[int]:
    """Give the ids of the best by fused score, skills before all."""
    return sorted(features, key=lambda id_: (-features[id_]["skill"], -features[id_]["fused"]))[
        :count
    ]


def fuse(
    found: Found,
    tuning: Tuning = AS_EVER,
    *,
    views: Found | None = None,
    threads: Mapping[int, int] | None = None,
) -> Features:
    """Give each candidate its scaled score per arm and what they come to, all 0..1.

    `own` is their quadratic mean, `beside` the plain mean of the passage around it, where it has
    one, and `fused` between the two; `thread` is how well the best of its thread match.
    """
    weights = {arm: weight for arm, weight in tuning.of(ARM_WEIGHTS).items() if weight}
    scaled = {arm: _scale(scores, is_bare=arm == _WORDS) for arm, scores in found.items()}
    seen = {arm: _scale(scores) for arm, scores in (views or {}).items()}
    around = {id_ for scores in seen.values() for id_ in scores}
    features: Features = {}
    known = threads or {}
    for id_ in dict.fromkeys([*(id_ for scores in found.values() for id_ in scores), *known]):
        of_one = {arm: scaled.get(arm, {}).get(id_, 0.0) for arm in ARM_WEIGHTS}
        own = _quadratic_mean(id_, scaled, weights=weights)
        beside = _mean(id_, seen, weights=weights) if id_ in around else own
        features[id_] = of_one = {**of_one, "own": own, "beside": beside}
        of_one["fused"] = blended(of_one, share=_BESIDE)
    for id_, score in _by_thread(features, known).items():
        features[id_]["thread"] = score
    return features


def _quadratic_mean(id_: int, scaled: Found, *, weights: Mapping[str, float]) -> float:
    """Give the root of the weighted mean of squares, in which one sure arm beats two half-sure."""
    return math.sqrt(
        sum(
            weight * scaled.get(arm, _NOTHING).get(id_, 0.0) ** 2 for arm, weight in weights.items()
        )
    )


def _mean(id_: int, scaled: Found, *, weights: Mapping[str, float]) -> float:
    return sum(weights.get(arm, 0.0) * scores.get(id_, 0.0) for arm, scores in scaled.items())


def blended(features: Mapping[str, float], *, share: float) -> float:
    """Give what a candidate matches by itself and by what was said around it, by this share."""
    return features["own"] + share * (features["beside"] - features["own"])


def _by_thread(features: Features, threads: Mapping[int, int]) -> dict[int, float]:
    """Say how well the best of each one's thread match; what has no thread stands for itself.

    Threads are held against the best of them, the rest against the best of all.
    """
    own = {id_: of_one["own"] for id_, of_one in features.items()}
    said: defaultdict[int, list[float]] = defaultdict(list)
    for id_, thread in threads.items():
        said[thread].append(own[id_])
    best = {thread: fmean(nlargest(_OF_THREAD, scores)) for thread, scores in said.items()}
    most_of_thread = max(best.values(), default=0.0) or 1.0
    most = max(own.values(), default=0.0) or 1.0
    return {
        id_: best[threads[id_]] / most_of_thread if id_ in threads else score / most
        for id_, score in own.items()
    }


def _scale(scores: Mapping[int, float], *, is_bare: bool = False) -> dict[int, float]:
    """Bring scores to 0..1 by min-max; when all are equal, all are 1.

    Where the rest has no score at all, being `is_bare` of what is asked for, 0 is the least.
    """
    if not scores:
        return {}
    high = max(scores.values())
    low = 0.0 if is_bare and high > 0 else min(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {id_: max((score - low) / (high - low), 0.0) for id_, score in scores.items()}
