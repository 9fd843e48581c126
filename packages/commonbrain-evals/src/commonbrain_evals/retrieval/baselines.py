"""What is compared: recall, and what anyone would try first, on the same store and questions."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.client import Brain
from commonbrain.model.query import Filter
from commonbrain.retrieval.plan import search_terms
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain_evals.retrieval.eval_store import EvalStore

RECALL: Final = "recall"
_BROUGHT: Final = 100
"""Of each list, before they are fused."""
_RRF: Final = 60
"""The constant of reciprocal rank fusion (Cormack et al. 2009)."""

Scores = Mapping[int, float]
"""By memory id, the best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResults:
    """What the two plain searches bring for one question, each best first."""

    words: Scores
    vector: Scores
    words_s: float
    """Seconds that the words took; of the meaning, its vector included."""
    vector_s: float


def search(brain: Brain, text: str) -> SearchResults:
    """Ask the store's two indexes, and nothing else of recall."""
    query_scope = QueryScope(caller=brain.caller, filter=Filter(), now=brain.services.clock.now())
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        started = time.perf_counter()
        words = tx.index.lexical(search_terms(text), query_scope, limit=_BROUGHT)
        between = time.perf_counter()
        vector = tx.index.nearest(brain.services.embedder.query(text), query_scope, limit=_BROUGHT)
        ended = time.perf_counter()
    return SearchResults(
        words=_scores(words),
        vector=_scores(vector),
        words_s=between - started,
        vector_s=ended - between,
    )


def _scores(hits: Iterable[Hit]) -> Scores:
    return {hit.id: hit.score for hit in hits}


def _fuse_by_rank(lists: SearchResults) -> Scores:
    """Fuse by reciprocal ranks."""
    return _sum(
        {id_: 1 / (_RRF + rank) for rank, id_ in enumerate(scores, 1)}
        for scores in (lists.words, lists.vector)
    )


def _fuse_by_score(lists: SearchResults) -> Scores:
    """Fuse by scores, each list brought to 0..1 and given the same weight."""
    return _sum(map(_normalized, (lists.words, lists.vector)))


def _normalized(scores: Scores) -> Scores:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if low == high:
        return dict.fromkeys(scores, 1.0)
    return {id_: (score - low) / (high - low) for id_, score in scores.items()}


def _sum(parts: Iterable[Scores]) -> Scores:
    total: dict[int, float] = {}
    for part in parts:
        for id_, score in part.items():
            total[id_] = total.get(id_, 0.0) + score
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True)
class Baseline:
    """A way to rank what the two searches bring, in a few lines that anyone would write."""

    rank: Callable[[SearchResults], Scores]
    seconds: Callable[[SearchResults], float]
    """How long the searches took that it needs."""


BASELINES: Final[Mapping[str, Baseline]] = {
    "full text": Baseline(lambda lists: lists.words, lambda lists: lists.words_s),
    "vectors": Baseline(lambda lists: lists.vector, lambda lists: lists.vector_s),
    "RRF 60": Baseline(_fuse_by_rank, lambda lists: lists.words_s + lists.vector_s),
    "min-max": Baseline(_fuse_by_score, lambda lists: lists.words_s + lists.vector_s),
}


def fill(eval_store: EvalStore, ranked: Iterable[int], *, tokens: int) -> tuple[list[int], int]:
    """Show the best that fit a number of tokens, whole, as recall would; what they take."""
    shown: list[int] = []
    spent = 0
    for id_ in ranked:
        cost = eval_store.cost(id_)
        if spent + cost <= tokens:
            shown.append(id_)
            spent += cost
    return shown, spent


def sources(eval_store: EvalStore, ranked: Iterable[int]) -> Sequence[str]:
    """Return the sources of memories, each once, in their order."""
    return list(dict.fromkeys(eval_store.source(id_) for id_ in ranked))
