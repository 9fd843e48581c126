"""Order candidates by models, where they are switched on: a trained one, and a cross-encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from commonbrain.model.model_card import CROSS_ENCODER, RERANK

if TYPE_CHECKING:
    from commonbrain.retrieval.plan import QueryPlan
    from commonbrain.retrieval.retrieve import Deadline
    from commonbrain.retrieval.table import Table
    from commonbrain.services import Services


def reranker(
    services: Services, plan: QueryPlan, *, deadline: Deadline
) -> Callable[[Table], None] | None:
    """Load the models that order the candidates of a caller, before the transaction begins.

    Returns:
        What orders the candidates of a table; None if no model serves.

    """
    if not plan.query:
        return None
    is_trained = plan.overrides.is_enabled(RERANK)
    trained = services.trained.reranker(plan, deadline=deadline) if is_trained else None
    encoding = services.cross_encoding if plan.overrides.is_enabled(CROSS_ENCODER) else None
    if trained is None and encoding is None:
        return None
    failure = encoding.ready(timeout_ms=deadline.left_ms) if encoding else None

    def rerank(table: Table) -> None:
        if trained is not None:
            trained(table)
        if encoding is not None:
            encoding.order(table, failure=failure, deadline=deadline)

    return rerank
