"""Find the instructions and preferences that a request should respect.

"Always show times in UTC" shares neither words nor much meaning with "when does the job run?", so
it loses to texts about the job. Memories that state such a wish are marked on writing; the few that
fit a request best are found by their mark, and raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.preferences import Guidance, mark_of

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import EmbeddingSpace
    from commonbrain.retrieval.retrievers import RetrievalState, ScoresById

GUIDANCE: Final = "guidance"
"""The name of the retriever and of the feature."""
_MARKS: Final = tuple(map(mark_of, Guidance))
_COMPARED_MAX: Final = 400
"""Marked memories compared with a request, the newest: one index lookup and their cosines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """How far guidance reaches into the results of one sort of query."""

    count: int
    """Wishes raised at most; each takes the place of a memory about the topic itself."""
    low: float
    """Share of the space's relevance threshold from which a cosine counts."""
    full: float
    """Multiple of that threshold from which a cosine counts in full."""
    share: float
    """Value of a perfect fit, 0..1."""


# A wish names its topic in passing, so it is never as near as an answer. Both rows were measured on
# half of BEAM's chats: more reach in look-ups began to displace facts.
_REQUESTS: Final = _Reach(count=4, low=0.25, full=1.5, share=1.0)
_LOOKUPS: Final = _Reach(count=3, low=0.5, full=2.0, share=0.25)
_LOOKUP: Final = lazy_pattern(
    r"^\W*(?:who|whose|where|when (?:did|do|does|is|was|were|will|has|have|can|should)"
    r"|how (?:many|much|long|often|old|far)|did|was|were|has|had|is|are|does|have (?:i|we|you)"
    r"|what (?:was|were|did|has|is)|(?:what|which|how|why)\b.{0,40}? (?:does|did|has|had|was))\b"
    r"|\b(?:did|have|had|was|were) (?:i|we|my|our|you)\b"
    r"|\b(?:i|we)(?:['’]ve| have)? (?:\w+ )?(?:brought|said|told|mentioned|asked|discussed)\b"  # noqa: RUF001 as typed
    r"|\b(?:across|throughout) (?:my|our|all|the)\b|\bin total\b",
    re.IGNORECASE,
)
"""Asks what is or was the case, rather than for something to be done or explained."""


def is_lookup(query: str) -> bool:
    """Return whether a query asks for a fact, rather than for something to be done or explained."""
    return _LOOKUP.search(query) is not None


def _reach(query: str) -> _Reach:
    return _LOOKUPS if is_lookup(query) else _REQUESTS


def marked_memories(state: RetrievalState) -> list[int]:
    """List the newest memories in scope that state a wish."""
    scope = state.plan.query_scope
    return state.tx.memories.with_topics(_MARKS, scope, limit=_COMPARED_MAX)


def fetch_guidance(state: RetrievalState) -> ScoresById:
    """Return the cosines of the marked memories nearest to the query."""
    near = state.marked
    best = sorted(near, key=lambda id_: (-near[id_], -id_))[: _reach(state.plan.query).count]
    return {id_: near[id_] for id_ in best}


def score_guidance(
    query: str, cosines: Mapping[int, float], *, space: EmbeddingSpace
) -> dict[int, float]:
    """Return how much each wish concerns a query, 0..1; those that do not are left out."""
    reach = _reach(query)
    low, full = (share * space.relevance_threshold for share in (reach.low, reach.full))
    return {
        id_: reach.share * min((cosine - low) / (full - low), 1.0)
        for id_, cosine in cosines.items()
        if cosine > low
    }
