"""Model serving in this process: loads each model once, limits each call, evicts by LRU.

A model is foreign code that may hang. It runs in a few threads of its own, so that it cannot block
other models.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from math import isfinite
from threading import Lock
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import Reranker
from commonbrain.executors import DetachedExecutor
from commonbrain.extras import load_extra
from commonbrain.learning.interface import SalienceTrainer, Trainer
from commonbrain.model.errors import CommonbrainError, StoreCorruptError
from commonbrain.model.limits import MODELS_LOADED_MAX, RERANK_MS_MAX
from commonbrain.model.model_card import ModelCard, serving_of
from commonbrain.model.scope import Caller
from commonbrain.model.values import dataclass

M = TypeVar("M")
"""The model type."""
Answer = TypeVar("Answer")
C = TypeVar("C", bound="ServedModel")
"""The type of what describes a model."""

SERVING_CACHE_MS: Final = 2000.0
"""Cache lifetime of the serving assignment: every process sees a change within it."""
EMPTY_CACHE_MS: Final = 10_000.0
"""The same without a model in service.

There is nothing to roll back, and a first model may wait.
"""
_TENANTS_MAX: Final = 10_000
"""Tenants in the cache; past it the cache is cleared."""
_RELOAD_AFTER_MS: Final = 30_000.0
"""Delay before a failed load is retried."""
_THREADS: Final = 2
"""Threads of each model, so that one hanging call does not block the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringFailure:
    """A model did not answer."""

    reason: str
    is_model_fault: bool
    """Whether the model is at fault and the failure counts against it."""


class InvalidModelError(Exception):
    """A loaded model does not match its card, or returns invalid scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """Limits of a model."""

    limit_ms: float
    """Timeout of one call."""
    failures: int
    """Consecutive failures after which the model pauses."""
    cooldown_ms: float
    load_wait_s: float = 0.5
    """How long the first caller waits for the model to load; later callers do not wait."""


class ServedModel(Protocol):
    """What identifies a model among those of its tenant."""

    @property
    def id(self) -> int:
        """Its id; a changed model has another one."""
        ...


class ServingCache:
    """Caches the serving model of each tenant, for two seconds, or ten without one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, tuple[ModelCard, ...]]] = {}

    def serving(
        self, tenant: str, read: Callable[[], Sequence[ModelCard]]
    ) -> tuple[ModelCard, ...]:
        """Return the tenant's serving model, reading it if the cache entry is stale."""
        now_ms = self._clock.elapsed_ms()
        known = self._known.get(tenant)
        if known is None or now_ms >= known[0]:
            cards = tuple(read())
            known = (now_ms + (SERVING_CACHE_MS if cards else EMPTY_CACHE_MS), cards)
            if len(self._known) >= _TENANTS_MAX:
                self._known.clear()
            self._known[tenant] = known
        return known[1]

    def forget(self, tenant: str) -> None:
        """Drop the cache entry of a tenant after a transition."""
        self._known.pop(tenant, None)


class _Model(Generic[M]):
    """One loaded model and its recent failures."""

    def __init__(self, load: Callable[[], M], *, clock: Clock) -> None:
        self._executor = DetachedExecutor(_THREADS, name="model")
        self.since_ms = clock.elapsed_ms()
        self.was_awaited = False
        self.failures = 0
        self.cooldown_until_ms = 0.0
        self.loading = self._executor.submit(load)

    def ask(self, question: Callable[[M], Answer], *, timeout_ms: float) -> Future[Answer] | None:
        """Run a call in a thread of the model; None if it times out."""
        model = self.loading.result()
        asking = self._executor.submit(lambda: question(model))
        if wait([asking], timeout=timeout_ms / 1000).done:
            return asking
        asking.cancel()
        return None


class ModelPool(Generic[C, M]):
    """Calls the models of all tenants; thread-safe."""

    def __init__(self, load: Callable[[C], M], *, clock: Clock, terms: ModelLimits) -> None:
        self._load = load
        self._clock = clock
        self._terms = terms
        self._lock = Lock()
        self._models: OrderedDict[tuple[str, int], _Model[M]] = OrderedDict()

    def ready(
        self, tenant: str, card: C, *, timeout_ms: float | None = None
    ) -> ScoringFailure | None:
        """Load a model if needed; the first caller waits a while. None when it is ready."""
        model = self._model(tenant, card)
        if self._clock.elapsed_ms() < model.cooldown_until_ms:
            times = self._terms.failures
            many = f"{times} failures in a row" if times > 1 else "a failure"
            return ScoringFailure(reason=f"rests after {many}", is_model_fault=False)
        if not model.loading.done() and not model.was_awaited:
            model.was_awaited = True
            most_s = self._terms.load_wait_s
            left_s = most_s if timeout_ms is None else timeout_ms / 1000
            wait([model.loading], timeout=max(min(most_s, left_s), 0))
        if not model.loading.done():
            return ScoringFailure(reason="is being loaded", is_model_fault=False)
        error = model.loading.exception()
        if error is None:
            return None
        if isinstance(error, CommonbrainError) and not isinstance(error, StoreCorruptError):
            # A dependency was missing: the library or the artifact.
            return ScoringFailure(reason=_describe_error(error), is_model_fault=False)
        return self._failed(model, _describe_error(error))

    def ask(
        self,
        tenant: str,
        card: C,
        *,
        question: Callable[[M], Answer],
        timeout_ms: float | None = None,
    ) -> Answer | ScoringFailure:
        """Call a ready model within its limit or the caller's remaining time."""
        model = self._model(tenant, card)
        if not model.loading.done():
            # It was evicted since `ready`.
            return ScoringFailure(reason="is being loaded", is_model_fault=False)
        most_ms = self._terms.limit_ms
        limit_ms = most_ms if timeout_ms is None else min(most_ms, timeout_ms)
        if model.loading.exception() is not None:
            return ScoringFailure(reason="could not be loaded again", is_model_fault=False)
        asking = model.ask(question, timeout_ms=max(limit_ms, 0))
        if asking is None:
            if limit_ms < most_ms:
                return ScoringFailure(
                    reason="deadline, there was no time left", is_model_fault=False
                )
            return self._failed(model, f"took over {most_ms:.0f} ms")
        error = asking.exception()
        if error is not None:
            return self._failed(model, _describe_error(error))
        model.failures = 0
        return asking.result()

    def close(self) -> None:
        """Release all models without waiting."""
        with self._lock:
            self._models.clear()

    def _model(self, tenant: str, card: C) -> _Model[M]:
        """Return a model that is loaded or loading; may evict the least recently used one."""
        key, now_ms = (tenant, card.id), self._clock.elapsed_ms()
        with self._lock:
            model = self._models.get(key)
            if model is None or (
                _has_failed_to_load(model) and now_ms >= model.since_ms + _RELOAD_AFTER_MS
            ):
                model = self._models[key] = _Model(lambda: self._load(card), clock=self._clock)
            self._models.move_to_end(key)
            if len(self._models) > MODELS_LOADED_MAX:
                # It has no thread except for running calls.
                self._models.popitem(last=False)
        return model

    def _failed(self, model: _Model[M], reason: str) -> ScoringFailure:
        """Count a failure; several in a row start a pause."""
        model.failures += 1
        if model.failures >= self._terms.failures:
            model.cooldown_until_ms = self._clock.elapsed_ms() + self._terms.cooldown_ms
        return ScoringFailure(reason=reason, is_model_fault=True)


def _has_failed_to_load(model: _Model[M]) -> bool:
    return model.loading.done() and model.loading.exception() is not None


def _describe_error(error: BaseException) -> str:
    """Name the error by type; messages of foreign code may contain anything."""
    match error:
        case CommonbrainError():
            return f"{error.code}, {error.message}"
        case InvalidModelError():
            return str(error)
        case _:
            return f"failed with {type(error).__name__}"


FeatureRows: TypeAlias = Sequence[Mapping[str, float]]
"""The features of the candidates of one recall."""
_TERMS: Final = ModelLimits(limit_ms=RERANK_MS_MAX, failures=3, cooldown_ms=2000.0)
"""A canary serves a share of recalls and is monitored for failures: a short pause suffices."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of the candidates, in order."""

    scores: Sequence[float]


class RerankerRegistry:
    """Calls the rerankers of all tenants; thread-safe."""

    def __init__(self, load: Callable[[str], Reranker], *, clock: Clock) -> None:
        self._known = ServingCache(clock)
        self._models: ModelPool[ModelCard, Reranker] = ModelPool(
            lambda card: _load(load, card), clock=clock, terms=_TERMS
        )

    def serving(self, caller: Caller, read: Callable[[], Sequence[ModelCard]]) -> ModelCard | None:
        """Return the caller's serving model, from the cache if fresh."""
        known = self._known.serving(caller.tenant, read)
        return serving_of(known, caller) if known else None

    def forget(self, tenant: str) -> None:
        """Drop the cache entry of a tenant after a transition."""
        self._known.forget(tenant)

    def ready(
        self, tenant: str, card: ModelCard, *, timeout_ms: float | None
    ) -> ScoringFailure | None:
        """Load a model if needed; the first caller waits a while. None when it is ready."""
        return self._models.ready(tenant, card, timeout_ms=timeout_ms)

    def ask(
        self, tenant: str, card: ModelCard, *, feature_rows: FeatureRows, timeout_ms: float | None
    ) -> Scored | ScoringFailure:
        """Score the candidates of one recall, within 50 ms or the caller's remaining time."""
        return self._models.ask(
            tenant,
            card,
            question=lambda one: Scored(_scores(one, feature_rows)),
            timeout_ms=timeout_ms,
        )

    def close(self) -> None:
        """Release all models without waiting."""
        self._models.close()


def _load(load: Callable[[str], Reranker], card: ModelCard) -> Reranker:
    """Load a model and run it once, so that no recall pays for its first call."""
    reranker = load(card.digest)
    if tuple(reranker.features) != card.features:
        raise InvalidModelError("its features are not those of its card")
    _scores(reranker, [{}, {}])
    return reranker


def _scores(reranker: Reranker, feature_rows: FeatureRows) -> list[float]:
    # Recall has loaded numpy for the vectors already; other commands never pay for it.
    import numpy as np  # noqa: PLC0415

    rows = np.array(
        [[one.get(name, 0.0) for name in reranker.features] for one in feature_rows],
        dtype=np.float32,
    )
    values: list[float] = reranker.scores(rows.reshape(len(feature_rows), -1)).tolist()
    if len(values) != len(feature_rows) or not all(map(isfinite, values)):
        raise InvalidModelError("it gave no score that is a number to each candidate")
    return values


def make_trainer() -> Trainer:
    """Create the trainer of rerankers.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    for library in ("lightgbm", "pytrec_eval", "scipy.stats"):
        load_extra(library, extra="learn")
    from commonbrain.learning.boosting import BoostingTrainer  # noqa: PLC0415

    return BoostingTrainer()


def make_salience_trainer() -> SalienceTrainer:
    """Create the trainer of salience models.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    for library in ("lightgbm", "scipy.stats"):
        load_extra(library, extra="learn")
    from commonbrain.learning.salience_model import SalienceBoosting  # noqa: PLC0415

    return SalienceBoosting()
