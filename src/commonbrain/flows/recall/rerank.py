"""Ordering candidates by the model that serves who asks; where it fails, fixed weights stand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from commonbrain.domain.model_card import ModelCard
from commonbrain.domain.outcomes import BY_WEIGHTS, LOAD, RERANK, RERANKER
from commonbrain.domain.query import Candidate
from commonbrain.flows.asking_models import Unscored
from commonbrain.flows.house import House
from commonbrain.flows.moves import named
from commonbrain.flows.recall.deadline import Deadline
from commonbrain.flows.recall.plan import Plan
from commonbrain.ports.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Reranked:
    """Candidates, best first, and who put them in that order."""

    ranked: Sequence[Candidate]
    ranker: ModelCard | None = None
    """The model; where it failed, `degraded` says so."""
    degraded: tuple[str, ...] = ()
    taken_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    """By stage; none where no model serves."""


def rerank(
    house: House, tx: Transaction, *, plan: Plan, weighed: Sequence[Candidate], deadline: Deadline
) -> Reranked:
    """Order what was weighed; skills stay above the rest, and browsing stays newest first."""
    if not (plan.query and plan.tuning.has(RERANK)):
        return Reranked(ranked=weighed)
    card = house.rankers.serving(tx, plan.caller)
    if card is None:
        return Reranked(ranked=weighed)
    if not weighed:
        return Reranked(ranked=weighed, ranker=card)
    clock, tenant = house.clock, plan.caller.tenant
    before_ms = clock.elapsed_ms()
    answer = house.rankers.ready(tenant, card, within_ms=deadline.left_ms)
    loaded_ms = clock.elapsed_ms()
    if answer is None:
        told = [one.features for one in weighed]
        answer = house.rankers.ask(tenant, card, told=told, within_ms=deadline.left_ms)
    taken_ms = {
        LOAD: round(loaded_ms - before_ms, 3),
        RERANK: round(clock.elapsed_ms() - loaded_ms, 3),
    }
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
