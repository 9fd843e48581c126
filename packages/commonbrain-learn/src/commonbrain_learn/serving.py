"""Runs the models in service: rerankers order the candidates of recalls, others rate drafts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from math import isfinite
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from commonbrain_models.guarded_model import (
    GuardedModel,
    InvalidModelError,
    ModelLimits,
    Scored,
    ScoringFailure,
)

from commonbrain.ingestion.commit import build_memory
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.model.kinds import EventDetail
from commonbrain.model.limits import MODELS_LOADED_MAX, RERANK_MS_MAX, SALIENCE_MS_MAX
from commonbrain.model.model_card import RERANK, RERANKER, ModelCard, model_name
from commonbrain.model.values import dataclass, field, replace
from commonbrain_learn.monitor import CanaryMonitor
from commonbrain_learn.outcomes import BY_WEIGHTS
from commonbrain_learn.rollout import serving_of
from commonbrain_learn.usefulness import KINDS_SCORED, UNKNOWN_AUTHOR, features_of

if TYPE_CHECKING:
    from commonbrain.clock import Clock, Deadline
    from commonbrain.embeddings.interface import Matrix
    from commonbrain.model.memory import Memory
    from commonbrain.model.query import Candidate, RecallTrace
    from commonbrain.model.scope import Caller
    from commonbrain.retrieval.plan import QueryPlan
    from commonbrain.retrieval.table import Table
    from commonbrain.storage.blobs import Blobs
    from commonbrain.storage.store import Store
    from commonbrain_learn.salience_model import LearnedSalience

M = TypeVar("M")
FeatureRows: TypeAlias = Sequence[Mapping[str, float]]
"""The features of the candidates of one recall."""
RERANKER_LIMITS: Final = ModelLimits(limit_ms=RERANK_MS_MAX, failures=3, cooldown_ms=2000.0)
"""A canary serves a share of recalls and is monitored for failures: a short pause suffices."""
SALIENCE_LIMITS: Final = ModelLimits(limit_ms=SALIENCE_MS_MAX, failures=1, cooldown_ms=30_000.0)
"""Nothing rolls back a salience model that fails, so a few failures suspend it."""


class Reranker(Protocol):
    """Scores the candidates of a recall by their features; safe to call from several threads.

    Laws: the same rows give the same scores; every score is finite; a model never changes.
    """

    @property
    def features(self) -> tuple[str, ...]:
        """The features of the columns of `rows`, by their names in a trace; absent ones are 0."""
        ...

    def scores(self, rows: Matrix) -> Matrix:
        """Score all candidates of one recall.

        Args:
            rows: shape `(candidates, len(features))`.

        Returns:
            Shape `(candidates,)`, highest for the best; only comparable within one recall.

        """
        ...


@dataclass(frozen=True, slots=True)
class _Key:
    """A model of a tenant."""

    tenant: str
    id: int
    card: ModelCard = field(compare=False)


class ModelPool(Generic[M]):
    """The models of all tenants, of which the least recently used are released; thread-safe."""

    def __init__(
        self, load: Callable[[ModelCard], M], *, clock: Clock, limits: ModelLimits
    ) -> None:
        """Load models by their cards, each when it is first used."""

        def make(key: _Key) -> GuardedModel[M]:
            return GuardedModel(partial(load, key.card), clock=clock, limits=limits)

        self._models = lru_cache(MODELS_LOADED_MAX)(make)
        self._lock = Lock()

    def get(self, tenant: str, card: ModelCard) -> GuardedModel[M]:
        """Return a model of a tenant."""
        with self._lock:
            # Two threads must not load the same model twice.
            return self._models(_Key(tenant, card.id, card))

    def close(self) -> None:
        """Release all models without waiting."""
        self._models.cache_clear()


class Runner:
    """Runs the models of a store; safe to use from several threads."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        load_reranker: Callable[[str], Reranker],
        load_salience: Callable[[str], LearnedSalience],
        moved: Callable[[str], None],
        salience_limits: ModelLimits = SALIENCE_LIMITS,
    ) -> None:
        """Load models by the digests of their artifacts; `moved` runs after a transition."""
        self._clock = clock
        self._rerankers: ModelPool[Reranker] = ModelPool(
            partial(_load_reranker, load_reranker), clock=clock, limits=RERANKER_LIMITS
        )
        self._saliences: ModelPool[LearnedSalience] = ModelPool(
            partial(_load_salience, load_salience), clock=clock, limits=salience_limits
        )
        self._monitor = CanaryMonitor(store, clock=clock, moved=moved)

    def reranker(
        self, cards: Sequence[ModelCard], plan: QueryPlan, *, deadline: Deadline
    ) -> Callable[[Table], None] | None:
        """Load the model that serves a caller, and return what orders candidates by it.

        If the model fails, fixed weights decide, and the failure counts against it, as far as it
        is at fault.
        """
        card = serving_of(cards, plan.caller)
        if card is None:
            return None
        model = self._rerankers.get(plan.caller.tenant, card)
        failure = model.ready(timeout_ms=deadline.left_ms)

        def rerank(table: Table) -> None:
            answer = failure
            table.ranker = card
            if not table.ranked:
                return
            before_ms = self._clock.elapsed_ms()
            if answer is None:
                feature_rows = [one.features for one in table.ranked]
                answer = model.ask(
                    lambda one: Scored(_scores(one, feature_rows)), timeout_ms=deadline.left_ms
                )
            table.taken_ms = {RERANK: round(self._clock.elapsed_ms() - before_ms, 3)}
            if isinstance(answer, ScoringFailure):
                table.ranker = card if answer.is_model_fault else None
                table.degraded.append(f"{RERANKER}: {model_name(card)} {answer.reason}")
            else:
                table.ranked = _ordered(table.ranked, answer.scores)

        return rerank

    def rate(
        self, cards: Sequence[ModelCard], drafts: Sequence[PreparedDraft], *, caller: Caller
    ) -> Sequence[PreparedDraft]:
        """Return drafts with the salience that the active model predicts, where it is not set.

        If the model does not answer, the rule scores, and the outcome says so. Stored memories
        keep their salience.
        """
        card = serving_of(cards, caller)
        open_ = [one for one in drafts if _is_open(one)]
        if card is None or not open_:
            return drafts
        now = self._clock.now()
        memories = [build_memory(draft, caller, now=now) for draft in open_]
        model = self._saliences.get(caller.tenant, card)
        answer = model.ready() or model.ask(lambda one: Scored(_saliences(one, memories)))
        if isinstance(answer, ScoringFailure):
            warning = f"Its salience is the rule's: the learnt one did not answer: {answer.reason}."
            return [
                replace(one, warnings=(*one.warnings, warning)) if _is_open(one) else one
                for one in drafts
            ]
        saliences = iter(answer.scores)
        return [replace(one, salience=next(saliences)) if _is_open(one) else one for one in drafts]

    def on_traces_written(self, tenant: str, traces: Sequence[RecallTrace]) -> None:
        """Judge the models by the traces of recalls that they ranked, after these were stored."""
        self._monitor.on_traces_written(tenant, traces)

    def close(self) -> None:
        """Release all models without waiting."""
        self._rerankers.close()
        self._saliences.close()


def make_runner(
    *, store: Store, blobs: Callable[[], Blobs], clock: Clock, moved: Callable[[str], None]
) -> Runner:
    """Make the runner of a store whose artifacts are blobs; loads no model yet."""

    def load_reranker(digest: str) -> Reranker:
        from commonbrain_learn.boosting import load_reranker as read  # noqa: PLC0415

        return read(blobs().get(digest))

    def load_salience(digest: str) -> LearnedSalience:
        from commonbrain_learn.salience_model import load_salience as read  # noqa: PLC0415

        return read(blobs().get(digest))

    return Runner(
        store, clock=clock, load_reranker=load_reranker, load_salience=load_salience, moved=moved
    )


def _load_reranker(load: Callable[[str], Reranker], card: ModelCard) -> Reranker:
    """Load a model and run it once, so that no recall pays for its first call."""
    reranker = load(card.digest)
    if tuple(reranker.features) != card.features:
        raise InvalidModelError("its features are not those of its card")
    _scores(reranker, [{}, {}])
    return reranker


def _scores(reranker: Reranker, feature_rows: FeatureRows) -> list[float]:
    rows = np.array(
        [[one.get(name, 0.0) for name in reranker.features] for one in feature_rows],
        dtype=np.float32,
    )
    values: list[float] = reranker.scores(rows.reshape(len(feature_rows), -1)).tolist()
    if len(values) != len(feature_rows) or not all(map(isfinite, values)):
        raise InvalidModelError("it gave no score that is a number to each candidate")
    return values


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


def _load_salience(load: Callable[[str], LearnedSalience], card: ModelCard) -> LearnedSalience:
    salience = load(card.digest)
    if tuple(salience.features) != card.features:
        raise InvalidModelError("its features are not those of its card")
    return salience


def _saliences(salience: LearnedSalience, memories: Sequence[Memory]) -> list[float]:
    feature_rows = [
        features_of(one, author=salience.authors.get(one.agent, UNKNOWN_AUTHOR)) for one in memories
    ]
    rows = np.array(
        [[one[name] for name in salience.features] for one in feature_rows], dtype=np.float32
    )
    values: list[float] = salience.scores(rows).tolist()
    if len(values) != len(memories) or not all(isfinite(one) and 0 <= one <= 1 for one in values):
        raise InvalidModelError("it gave no salience of 0 to 1 to each memory")
    return [round(one, 4) for one in values]


def _is_open(one: PreparedDraft) -> bool:
    """Return whether neither the author nor the kind has set the salience."""
    detail = one.admitted.detail
    has_importance = isinstance(detail, EventDetail) and detail.importance is not None
    return one.admitted.kind in KINDS_SCORED and not has_importance
