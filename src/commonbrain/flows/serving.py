"""The rerankers that serve in this process: which they are, and what they make of candidates.

A model never holds up a recall nor fails one: whatever it does, who asks is told in time that it
did not answer, and why. A model that fails several times in a row rests before it is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, TypeAlias

from commonbrain.domain.canary import serving_of
from commonbrain.domain.limits import RERANK_MS_MAX
from commonbrain.domain.model_card import ModelCard
from commonbrain.domain.scope import Caller
from commonbrain.flows.asking_models import Known, Models, Terms, Unfit, Unscored
from commonbrain.ports.clock import Clock
from commonbrain.ports.models import Reranker

Told: TypeAlias = Sequence[Mapping[str, float]]
"""The features of the candidates of one recall."""
_TERMS: Final = Terms(limit_ms=RERANK_MS_MAX, failures=3, rest_ms=2000.0)
"""It is on trial with a share of recalls, and guards look at its failures: the rest is short."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of candidates, in their order."""

    scores: Sequence[float]


class Rankers:
    """Asks rerankers of all tenants; several threads may at once."""

    def __init__(self, load: Callable[[str], Reranker], *, clock: Clock) -> None:
        """Ask models that are loaded by the digests of their artifacts."""
        self._known = Known(clock)
        self._models = Models(lambda card: _load(load, card), clock=clock, terms=_TERMS)

    def serving(self, caller: Caller, read: Callable[[], Sequence[ModelCard]]) -> ModelCard | None:
        """Give the model that serves a caller, as it was not long ago."""
        known = self._known.serving(caller.tenant, read)
        return serving_of(known, caller) if known else None

    def forget(self, tenant: str) -> None:
        """Look anew who serves a tenant: something was moved."""
        self._known.forget(tenant)

    def ready(self, tenant: str, card: ModelCard, *, within_ms: float | None) -> Unscored | None:
        """Have a model loaded, for which the first that asks waits a while; None when it is."""
        return self._models.ready(tenant, card, within_ms=within_ms)

    def ask(
        self, tenant: str, card: ModelCard, *, told: Told, within_ms: float | None
    ) -> Scored | Unscored:
        """Score the candidates of one recall by a model that is ready.

        It has 50 ms, or what the caller has left.
        """
        return self._models.ask(
            tenant, card, question=lambda one: Scored(_scores(one, told)), within_ms=within_ms
        )

    def close(self) -> None:
        """Let go of every model; none is waited for."""
        self._models.close()


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
