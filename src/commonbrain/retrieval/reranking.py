"""Ordering candidates by the model that serves who asks; where it fails, fixed weights stand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from commonbrain.learning.outcomes import BY_WEIGHTS, RERANK, RERANKER
from commonbrain.learning.serving import Unscored
from commonbrain.learning.transitions import named
from commonbrain.model.model_card import ModelCard, ModelRole
from commonbrain.model.query import Candidate
from commonbrain.retrieval.query_plan import Plan
from commonbrain.retrieval.retrievers import Deadline
from commonbrain.services import House


@dataclass(frozen=True, slots=True, kw_only=True)
class Reranked:
    """Candidates, best first, and who put them in that order."""

    ranked: Sequence[Candidate]
    ranker: ModelCard | None = None
    """The model; where it failed, `degraded` says so."""
    degraded: tuple[str, ...] = ()
    taken_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    """By stage; none where no model serves."""


@dataclass(frozen=True, slots=True)
class Ranker:
    """The model that serves a recall, and why it is not ready where it is not."""

    card: ModelCard
    unready: Unscored | None


def ready_ranker(house: House, plan: Plan, *, deadline: Deadline) -> Ranker | None:
    """Have the model that serves a recall loaded, before anything is read in one transaction."""
    if not (plan.query and plan.tuning.has(RERANK)):
        return None
    tenant = plan.caller.tenant

    def read() -> Sequence[ModelCard]:
        return house.store.read(tenant, lambda tx: tx.registry.serving(ModelRole.RERANKER))

    card = house.rankers.serving(plan.caller, read)
    if card is None:
        return None
    return Ranker(card, house.rankers.ready(tenant, card, within_ms=deadline.left_ms))


def rerank(
    house: House,
    plan: Plan,
    *,
    ranker: Ranker | None,
    weighed: Sequence[Candidate],
    deadline: Deadline,
) -> Reranked:
    """Order what was weighed; skills stay above the rest, and browsing stays newest first."""
    if ranker is None:
        return Reranked(ranked=weighed)
    if not weighed:
        return Reranked(ranked=weighed, ranker=ranker.card)
    before_ms, card, answer = house.clock.elapsed_ms(), ranker.card, ranker.unready
    if answer is None:
        told = [one.features for one in weighed]
        answer = house.rankers.ask(plan.caller.tenant, card, told=told, within_ms=deadline.left_ms)
    taken_ms = {RERANK: round(house.clock.elapsed_ms() - before_ms, 3)}
    if isinstance(answer, Unscored):
        return _unanswered(card, answer, weighed=weighed, taken_ms=taken_ms)
    return Reranked(ranked=_ordered(weighed, answer.scores), ranker=card, taken_ms=taken_ms)


def _unanswered(
    card: ModelCard,
    answer: Unscored,
    *,
    weighed: Sequence[Candidate],
    taken_ms: Mapping[str, float],
) -> Reranked:
    """Leave the order of fixed weights; what is the model's doing is told as its recall."""
    return Reranked(
        ranked=weighed,
        ranker=card if answer.is_its_own else None,
        degraded=(f"{RERANKER}: {named(card)} {answer.reason}",),
        taken_ms=taken_ms,
    )


def _ordered(weighed: Sequence[Candidate], scores: Sequence[float]) -> Sequence[Candidate]:
    """Put candidates in the order of a model, and give each place the score that it had before.

    So a score means what it means by fixed weights, whatever scale a model has: all that looks at
    how near two of them are goes on as ever. What fixed weights gave stays among the features.
    """
    # Sorting is stable: of equals, fixed weights decide.
    order = sorted(
        range(len(weighed)), key=lambda at: (-weighed[at].features["skill"], -scores[at])
    )
    return [
        replace(
            weighed[at],
            score=place.score,
            features={**weighed[at].features, BY_WEIGHTS: weighed[at].score},
        )
        for at, place in zip(order, weighed, strict=True)
    ]
