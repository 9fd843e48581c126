"""What one run of the write path tells who listens; nothing is made where nobody does."""

from collections import Counter

from commonbrain.flows.remember.outcome import Remembered, Status
from commonbrain.ports.telemetry import Remembering


def remembering(reply: Remembered, *, tenant: str, is_embedding: bool) -> Remembering:
    """Sum up one run from its reply: what became a memory by kind, what did not by code."""
    told = [*reply.items, *(part for item in reply.items for part in item.derived)]
    stored = Counter(str(one.kind) for one in told if one.status is Status.STORED and one.kind)
    kept_out = (Status.DUPLICATE, Status.REJECTED, Status.QUARANTINED)
    refused = Counter(one.code or str(one.status) for one in told if one.status in kept_out)
    return Remembering(
        tenant=tenant,
        stages_ms=reply.stages_ms or {},
        stored=stored,
        refused=refused,
        is_embedding=is_embedding,
    )
