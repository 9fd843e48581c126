"""A model that may hang or fail, called in threads of its own and within limits.

It is foreign code: each model has a few threads, so that it cannot block others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from threading import Lock
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from commonbrain.model.errors import CommonbrainError, StoreCorruptError
from commonbrain.model.values import dataclass
from commonbrain.threads import DetachedExecutor

if TYPE_CHECKING:
    from commonbrain.clock import Clock

M = TypeVar("M")
"""The model type."""
Answer = TypeVar("Answer")

_RELOAD_AFTER_MS: Final = 30_000.0
"""Delay before a failed load is retried."""
_THREADS: Final = 2
"""Threads of each model, so that one hanging call does not block the next."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of the candidates, in order."""

    scores: Sequence[float]


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


class _Attempt(Generic[M]):
    """A model that is loaded or loading, and its recent failures."""

    def __init__(self, load: Callable[[], M], *, clock: Clock) -> None:
        self._executor = DetachedExecutor(_THREADS, name="model")
        self.since_ms = clock.elapsed_ms()
        self.was_awaited = False
        self.failures = 0
        self.cooldown_until_ms = 0.0
        self.loading = self._executor.submit(load)

    @property
    def has_failed_to_load(self) -> bool:
        return self.loading.done() and self.loading.exception() is not None

    def ask(self, question: Callable[[M], Answer], *, timeout_ms: float) -> Future[Answer] | None:
        """Run a call in a thread of the model; None if it times out."""
        model = self.loading.result()
        asking = self._executor.submit(lambda: question(model))
        if wait([asking], timeout=timeout_ms / 1000).done:
            return asking
        asking.cancel()
        return None


class GuardedModel(Generic[M]):
    """A model that is loaded on first use; thread-safe.

    After some failures in a row it pauses. A failed load is retried after half a minute.
    """

    def __init__(self, load: Callable[[], M], *, clock: Clock, limits: ModelLimits) -> None:
        self._load = load
        self._clock = clock
        self._limits = limits
        self._lock = Lock()
        self._attempt: _Attempt[M] | None = None

    def ready(self, *, timeout_ms: float | None = None) -> ScoringFailure | None:
        """Load the model if needed; the first caller waits a while. None when it is ready."""
        model = self._current()
        if self._clock.elapsed_ms() < model.cooldown_until_ms:
            times = self._limits.failures
            many = f"{times} failures in a row" if times > 1 else "a failure"
            return ScoringFailure(reason=f"rests after {many}", is_model_fault=False)
        if not model.loading.done() and not model.was_awaited:
            model.was_awaited = True
            most_s = self._limits.load_wait_s
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
        self, question: Callable[[M], Answer], *, timeout_ms: float | None = None
    ) -> Answer | ScoringFailure:
        """Call the model, once it is ready, within its limit or the caller's remaining time."""
        model = self._current()
        if not model.loading.done():
            return ScoringFailure(reason="is being loaded", is_model_fault=False)
        most_ms = self._limits.limit_ms
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
        """Release the model without waiting; it has no thread except for running calls."""
        self._attempt = None

    def _current(self) -> _Attempt[M]:
        with self._lock:
            model = self._attempt
            if model is None or (
                model.has_failed_to_load
                and self._clock.elapsed_ms() >= model.since_ms + _RELOAD_AFTER_MS
            ):
                model = self._attempt = _Attempt(self._load, clock=self._clock)
        return model

    def _failed(self, model: _Attempt[M], reason: str) -> ScoringFailure:
        """Count a failure; several in a row start a pause."""
        model.failures += 1
        if model.failures >= self._limits.failures:
            model.cooldown_until_ms = self._clock.elapsed_ms() + self._limits.cooldown_ms
        return ScoringFailure(reason=reason, is_model_fault=True)


def _describe_error(error: BaseException) -> str:
    """Name the error by type; messages of foreign code may contain anything."""
    match error:
        case CommonbrainError():
            return f"{error.code}, {error.message}"
        case InvalidModelError():
            return str(error)
        case _:
            return f"failed with {type(error).__name__}"
