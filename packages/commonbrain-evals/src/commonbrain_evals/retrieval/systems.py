"""What is compared: recall, and what anyone would try first, on the same store and questions."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.model.query import Filter
from commonbrain.retrieval.query_plan import search_terms
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain_evals.retrieval.stand import Stand

RECALL: Final = "recall"
_BROUGHT: Final = 100
"""Of each list, before they are fused."""
_RRF: Final = 60
"""The constant of reciprocal rank fusion (Cormack et al. 2009)."""

Scores = Mapping[int, float]
"""By memory id, the best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """What the two plain searches bring for one question, each best first."""

    words: Scores
    meaning: Scores
    words_s: float
    """Seconds that the words took; of the meaning, its vector included."""
    meaning_s: float


def search(stand: Stand, text: str) -> Lists:
    """Ask the store's two indexes, and nothing else of recall."""
    brain = stand.brain
    look = QueryScope(caller=brain.caller, filter=Filter(), now=brain.services.clock.now())
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        started = time.perf_counter()
        words = tx.index.lexical(search_terms(text), look, limit=_BROUGHT)
        between = time.perf_counter()
        meaning = tx.index.nearest(brain.services.embedder.query(text), look, limit=_BROUGHT)
        ended = time.perf_counter()
    return Lists(
        words=_scores(words),
        meaning=_scores(meaning),
        words_s=between - started,
        meaning_s=ended - between,
    )


def _scores(hits: Iterable[Hit]) -> Scores:
    return {hit.id: hit.score for hit in hits}


def _by_rank(lists: Lists) -> Scores:
    """Fuse by reciprocal ranks."""
    return _sum(
        {id_: 1 / (_RRF + rank) for rank, id_ in enumerate(scores, 1)}
        for scores in (lists.words, lists.meaning)
    )


def _by_score(lists: Lists) -> Scores:
    """Fuse by scores, each list brought to 0..1 and given the same weight."""
    return _sum(map(_scaled, (lists.words, lists.meaning)))


def _scaled(scores: Scores) -> Scores:
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

    rank: Callable[[Lists], Scores]
    seconds: Callable[[Lists], float]
    """How long the searches took that it needs."""


BASELINES: Final[Mapping[str, Baseline]] = {
    "full text": Baseline(lambda lists: lists.words, lambda lists: lists.words_s),
    "vectors": Baseline(lambda lists: lists.meaning, lambda lists: lists.meaning_s),
    "RRF 60": Baseline(_by_rank, lambda lists: lists.words_s + lists.meaning_s),
    "min-max": Baseline(_by_score, lambda lists: lists.words_s + lists.meaning_s),
}


def fill(stand: Stand, ranked: Iterable[int], *, tokens: int) -> tuple[list[int], int]:
    """Show the best that fit a number of tokens, whole, as recall would; what they take."""
    shown: list[int] = []
    spent = 0
    for id_ in ranked:
        cost = stand.cost(id_)
        if spent + cost <= tokens:
            shown.append(id_)
            spent += cost
    return shown, spent


def sources(stand: Stand, ranked: Iterable[int]) -> Sequence[str]:
    """Give the sources of memories, each once, in their order."""
    return list(dict.fromkeys(stand.source(id_) for id_ in ranked))
