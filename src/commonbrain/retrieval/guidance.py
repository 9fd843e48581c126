"""Find the instructions and preferences that a request should respect.

"Always show times in UTC" shares neither words nor much meaning with "when does the job run?", so
it loses to texts about the job. Memories that state such a wish are marked on writing; the few that
fit a request best are found by their mark, and raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from commonbrain.text.preferences import Guidance, mark_of

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import EmbeddingSpace
    from commonbrain.retrieval.retrievers import RetrievalState, ScoresById

GUIDANCE: Final = "guidance"
"""The name of the retriever and of the feature."""
_MARKS: Final = tuple(map(mark_of, Guidance))
_COMPARED_MAX: Final = 400
"""Marked memories compared with a request, the newest: one index lookup and their cosines."""
_RAISED_MAX: Final = 3
"""More would push out what the request is about; in BEAM's chats the wanted ones come first."""
# Relative to the cosine of relevance: a wish names its topic in passing, so it is never as near as
# an answer. Measured on half of BEAM: nothing between .3 and .6 for `_FULL` found more.
_FLOOR: Final = 0.5
_FULL: Final = 2.0
_LOOKUP_SHARE: Final = 0.5
"""Share of the feature for a question that asks for a fact rather than for something to be done."""
_REQUEST: Final = re.compile(
    r"\b(?:can|could|would|will) (?:you|we|i)\b|\bplease\b|\bhelp\b"
    r"|\bhow (?:do|can|should|could|would|might|to)\b"
    r"|\b(?:show|explain|walk|give|suggest|recommend|write|create|build|make|draft|plan|review|fix"
    r"|implement|set up|design|prepare|format|deploy|run|add|update|generate|summari[sz]e)\b"
    r"|\bwhat (?:steps|should|would)\b|\bbest (?:way|approach|practice)"
    r"|\bi(?:['’]m| am) (?:planning|trying|looking|working|going|about)\b"  # noqa: RUF001 as typed
    r"|\bi (?:need|want|plan)\b",
    re.IGNORECASE,
)


def is_request(query: str) -> bool:
    """Return whether a query asks for something to be done or explained."""
    return _REQUEST.search(query) is not None


def fetch_guidance(state: RetrievalState) -> ScoresById:
    """Return the cosines of the marked memories nearest to the query, at most three."""
    vector = state.query_vector
    if vector is None:
        return {}
    scope = state.plan.query_scope
    marked = state.tx.memories.with_topics(_MARKS, scope, limit=_COMPARED_MAX)
    near = state.tx.index.similarities(vector, marked) if marked else {}
    best = sorted(near, key=lambda id_: (-near[id_], -id_))[:_RAISED_MAX]
    return {id_: near[id_] for id_ in best}


def score_guidance(
    query: str, cosines: Mapping[int, float], space: EmbeddingSpace
) -> dict[int, float]:
    """Return how much each wish concerns a query, 0..1; those that do not are left out.

    A cosine counts from half the space's relevance threshold, in full from twice that threshold,
    and half for a question that asks for a plain fact.
    """
    low, full = (share * space.relevance_threshold for share in (_FLOOR, _FULL))
    share = 1.0 if is_request(query) else _LOOKUP_SHARE
    return {
        id_: share * min((cosine - low) / (full - low), 1.0)
        for id_, cosine in cosines.items()
        if cosine > low
    }
