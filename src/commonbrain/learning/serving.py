"""Models in this process: loaded once, asked within a limit, the longest unused one let go of.

A model is foreign code that may hang. It works aside, on so few threads of its own that it keeps no
other model from answering.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from math import isfinite
from threading import Lock
from typing import Final, Generic, TypeAlias, TypeVar

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import Reranker
from commonbrain.executors import DetachedExecutor
from commonbrain.model.errors import CommonbrainError, StoreCorruptError
from commonbrain.model.limits import MODELS_LOADED_MAX, RERANK_MS_MAX
from commonbrain.model.model_card import ModelCard, serving_of
from commonbrain.model.scope import Caller

M = TypeVar("M")
"""A model, by what it is asked."""
Answer = TypeVar("Answer")

SERVING_CACHE_MS: Final = 2000.0
"""How long a process goes by what it read of who serves: a move is seen by all within it."""
EMPTY_CACHE_MS: Final = 10_000.0
"""The same where nobody serves: there is nothing to roll back, and a first model may come later."""
_TENANTS_MAX: Final = 10_000
"""Tenants of whom that is remembered; past it all are read anew."""
_LOAD_WAIT_S: Final = 0.5
"""How long the first that asks waits for a model to be loaded; those after it do not."""
_RELOAD_AFTER_MS: Final = 30_000.0
"""How long after a model could not be loaded that is tried again."""
_THREADS: Final = 2
"""Of each model: one answer that hangs keeps no other from coming."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringFailure:
    """A model that did not answer."""

    reason: str
    is_model_fault: bool
    """Whether that is the model's doing, and counts against it."""


class InvalidModelError(Exception):
    """A model that loads and yet is not what its card says, or gives what no score can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """What a model is granted."""

    limit_ms: float
    """For one answer."""
    failures: int
    """In a row, after which it rests."""
    cooldown_ms: float


class ServingCache:
    """Who serves each tenant, as it was at most two seconds ago; ten where nobody did."""

    def __init__(self, clock: Clock) -> None:
        """Know of nobody yet."""
        self._clock = clock
        self._known: dict[str, tuple[float, tuple[ModelCard, ...]]] = {}

    def serving(
        self, tenant: str, read: Callable[[], Sequence[ModelCard]]
    ) -> tuple[ModelCard, ...]:
        """Give what serves a tenant, and read it where that is too long ago."""
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
        """Look anew who serves a tenant: something was moved."""
        self._known.pop(tenant, None)


class _Model(Generic[M]):
    """One model in this process, and how it fared lately."""

    def __init__(self, load: Callable[[], M], *, clock: Clock) -> None:
        self._executor = DetachedExecutor(_THREADS, name="model")
        self.since_ms = clock.elapsed_ms()
        self.was_awaited = False
        self.failures = 0
        self.cooldown_until_ms = 0.0
        self.loading = self._executor.submit(load)

    def ask(self, question: Callable[[M], Answer], *, timeout_ms: float) -> Future[Answer] | None:
        """Have a question answered; None where there was no answer in time."""
        model = self.loading.result()
        asking = self._executor.submit(lambda: question(model))
        if wait([asking], timeout=timeout_ms / 1000).done:
            return asking
        asking.cancel()
        return None


class ModelPool(Generic[M]):
    """Asks models of all tenants; several threads may at once."""

    def __init__(self, load: Callable[[ModelCard], M], *, clock: Clock, terms: ModelLimits) -> None:
        """Ask models that are loaded by their cards."""
        self._load = load
        self._clock = clock
        self._terms = terms
        self._lock = Lock()
        self._models: OrderedDict[tuple[str, int], _Model[M]] = OrderedDict()

    def ready(
        self, tenant: str, card: ModelCard, *, timeout_ms: float | None = None
    ) -> ScoringFailure | None:
        """Have a model loaded, for which the first that asks waits a while; None when it is."""
        model = self._model(tenant, card)
        if self._clock.elapsed_ms() < model.cooldown_until_ms:
            times = self._terms.failures
            many = f"{times} failures in a row" if times > 1 else "a failure"
            return ScoringFailure(reason=f"rests after {many}", is_model_fault=False)
        if not model.loading.done() and not model.was_awaited:
            model.was_awaited = True
            left_s = _LOAD_WAIT_S if timeout_ms is None else timeout_ms / 1000
            wait([model.loading], timeout=max(min(_LOAD_WAIT_S, left_s), 0))
        if not model.loading.done():
            return ScoringFailure(reason="is being loaded", is_model_fault=False)
        error = model.loading.exception()
        if error is None:
            return None
        if isinstance(error, CommonbrainError) and not isinstance(error, StoreCorruptError):
            # What it needs was not there: its library, or the place of its bytes.
            return ScoringFailure(reason=_describe_error(error), is_model_fault=False)
        return self._failed(model, _describe_error(error))

    def ask(
        self,
        tenant: str,
        card: ModelCard,
        *,
        question: Callable[[M], Answer],
        timeout_ms: float | None = None,
    ) -> Answer | ScoringFailure:
        """Ask a model that is ready; it has its limit, or what the caller has left."""
        model = self._model(tenant, card)
        if not model.loading.done():
            # It had to give way to others since it was ready.
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
        """Let go of every model; none is waited for."""
        with self._lock:
            self._models.clear()

    def _model(self, tenant: str, card: ModelCard) -> _Model[M]:
        """Give a model that is loaded or being loaded; the longest unused one gives way."""
        key, now_ms = (tenant, card.id), self._clock.elapsed_ms()
        with self._lock:
            model = self._models.get(key)
            if model is None or (
                _has_failed_to_load(model) and now_ms >= model.since_ms + _RELOAD_AFTER_MS
            ):
                model = self._models[key] = _Model(lambda: self._load(card), clock=self._clock)
            self._models.move_to_end(key)
            if len(self._models) > MODELS_LOADED_MAX:
                # It has no thread but for what it is asked just now.
                self._models.popitem(last=False)
        return model

    def _failed(self, model: _Model[M], reason: str) -> ScoringFailure:
        """Count a failure; several in a row are followed by a rest."""
        model.failures += 1
        if model.failures >= self._terms.failures:
            model.cooldown_until_ms = self._clock.elapsed_ms() + self._terms.cooldown_ms
        return ScoringFailure(reason=reason, is_model_fault=True)


def _has_failed_to_load(model: _Model[M]) -> bool:
    return model.loading.done() and model.loading.exception() is not None


def _describe_error(error: BaseException) -> str:
    """Name what went wrong; a message of foreign code may hold anything, and is not shown."""
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
"""It is on trial with a share of recalls, and guards look at its failures: the rest is short."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of candidates, in their order."""

    scores: Sequence[float]


class RerankerRegistry:
    """Asks rerankers of all tenants; several threads may at once."""

    def __init__(self, load: Callable[[str], Reranker], *, clock: Clock) -> None:
        """Ask models that are loaded by the digests of their artifacts."""
        self._known = ServingCache(clock)
        self._models = ModelPool(lambda card: _load(load, card), clock=clock, terms=_TERMS)

    def serving(self, caller: Caller, read: Callable[[], Sequence[ModelCard]]) -> ModelCard | None:
        """Give the model that serves a caller, as it was not long ago."""
        known = self._known.serving(caller.tenant, read)
        return serving_of(known, caller) if known else None

    def forget(self, tenant: str) -> None:
        """Look anew who serves a tenant: something was moved."""
        self._known.forget(tenant)

    def ready(
        self, tenant: str, card: ModelCard, *, timeout_ms: float | None
    ) -> ScoringFailure | None:
        """Have a model loaded, for which the first that asks waits a while; None when it is."""
        return self._models.ready(tenant, card, timeout_ms=timeout_ms)

    def ask(
        self, tenant: str, card: ModelCard, *, feature_rows: FeatureRows, timeout_ms: float | None
    ) -> Scored | ScoringFailure:
        """Score the candidates of one recall by a model that is ready.

        It has 50 ms, or what the caller has left.
        """
        return self._models.ask(
            tenant,
            card,
            question=lambda one: Scored(_scores(one, feature_rows)),
            timeout_ms=timeout_ms,
        )

    def close(self) -> None:
        """Let go of every model; none is waited for."""
        self._models.close()


def _load(load: Callable[[str], Reranker], card: ModelCard) -> Reranker:
    """Load a model and try it, so that no recall pays for what only its first answer takes."""
    reranker = load(card.digest)
    if tuple(reranker.features) != card.features:
        raise InvalidModelError("its features are not those of its card")
    _scores(reranker, [{}, {}])
    return reranker


def _scores(reranker: Reranker, feature_rows: FeatureRows) -> list[float]:
    # Whoever recalls has loaded it for the vectors; a command that does not never pays for it.
    import numpy as np  # noqa: PLC0415

    rows = np.array(
        [[one.get(name, 0.0) for name in reranker.features] for one in feature_rows],
        dtype=np.float32,
    )
    values: list[float] = reranker.scores(rows.reshape(len(feature_rows), -1)).tolist()
    if len(values) != len(feature_rows) or not all(map(isfinite, values)):
        raise InvalidModelError("it gave no score that is a number to each candidate")
    return values
