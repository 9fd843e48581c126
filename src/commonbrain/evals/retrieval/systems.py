"""What is compared: recall, and what anyone would try first, on the same store and questions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.domain.query import Filter
from commonbrain.evals.retrieval.stand import Stand
from commonbrain.flows.recall.plan import search_terms
from commonbrain.ports.store import Hit, Look

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


def search(stand: Stand, text: str) -> Lists:
    """Ask the store's two indexes, and nothing else of recall."""
    brain = stand.brain
    look = Look(caller=brain.caller, filter=Filter(), now=brain.house.clock.now())
    vector = brain.house.embedder.query(text)
    with brain.house.store.snapshot(brain.caller.tenant) as tx:
        words = tx.index.lexical(search_terms(text), look, limit=_BROUGHT)
        meaning = tx.index.nearest(vector, look, limit=_BROUGHT)
    return Lists(words=_scores(words), meaning=_scores(meaning))


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
    return {id_: (score - low) / (high - low) if high > low else 1.0 for id_, score in scores.items()}


def _sum(parts: Iterable[Scores]) -> Scores:
    total: dict[int, float] = {}
    for part in parts:
        for id_, score in part.items():
            total[id_] = total.get(id_, 0.0) + score
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


BASELINES: Final[Mapping[str, Callable[[Lists], Scores]]] = {
    "full text": lambda lists: lists.words,
    "vectors": lambda lists: lists.meaning,
    "RRF 60": _by_rank,
    "min-max": _by_score,
}
"""Ways to rank what the two searches bring; each is a few lines that anyone would write."""


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
