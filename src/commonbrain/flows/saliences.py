"""The models of salience that serve in this process: loaded once, asked within a limit.

Nothing that a model does fails a write or holds it up: who asks is told that it did not answer,
and the fixed rule scores in its stead.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from math import isfinite
from threading import Lock
from typing import Final

from commonbrain.domain.errors import CommonbrainError
from commonbrain.domain.limits import SALIENCE_MS_MAX, SALIENCES_LOADED_MAX
from commonbrain.domain.memory import Memory
from commonbrain.domain.model_card import ModelCard, ModelRole, ModelState
from commonbrain.domain.usefulness import UNKNOWN_AUTHOR, features_of
from commonbrain.ports.clock import Clock
from commonbrain.ports.salience import Salience
from commonbrain.ports.store import Store

_KNOWN_MS: Final = 2000.0
"""How long a process goes by what it read of who serves: a move is seen by all within it."""
_TENANTS_MAX: Final = 10_000
"""Tenants of whom that is remembered; past it all are read anew."""
_LOADING_S: Final = 0.5
"""How long a write waits for a model to be loaded."""
_THREADS: Final = 2
"""One that hangs keeps no other from answering."""
_REST_MS: Final = 30_000.0
"""How long a model is not asked after it failed to load or to answer."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The saliences of memories, in their order."""

    saliences: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Unscored:
    """A model that did not answer."""

    reason: str


class Unfit(Exception):
    """A model that loads and yet is not what its card says, or gives what no score can be."""


@dataclass(slots=True)
class _Model:
    """One model in this process."""

    loading: Future[Salience]
    rests_until_ms: float = 0.0


class Saliences:
    """Asks the active model of each tenant; several threads may at once."""

    def __init__(self, load: Callable[[str], Salience], *, store: Store, clock: Clock) -> None:
        """Ask models that are loaded by the digests of their artifacts."""
        self._load = load
        self._store = store
        self._clock = clock
        self._waiting = ThreadPoolExecutor(_THREADS, "salience")
        self._lock = Lock()
        self._known: dict[str, tuple[float, ModelCard | None]] = {}
        self._models: dict[tuple[str, int], _Model] = {}

    def score(self, tenant: str, memories: Sequence[Memory]) -> Scored | Unscored | None:
        """Score memories as they are written; None where no model serves, which costs nothing."""
        card = self._active(tenant)
        if card is None or not memories:
            return None
        model = self._model(tenant, card)
        unready = self._unready(model)
        if unready is not None:
            return unready
        asking = self._waiting.submit(_scores, model.loading.result(), memories)
        done, _ = wait([asking], timeout=SALIENCE_MS_MAX / 1000)
        if not done:
            asking.cancel()
            return self._failed(model, f"it took over {SALIENCE_MS_MAX:.0f} ms")
        error = asking.exception()
        if error is not None:
            return self._failed(model, _cause(error))
        return Scored(asking.result())

    def _unready(self, model: _Model) -> Unscored | None:
        """Have a model loaded, and say why it is not; None when it is."""
        if self._clock.elapsed_ms() < model.rests_until_ms:
            return Unscored("it rests after it failed")
        wait([model.loading], timeout=_LOADING_S)
        if not model.loading.done():
            return Unscored("it is being loaded")
        error = model.loading.exception()
        return None if error is None else self._failed(model, _cause(error))

    def _active(self, tenant: str) -> ModelCard | None:
        """Give the model that serves a tenant, as it was at most two seconds ago."""
        now_ms = self._clock.elapsed_ms()
        known = self._known.get(tenant)
        if known is None or now_ms >= known[0]:
            with self._store.snapshot(tenant) as tx:
                serving = tx.registry.serving(ModelRole.SALIENCE)
            active = next((one for one in serving if one.state is ModelState.ACTIVE), None)
            if len(self._known) >= _TENANTS_MAX:
                self._known.clear()
            known = self._known[tenant] = (now_ms + _KNOWN_MS, active)
        return known[1]

    def close(self) -> None:
        """Let go of every model; none is waited for."""
        self._waiting.shutdown(wait=False, cancel_futures=True)

    def _model(self, tenant: str, card: ModelCard) -> _Model:
        """Give a model that is loaded or being loaded; what could not be is tried anew in time."""
        with self._lock:
            known = self._models.get((tenant, card.id))
            if known is None or self._is_due_again(known):
                if len(self._models) >= SALIENCES_LOADED_MAX:
                    self._models.clear()
                known = _Model(self._waiting.submit(_loaded, self._load, card))
                self._models[tenant, card.id] = known
        return known

    def _is_due_again(self, model: _Model) -> bool:
        is_lost = model.loading.done() and model.loading.exception() is not None
        return is_lost and 0 < model.rests_until_ms <= self._clock.elapsed_ms()

    def _failed(self, model: _Model, why: str) -> Unscored:
        model.rests_until_ms = self._clock.elapsed_ms() + _REST_MS
        return Unscored(why)


def _loaded(load: Callable[[str], Salience], card: ModelCard) -> Salience:
    salience = load(card.digest)
    if tuple(salience.features) != card.features:
        raise Unfit("its features are not those of its card")
    return salience


def _scores(salience: Salience, memories: Sequence[Memory]) -> tuple[float, ...]:
    # Whoever remembers has loaded it for the vectors.
    import numpy as np  # noqa: PLC0415

    told = [
        features_of(one, author=salience.authors.get(one.agent, UNKNOWN_AUTHOR)) for one in memories
    ]
    rows = np.array([[one[name] for name in salience.features] for one in told], dtype=np.float32)
    found: list[float] = salience.scores(rows).tolist()
    if len(found) != len(memories) or not all(isfinite(one) and 0 <= one <= 1 for one in found):
        raise Unfit("it gave no salience of 0 to 1 to each memory")
    return tuple(round(one, 4) for one in found)


def _cause(error: BaseException) -> str:
    """Name what went wrong; a message of foreign code may hold anything, and is not shown."""
    match error:
        case CommonbrainError():
            return f"{error.code}, {error.message}"
        case Unfit():
            return str(error)
        case _:
            return f"it failed with {type(error).__name__}"
