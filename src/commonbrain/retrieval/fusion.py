"""Making one list of several: each arm's scores brought to 0..1 and weighed together."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from heapq import nlargest
from statistics import fmean
from typing import Final

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.retrieval.query_plan import NO_OVERRIDES, RetrievalOverrides

ScoresByRetriever = Mapping[str, Mapping[int, float]]
"""Raw scores of each arm by memory id."""

# BM25 and cosine weigh the same, each brought to 0..1 over the candidates; how this and their
# quadratic mean were chosen is told with its measure in docs/explanation/decisions.md.
# A skill is placed by its trigger, and a time that the query names is a feature of its own.
RETRIEVER_WEIGHTS: Final[Mapping[str, float]] = {
    "recent": 1.0,
    "skill": 0.0,
    "lexical": 0.5,
    "time": 0.0,
    "vector": 0.5,
}
LEXICAL: Final = "lexical"
"""The arm that asks by words; what it does not find has none of them."""
_MATCHING_RETRIEVERS: Final = ("recent", "skill", LEXICAL)
"""Arms that find only what the query names."""

_EMPTY: Final[Mapping[int, float]] = {}
_DEFAULT_CONTEXT_SHARE: Final = 0.5
"""The share of a passage before it is known how long the message is."""
_THREAD_TOP_K: Final = 3
"""Messages that speak for their thread."""


def apply_relevance_threshold(
    matches: ScoresByRetriever,
    space: EmbeddingSpace,
    *,
    is_about_time: bool = False,
    is_proactive: bool = False,
) -> ScoresByRetriever:
    """Leave out what shares no word with the query and whose meaning is too far from it.

    What only happened in the time that a query names answers it if that is all it asks for. Where
    nobody asked, a shared word is not enough once meaning is known.
    """
    if is_proactive and matches["vector"]:
        near = {
            i for i, cosine in matches["vector"].items() if cosine >= proactive_threshold(space)
        }
        return _restrict(matches, near | set(matches.get("skill", ())))
    retrievers = (*_MATCHING_RETRIEVERS, "time") if is_about_time else _MATCHING_RETRIEVERS
    named = {id_ for retriever in retrievers for id_ in matches.get(retriever, ())}
    close = {
        id_ for id_, cosine in matches["vector"].items() if cosine >= space.relevance_threshold
    }
    return _restrict(matches, named | close)


def proactive_threshold(space: EmbeddingSpace) -> float:
    """Give the cosine at which a memory is worth telling who did not ask.

    Half-way from what may be an answer to what says nearly the same.
    """
    return (space.relevance_threshold + space.similar_threshold) / 2


def _restrict(matches: ScoresByRetriever, allowed_ids: Collection[int]) -> ScoresByRetriever:
    return {
        retriever: {i: s for i, s in scores.items() if i in allowed_ids}
        for retriever, scores in matches.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedScores:
    """What is known of all candidates together, all scores 0..1; of one when it is asked for."""

    normalized: ScoresByRetriever
    """By arm: what it found."""
    self_scores: Mapping[int, float]
    """What each matches by itself, the quadratic mean of its arms."""
    context_scores: Mapping[int, float]
    """The plain mean of the passage around it, where it has one."""
    fused: Mapping[int, float]
    """Between the two."""
    thread: Mapping[int, float]
    """How well the best of its thread match."""

    def of(self, id_: int) -> dict[str, float]:
        """Give the features of one; of what no arm found, that it is nothing to the query."""
        if id_ not in self.self_scores:
            return {"own": 0.0, "beside": 0.0, "skill": 0.0}
        return {
            **{
                retriever: self.normalized.get(retriever, _EMPTY).get(id_, 0.0)
                for retriever in RETRIEVER_WEIGHTS
            },
            "own": self.self_scores[id_],
            "beside": self.context_scores.get(id_, self.self_scores[id_]),
            "fused": self.fused[id_],
            "thread": self.thread[id_],
        }

    def shortlist(self, *, count: int) -> list[int]:
        """Give the ids of the best by fused score, skills before all."""
        skills = self.normalized.get("skill", _EMPTY)
        best = sorted(self.fused, key=self.fused.__getitem__, reverse=True)
        return sorted(best, key=lambda id_: -skills.get(id_, 0.0))[:count]


def fuse(
    matches: ScoresByRetriever,
    overrides: RetrievalOverrides = NO_OVERRIDES,
    *,
    passage_scores: ScoresByRetriever | None = None,
    threads: Mapping[int, int] | None = None,
) -> FusedScores:
    """Bring the arms' scores, and those of the passages around what they found, to one scale."""
    weights = _retriever_shares(
        overrides.of(RETRIEVER_WEIGHTS),
        of={retriever for retriever, scores in matches.items() if scores},
    )
    normalized = {
        retriever: _min_max(scores, least=0.0 if retriever == LEXICAL else None)
        for retriever, scores in matches.items()
    }
    self_scores = _quadratic_means(normalized, weights=weights)
    self_scores |= dict.fromkeys((threads or {}).keys() - self_scores.keys(), 0.0)
    context_scores = _means(
        _normalize_passages(passage_scores or {}, matches=matches, normalized=normalized),
        weights=weights,
    )
    return FusedScores(
        normalized=normalized,
        self_scores=self_scores,
        context_scores=context_scores,
        fused={
            id_: blend_scores(one, context_scores.get(id_, one), share=_DEFAULT_CONTEXT_SHARE)
            for id_, one in self_scores.items()
        },
        thread=_by_thread(self_scores, threads or {}),
    )


def _retriever_shares(table: Mapping[str, float], *, of: Collection[str]) -> Mapping[str, float]:
    """Give the shares of those arms that found anything in what is weighed at all."""
    active = {
        retriever: weight for retriever, weight in table.items() if weight and retriever in of
    }
    total = sum(active.values())
    return {retriever: weight / total for retriever, weight in active.items()}


def _quadratic_means(
    normalized: ScoresByRetriever, *, weights: Mapping[str, float]
) -> dict[int, float]:
    """Give the root of the weighted mean of squares, in which one sure arm beats two half-sure."""
    squares = dict.fromkeys((id_ for scores in normalized.values() for id_ in scores), 0.0)
    for retriever, weight in weights.items():
        for id_, score in normalized[retriever].items():
            squares[id_] += weight * score**2
    return {id_: math.sqrt(square) for id_, square in squares.items()}


def _normalize_passages(
    passage_scores: ScoresByRetriever, *, matches: ScoresByRetriever, normalized: ScoresByRetriever
) -> ScoresByRetriever:
    """Bring views to one scale: from the least that was found to the best message by itself.

    Were the least of a few passages nothing, the next best would be. Were the best always all,
    passages that miss would stand above knowledge that has none.
    """
    scaled_passages: dict[str, dict[int, float]] = {}
    for retriever, scores in passage_scores.items():
        most = max((normalized[retriever].get(id_, 0.0) for id_ in scores), default=0.0)
        least = 0.0 if retriever == LEXICAL else min(matches[retriever].values(), default=0.0)
        scaled_passages[retriever] = {
            id_: most * score for id_, score in _min_max(scores, least=least).items()
        }
    return scaled_passages


def _means(normalized: ScoresByRetriever, *, weights: Mapping[str, float]) -> Mapping[int, float]:
    means: defaultdict[int, float] = defaultdict(float)
    for retriever, scores in normalized.items():
        weight = weights.get(retriever, 0.0)
        for id_, score in scores.items():
            means[id_] += weight * score
    return means


def blend_scores(self_scores: float, context_scores: float, *, share: float) -> float:
    """Give what one matches by itself and by what was said around it, by this share."""
    return self_scores + share * (context_scores - self_scores)


def _by_thread(self_scores: Mapping[int, float], threads: Mapping[int, int]) -> dict[int, float]:
    """Say how well the best of each one's thread match; what has no thread stands for itself.

    Threads are held against the best of them, the rest against the best of all.
    """
    thread_scores: defaultdict[int, list[float]] = defaultdict(list)
    for id_, thread in threads.items():
        thread_scores[thread].append(self_scores[id_])
    best = {
        thread: fmean(nlargest(_THREAD_TOP_K, scores)) for thread, scores in thread_scores.items()
    }
    most_of_thread = max(best.values(), default=0.0) or 1.0
    most = max(self_scores.values(), default=0.0) or 1.0
    return {
        id_: best[threads[id_]] / most_of_thread if id_ in threads else one / most
        for id_, one in self_scores.items()
    }


def _min_max(scores: Mapping[int, float], *, least: float | None = None) -> dict[int, float]:
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
