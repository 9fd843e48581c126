"""Order candidates by models, where they are switched on: a trained one, and a cross-encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from commonbrain.learning.serving import ScoringFailure
from commonbrain.model.model_card import (
    BY_WEIGHTS,
    CROSS_ENCODER,
    RERANK,
    RERANKER,
    ModelCard,
    ModelRole,
    model_name,
)
from commonbrain.model.query import Candidate
from commonbrain.model.values import dataclass, replace
from commonbrain.retrieval.plan import QueryPlan

if TYPE_CHECKING:
    from commonbrain.retrieval.retrieve import Deadline
    from commonbrain.retrieval.table import Table
    from commonbrain.services import Services


@dataclass(frozen=True, slots=True)
class _Trained:
    """The model that serves a recall, and the reason if it is not ready."""

    card: ModelCard
    failure: ScoringFailure | None


def reranker(
    services: Services, plan: QueryPlan, *, deadline: Deadline
) -> Callable[[Table], None] | None:
    """Load the models that order the candidates of a caller, before the transaction begins.

    Returns:
        What orders the candidates of a table; None if no model serves.

    """
    if not plan.query:
        return None
    trained = _trained(services, plan, deadline=deadline)
    encoding = services.cross_encoding if plan.overrides.is_enabled(CROSS_ENCODER) else None
    if trained is None and encoding is None:
        return None
    failure = encoding.ready(timeout_ms=deadline.left_ms) if encoding else None

    def rerank(table: Table) -> None:
        if trained is not None:
            _rerank(services, table, trained=trained, deadline=deadline)
        if encoding is not None:
            encoding.order(table, failure=failure, deadline=deadline)

    return rerank


def _trained(services: Services, plan: QueryPlan, *, deadline: Deadline) -> _Trained | None:
    if not plan.overrides.is_enabled(RERANK):
        return None
    tenant = plan.caller.tenant

    def read() -> Sequence[ModelCard]:
        return services.store.read(tenant, lambda tx: tx.models.serving(ModelRole.RERANKER))

    card = services.rerankers.serving(plan.caller, read)
    if card is None:
        return None
    return _Trained(card, services.rerankers.ready(tenant, card, timeout_ms=deadline.left_ms))


def _rerank(
    services: Services,
    table: Table,
    *,
    trained: _Trained,
    deadline: Deadline,
) -> None:
    """Order candidates by the trained model; if it fails, fixed weights decide.

    Its failure counts against it, as far as it is at fault.
    """
    card, answer = trained.card, trained.failure
    table.ranker = card
    if not table.ranked:
        return
    before_ms = services.clock.elapsed_ms()
    if answer is None:
        answer = services.rerankers.ask(
            table.plan.caller.tenant,
            card,
            feature_rows=[one.features for one in table.ranked],
            timeout_ms=deadline.left_ms,
        )
    table.taken_ms = {RERANK: round(services.clock.elapsed_ms() - before_ms, 3)}
    if isinstance(answer, ScoringFailure):
        table.ranker = card if answer.is_model_fault else None
        table.degraded.append(f"{RERANKER}: {model_name(card)} {answer.reason}")
    else:
        table.ranked = _ordered(table.ranked, answer.scores)


def _ordered(scored: Sequence[Candidate], scores: Sequence[float]) -> list[Candidate]:
    """Reorder candidates by a model, keeping the score of each rank.

    Scores keep the meaning that fixed weights gave them, whatever the model's scale, so packing
    can compare them. A candidate's original score stays among its features.
    """
    # Sorting is stable: on a tie, fixed weights decide.
    order = sorted(range(len(scored)), key=lambda at: -scores[at])
    return [
        replace(
            scored[at],
            score=place.score,
            features={**scored[at].features, BY_WEIGHTS: scored[at].score},
        )
        for at, place in zip(order, scored, strict=True)
    ]
