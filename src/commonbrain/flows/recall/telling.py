"""What one recall tells who listens; nothing of it is made where nobody does."""

from collections import Counter
from typing import Final

from commonbrain.domain import ids
from commonbrain.domain.outcomes import RERANKER
from commonbrain.domain.query import LeftOut, Trace
from commonbrain.flows.recall.arms import MEANING
from commonbrain.ports.telemetry import Recalling

_CHARS_A_TOKEN: Final = 4
"""About as many as English prose has; every text's own count would take as long as the ranking."""


def recalling(trace: Trace, *, tokens: int, asks_meaning: bool) -> Recalling:
    """Sum up one recall from its trace and what its answer costs."""
    left_out = Counter(str(why) for why in trace.left_out.values())
    allowed = [
        one
        for one in trace.considered
        if trace.left_out.get(one.memory.id) is not LeftOut.NOT_ALLOWED
    ]
    scores = [one.score for one in allowed if one.memory.id == next(iter(trace.packed), None)]
    return Recalling(
        tenant=trace.caller.tenant,
        stages_ms=trace.stages_ms,
        verdict=trace.verdict,
        is_meaning_asked=asks_meaning,
        is_meaning_found=not any(one.startswith(MEANING) for one in trace.degraded),
        considered=len(trace.considered),
        packed=len(trace.packed),
        left_out=left_out,
        top_score=next(iter(scores), None),
        tokens=tokens,
        tokens_considered=sum(len(one.memory.text) for one in allowed) // _CHARS_A_TOKEN,
        ranker=None if trace.ranker is None else ids.show(ids.MODEL, trace.ranker),
        is_ranker_failed=any(one.startswith(RERANKER) for one in trace.degraded),
    )
