"""The models that serve in this process: which they are, loaded once, and asked within a limit.

A model never holds up a recall nor fails one: whatever it does, who asks is told in time that it
did not answer, and why. A model that fails several times in a row rests before it is asked again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from math import isfinite
from threading import Lock
from typing import Final, TypeAlias

from commonbrain.domain.canary import serving_of
from commonbrain.domain.errors import CommonbrainError, Corrupt
from commonbrain.domain.limits import MODELS_LOADED_MAX, RERANK_MS_MAX
from commonbrain.domain.model_card import ModelCard, ModelRole
from commonbrain.domain.scope import Caller
from commonbrain.ports.clock import Clock
from commonbrain.ports.models import Reranker
from commonbrain.ports.store import Transaction

Told: TypeAlias = Sequence[Mapping[str, float]]
"""The features of the candidates of one recall."""
KNOWN_MS: Final = 2000.0
"""How long a process goes by what it read of who serves: a move is seen by all within it."""
_TENANTS_MAX: Final = 10_000
"""Tenants of whom that is remembered; past it all are read anew."""
_LOADING_S: Final = 0.5
"""How long the first recall waits for a model to be loaded; those after it do not."""
_AGAIN_MS: Final = 30_000.0
"""How long after what a model needs was not there it is looked for again."""
_FAILURES: Final = 3
"""In a row, after which a model rests."""
_REST_MS: Final = 2000.0
_THREADS: Final = 2
"""Of each model: one that hangs keeps no other from answering."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of candidates, in their order."""

    scores: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscored:
    """A model that did not answer."""

    reason: str
    is_its_own: bool
    """Whether that is the model's doing, and counts against it."""


class Unfit(Exception):
    """A model that loads and yet is not what its card says, or gives what no score can be."""


@dataclass(slots=True)
class _Model:
    """One model in this process."""

    loading: Future[Reranker]
    pool: ThreadPoolExecutor
    since_ms: float
    is_awaited: bool = False
    failures: int = 0
    rests_until_ms: float = field(default=0.0)


class Rankers:
    """Asks rerankers of all tenants; several threads may at once."""

    def __init__(self, load: Callable[[str], Reranker], *, clock: Clock) -> None:
        """Ask models that are loaded by the digests of their artifacts."""
        self._load = load
        self._clock = clock
        self._lock = Lock()
        self._known: dict[str, tuple[float, tuple[ModelCard, ...]]] = {}
        self._models: OrderedDict[tuple[str, int], _Model] = OrderedDict()

    def serving(self, tx: Transaction, caller: Caller) -> ModelCard | None:
        """Give the model that serves a caller, as it was at most two seconds ago."""
        now_ms = self._clock.elapsed_ms()
        known = self._known.get(caller.tenant)
        if known is None or now_ms >= known[0]:
            known = (now_ms + KNOWN_MS, tuple(tx.registry.serving(ModelRole.RERANKER)))
            if len(self._known) >= _TENANTS_MAX:
                self._known.clear()
            self._known[caller.tenant] = known
        return serving_of(known[1], caller) if known[1] else None

    def forget(self, tenant: str) -> None:
        """Look anew who serves a tenant: something was moved."""
        self._known.pop(tenant, None)

    def ready(self, tenant: str, card: ModelCard, *, within_ms: float | None) -> Unscored | None:
        """Have a model loaded, for which the first that asks waits a while; None when it is."""
        model = self._model(tenant, card)
        if self._clock.elapsed_ms() < model.rests_until_ms:
            return Unscored(reason=f"rests after {_FAILURES} failures in a row", is_its_own=False)
        if not model.loading.done() and not model.is_awaited:
            model.is_awaited = True
            left_s = _LOADING_S if within_ms is None else within_ms / 1000
            wait([model.loading], timeout=max(min(_LOADING_S, left_s), 0))
        if not model.loading.done():
            return Unscored(reason="is being loaded", is_its_own=False)
        error = model.loading.exception()
        if error is None:
            return None
        if _is_missing(model):
            return Unscored(reason=_cause(error), is_its_own=False)
        return self._failed(model, _cause(error))

    def ask(
        self, tenant: str, card: ModelCard, *, told: Told, within_ms: float | None
    ) -> Scored | Unscored:
        """Score the candidates of one recall by a model that is ready.

        It has 50 ms, or what the caller has left.
        """
        model = self._model(tenant, card)
        limit_ms = RERANK_MS_MAX if within_ms is None else min(RERANK_MS_MAX, within_ms)
        scoring = model.pool.submit(_scores, model.loading.result(), told)
        done, _ = wait([scoring], timeout=max(limit_ms, 0) / 1000)
        if not done:
            scoring.cancel()
            if limit_ms < RERANK_MS_MAX:
                return Unscored(reason="deadline, there was no time left", is_its_own=False)
            return self._failed(model, f"took over {RERANK_MS_MAX:.0f} ms")
        error = scoring.exception()
        if error is not None:
            return self._failed(model, _cause(error))
        model.failures = 0
        return Scored(scoring.result())

    def close(self) -> None:
        """Let go of every model; none is waited for."""
        with self._lock:
            models = list(self._models.values())
            self._models.clear()
        for model in models:
            model.pool.shutdown(wait=False, cancel_futures=True)

    def _model(self, tenant: str, card: ModelCard) -> _Model:
        """Give a model that is loaded or being loaded; the longest unused one gives way."""
        key, now_ms = (tenant, card.id), self._clock.elapsed_ms()
        with self._lock:
            model = self._models.get(key)
            if model is None or (_is_missing(model) and now_ms >= model.since_ms + _AGAIN_MS):
                pool = ThreadPoolExecutor(_THREADS, "ranking")
                loading = pool.submit(_load, self._load, card)
                model = self._models[key] = _Model(loading, pool, since_ms=now_ms)
            self._models.move_to_end(key)
            if len(self._models) > MODELS_LOADED_MAX:
                # Its threads end once nobody asks it any more.
                self._models.popitem(last=False)
        return model

    def _failed(self, model: _Model, reason: str) -> Unscored:
        """Count a failure; several in a row are followed by a rest."""
        model.failures += 1
        if model.failures >= _FAILURES:
            model.rests_until_ms = self._clock.elapsed_ms() + _REST_MS
        return Unscored(reason=reason, is_its_own=True)


def _is_missing(model: _Model) -> bool:
    """Say whether what a model needs was not there: its library, or the place of its bytes."""
    error = model.loading.exception() if model.loading.done() else None
    return isinstance(error, CommonbrainError) and not isinstance(error, Corrupt)


def _load(load: Callable[[str], Reranker], card: ModelCard) -> Reranker:
    """Load a model and try it, so that no recall pays for what only its first answer takes."""
    reranker = load(card.digest)
    if tuple(reranker.features) != card.features:
        raise Unfit("its features are not those of its card")
    _scores(reranker, [{}, {}])
    return reranker


def _scores(reranker: Reranker, told: Told) -> list[float]:
    # Whoever recalls has loaded it for the vectors; a command that does not never pays for it.
    import numpy as np  # noqa: PLC0415

    rows = np.array(
        [[one.get(name, 0.0) for name in reranker.features] for one in told], dtype=np.float32
    )
    found: list[float] = reranker.scores(rows.reshape(len(told), -1)).tolist()
    if len(found) != len(told) or not all(map(isfinite, found)):
        raise Unfit("it gave no score that is a number to each candidate")
    return found


def _cause(error: BaseException) -> str:
    """Name what went wrong; a message of foreign code may hold anything, and is not shown."""
    match error:
        case CommonbrainError():
            return f"{error.code}, {error.message}"
        case Unfit():
            return str(error)
        case _:
            return f"failed with {type(error).__name__}"
