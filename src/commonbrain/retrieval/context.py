"""What was said around what was found: neighbours of a message speak for it, and may answer too.

An answer is seldom said in the words of its question; what is said just before it often is. The
scores of a passage are the means of its messages' own, so that nothing is embedded twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import fsum
from typing import TYPE_CHECKING, Final

from commonbrain.retrieval.fusion import LEXICAL, ScoresByRetriever
from commonbrain.retrieval.query_plan import QueryPlan
from commonbrain.retrieval.retrievers import VECTOR, RetrievalResult, ScoresById
from commonbrain.storage.interface import ThreadPassage

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

STAGE: Final = "passages"
_BEFORE: Final = 2
_AFTER: Final = 1
"""What is said next answers to a message more often than it explains it."""
_REACH: Final = max(_BEFORE, _AFTER)
"""How far either way a message is read around: so far lie the passages that it is part of."""


@dataclass(frozen=True, slots=True)
class ThreadContext:
    """How well the passages around messages match, beside what each matches by itself."""

    passage_scores: Mapping[str, ScoresById] = field(default_factory=dict[str, ScoresById])
    """By arm: the mean of a passage, by the id of the message that it is around."""
    matches: ScoresByRetriever = field(default_factory=dict[str, ScoresById])
    """By arm: what was found, and the neighbours."""
    threads: Mapping[int, int] = field(default_factory=dict[int, int])
    """The thread of each message."""
    after: Mapping[int, int] = field(default_factory=dict[int, int])
    """What was said right after each message."""
    before: Mapping[int, int] = field(default_factory=dict[int, int])
    """What was said right before it."""


def expand_context(
    tx: Transaction, plan: QueryPlan, *, matches: ScoresByRetriever, retrieved: RetrievalResult
) -> ThreadContext:
    """Read what was said around the messages that were found, as far as the look allows it."""
    if not plan.query or plan.is_proactive or not plan.overrides.is_enabled(STAGE):
        return ThreadContext(matches=matches)
    ids = list(dict.fromkeys(id_ for retriever in (LEXICAL, VECTOR) for id_ in matches[retriever]))
    around = tx.threads.around(ids, plan.query_scope, before=_REACH, after=_REACH)
    if not around:
        return ThreadContext(matches=matches)
    threads = {id_: passage.thread for passage in around.values() for id_ in passage.ids}
    unscored_ids = [id_ for id_ in threads if id_ not in matches[VECTOR]]
    near = (
        tx.index.similarities(retrieved.query_vector, unscored_ids)
        if retrieved.query_vector is not None
        else {}
    )
    known = {LEXICAL: matches[LEXICAL], VECTOR: {**matches[VECTOR], **near}}
    after = {one: next_ for of in around.values() for one, next_ in pairwise(of.ids)}
    passages = _passages(around.values(), after)
    words = {
        id_: fsum([known[LEXICAL].get(one, 0.0) for one in ids]) / len(ids)
        for id_, ids in passages.items()
    }
    return ThreadContext(
        passage_scores={LEXICAL: words, VECTOR: _means(known[VECTOR], passages)},
        matches={**matches, **known},
        threads=threads,
        after=after,
        before={next_: one for one, next_ in after.items()},
    )


def _passages(
    around: Iterable[ThreadPassage], after: Mapping[int, int]
) -> Mapping[int, Sequence[int]]:
    """Give the passage around every message that is known, as far as it is."""
    ids = dict.fromkeys(id_ for passage in around for id_ in passage.ids)
    passages: dict[int, Sequence[int]] = {}
    for first in ids.keys() - after.values():
        known = [first]
        while (later := after.get(known[-1])) is not None:
            known.append(later)
        for place, id_ in enumerate(known):
            passages[id_] = known[max(0, place - _BEFORE) : place + _AFTER + 1]
    return passages


def _means(scores: Mapping[int, float], passages: Mapping[int, Sequence[int]]) -> ScoresById:
    """Give the mean of what has a score; what was never embedded says nothing either way."""
    scored = {id_: [scores[one] for one in ids if one in scores] for id_, ids in passages.items()}
    return {id_: fsum(each) / len(each) for id_, each in scored.items() if each}
