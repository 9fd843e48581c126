"""Ordering candidates by the model that serves who asks; where it fails, fixed weights stand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from commonbrain.learning.outcomes import BY_WEIGHTS, RERANK, RERANKER
from commonbrain.learning.serving import ScoringFailure
from commonbrain.learning.transitions import model_name
from commonbrain.model.model_card import ModelCard, ModelRole
from commonbrain.model.query import Candidate
from commonbrain.retrieval.query_plan import QueryPlan
from commonbrain.retrieval.retrievers import Deadline
from commonbrain.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankResult:
    """Candidates, best first, and who put them in that order."""

    ranked: Sequence[Candidate]
    ranker: ModelCard | None = None
    """The model; where it failed, `degraded` says so."""
    degraded: tuple[str, ...] = ()
    taken_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    """By stage; none where no model serves."""


@dataclass(frozen=True, slots=True)
class ServingReranker:
    """The model that serves a recall, and why it is not ready where it is not."""

    card: ModelCard
    failure: ScoringFailure | None


def get_reranker(
    services: Services, plan: QueryPlan, *, deadline: Deadline
) -> ServingReranker | None:
    """Have the model that serves a recall loaded, before anything is read in one transaction."""
    if not (plan.query and plan.overrides.is_enabled(RERANK)):
        return None
    tenant = plan.caller.tenant

    def read() -> Sequence[ModelCard]:
        return services.store.read(tenant, lambda tx: tx.models.serving(ModelRole.RERANKER))

    card = services.rerankers.serving(plan.caller, read)
    if card is None:
        return None
    return ServingReranker(
        card, services.rerankers.ready(tenant, card, timeout_ms=deadline.left_ms)
    )


def rerank(
    services: Services,
    plan: QueryPlan,
    *,
    ranker: ServingReranker | None,
    scored: Sequence[Candidate],
    deadline: Deadline,
) -> RerankResult:
    """Order what was weighed; skills stay above the rest, and browsing stays newest first."""
    if ranker is None:
        return RerankResult(ranked=scored)
    if not scored:
        return RerankResult(ranked=scored, ranker=ranker.card)
    before_ms, card, answer = services.clock.elapsed_ms(), ranker.card, ranker.failure
    if answer is None:
        feature_rows = [one.features for one in scored]
        answer = services.rerankers.ask(
            plan.caller.tenant, card, feature_rows=feature_rows, timeout_ms=deadline.left_ms
        )
    taken_ms = {RERANK: round(services.clock.elapsed_ms() - before_ms, 3)}
    if isinstance(answer, ScoringFailure):
        return _fall_back(card, answer, scored=scored, taken_ms=taken_ms)
    return RerankResult(ranked=_ordered(scored, answer.scores), ranker=card, taken_ms=taken_ms)


def _fall_back(
    card: ModelCard,
    answer: ScoringFailure,
    *,
    scored: Sequence[Candidate],
    taken_ms: Mapping[str, float],
) -> RerankResult:
    """Leave the order of fixed weights; what is the model's doing is told as its recall."""
    return RerankResult(
        ranked=scored,
        ranker=card if answer.is_model_fault else None,
        degraded=(f"{RERANKER}: {model_name(card)} {answer.reason}",),
        taken_ms=taken_ms,
    )


def _ordered(scored: Sequence[Candidate], scores: Sequence[float]) -> Sequence[Candidate]:
    """Put candidates in the order of a model, and give each place the score that it had before.

    So a score means what it means by fixed weights, whatever scale a model has: all that looks at
    how near two of them are goes on as ever. What fixed weights gave stays among the features.
    """
    # Sorting is stable: of equals, fixed weights decide.
    order = sorted(range(len(scored)), key=lambda at: (-scored[at].features["skill"], -scores[at]))
    return [
        replace(
            scored[at],
            score=place.score,
            features={**scored[at].features, BY_WEIGHTS: scored[at].score},
        )
        for at, place in zip(order, scored, strict=True)
    ]
