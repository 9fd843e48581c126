"""The metrics of one call of remember."""

from collections import Counter

from commonbrain.ingestion.result import ItemStatus, RememberResult
from commonbrain.observability.interface import RememberMetrics


def summarize_remember(
    reply: RememberResult, *, tenant: str, is_embedding: bool
) -> RememberMetrics:
    """Compute the metrics of one call: memories by kind, rejections by code."""
    results = [*reply.items, *(part for item in reply.items for part in item.derived)]
    kinds = Counter(
        str(one.kind) for one in results if one.status is ItemStatus.STORED and one.kind
    )
    not_stored = (ItemStatus.DUPLICATE, ItemStatus.REJECTED, ItemStatus.QUARANTINED)
    refused = Counter(one.code or str(one.status) for one in results if one.status in not_stored)
    return RememberMetrics(
        tenant=tenant,
        stages_ms=reply.stages_ms or {},
        stored=kinds,
        refused=refused,
        is_embedding=is_embedding,
    )
