"""The metrics of one recall."""

from collections import Counter

from commonbrain.model import ids
from commonbrain.model.model_card import RERANKER
from commonbrain.model.query import ExclusionReason, RecallTrace
from commonbrain.observability.interface import RecallMetrics
from commonbrain.retrieval.retrieve import VECTOR
from commonbrain.text.tokens import estimate_by_sample


def summarize_recall(trace: RecallTrace, *, tokens: int, asks_meaning: bool) -> RecallMetrics:
    """Compute the metrics of one recall from its trace."""
    left_out = Counter(str(reason) for reason in trace.left_out.values())
    allowed = [
        one
        for one in trace.considered
        if trace.left_out.get(one.memory.id) is not ExclusionReason.NOT_ALLOWED
    ]
    scores = [one.score for one in allowed if one.memory.id == next(iter(trace.packed), None)]
    return RecallMetrics(
        tenant=trace.caller.tenant,
        stages_ms=trace.stages_ms,
        verdict=trace.verdict,
        is_meaning_asked=asks_meaning,
        is_meaning_found=not any(one.startswith(VECTOR) for one in trace.degraded),
        considered=len(trace.considered),
        packed=len(trace.packed),
        left_out=left_out,
        top_score=next(iter(scores), None),
        tokens=tokens,
        # One sample for all: counting each text would take longer than to fuse their scores.
        tokens_considered=estimate_by_sample("\n".join(one.memory.text for one in allowed)),
        ranker=None if trace.ranker is None else ids.show(ids.MODEL, trace.ranker),
        is_ranker_failed=any(one.startswith(RERANKER) for one in trace.degraded),
    )
