"""Deferred embedding: vectors for memories stored while the embedder was unavailable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Final

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import Embedder, Vectors
from commonbrain.ingestion.commit import build_memory
from commonbrain.ingestion.preparation import PreparedDraft
from commonbrain.learning.interface import Salience
from commonbrain.learning.serving import (
    InvalidModelError,
    ModelLimits,
    ModelPool,
    ScoringFailure,
    ServingCache,
)
from commonbrain.learning.usefulness import KINDS_SCORED, UNKNOWN_AUTHOR, features_of
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.kinds import CausalField, Detail, EventDetail, fields_of
from commonbrain.model.limits import EMBED_BATCH, ITEMS_PER_CALL_MAX, SALIENCE_MS_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.model.scope import Caller
from commonbrain.services import Services

if TYPE_CHECKING:
    from commonbrain.storage.store import Store, Transaction


def vectors_for(memories: Sequence[Memory], embedder: Embedder) -> dict[int, Vectors]:
    """Embed memories in one batch; return their vectors by id.

    Raises:
        UnavailableError: the embedder is unavailable or rejects one of the texts.

    """
    made = embedded([(one.text, one.detail) for one in memories], embedder)
    return {one.id: given for one, given in zip(memories, made, strict=True)}


def embedded(inputs: Sequence[tuple[str, Detail | None]], embedder: Embedder) -> list[Vectors]:
    """Embed texts and the fields of atoms, each distinct text once, in one batch.

    Raises:
        UnavailableError: the embedder is unavailable or rejects one of the texts.

    """
    fields = [fields_of(detail) for _, detail in inputs]
    texts = dict.fromkeys(
        segment
        for (text, _), parts in zip(inputs, fields, strict=True)
        for segment in (text, *parts.values())
    )
    made = dict(zip(texts, embedder.passages(list(texts)), strict=True)) if texts else {}

    def vectors(text: str, parts: Mapping[CausalField, str]) -> Vectors:
        # A field is a clause; if it exceeds a window, its beginning is enough.
        beginnings = {name: made[segment][0] for name, segment in parts.items()}
        return Vectors(windows=made[text], fields=beginnings)

    return [vectors(text, parts) for (text, _), parts in zip(inputs, fields, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedProgress:
    """The number of memories that got vectors, and of those that still lack them in this tenant."""

    count: int
    left: int


OnCommit = Callable[["Transaction", EmbedProgress], None]


def do_nothing(_tx: Transaction, _done: EmbedProgress) -> None:
    """Do nothing on commit."""


@dataclass(frozen=True, slots=True)
class EmbedPending:
    """Embeds the pending memories of one tenant."""

    services: Services
    caller: Caller

    def __call__(
        self, *, batch: int = EMBED_BATCH, one_by_one: bool = True, on_commit: OnCommit = do_nothing
    ) -> EmbedProgress:
        """Embed a batch of pending memories, oldest first.

        Call it again while `count` and `left` are both positive. A text that the embedder rejects
        stays pending and does not keep the others from their vectors.

        Args:
            batch: at most this many, 1 to 100.
            one_by_one: try each separately if the batch fails; slower while the embedder is down.
            on_commit: called in the transaction that stores the vectors.

        Raises:
            InvalidInputError: the batch is out of range.
            UnavailableError: the embedder accepted none of them, or the store cannot be read or
                written; all of them stay pending.

        """
        if not 1 <= batch <= ITEMS_PER_CALL_MAX:
            raise InvalidInputError(f"The batch is {batch}; 1 to {ITEMS_PER_CALL_MAX} are allowed.")
        tenant = self.caller.tenant
        with self.services.store.snapshot(tenant) as tx:
            waiting = tx.memories.get(tx.index.unembedded(limit=batch))
        embed = embed_if_free if one_by_one else vectors_for
        made = embed(list(waiting.values()), self.services.embedder)
        with self.services.store.begin(tenant) as tx:
            count = sum(tx.index.embed(id_, vectors) for id_, vectors in made.items())
            done = EmbedProgress(count=count, left=tx.index.pending())
            on_commit(tx, done)
        return done


def embed_if_free(waiting: Sequence[Memory], embedder: Embedder) -> dict[int, Vectors]:
    """Embed all at once, or one by one if the embedder rejects the batch.

    Raises:
        UnavailableError: none of them was accepted.

    """
    try:
        return vectors_for(waiting, embedder)
    except UnavailableError:
        return _one_by_one(waiting, embedder)


def _one_by_one(waiting: Sequence[Memory], embedder: Embedder) -> dict[int, Vectors]:
    taken: dict[int, Vectors] = {}
    refusal: UnavailableError | None = None
    for one in waiting:
        try:
            taken |= vectors_for([one], embedder)
        except UnavailableError as error:
            refusal = error
    if refusal and not taken:
        raise refusal
    return taken


_TERMS: Final = ModelLimits(limit_ms=SALIENCE_MS_MAX, failures=1, cooldown_ms=30_000.0)
"""Nothing rolls back a salience model that fails, so a few failures suspend it."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The saliences of memories, in order."""

    saliences: tuple[float, ...]


class SalienceModels:
    """Scores with the active model of each tenant; safe to use from several threads."""

    def __init__(self, load: Callable[[str], Salience], *, store: Store, clock: Clock) -> None:
        """Load models by the digests of their artifacts."""
        self._store = store
        self._known = ServingCache(clock)
        self._models = ModelPool(lambda card: _loaded(load, card), clock=clock, terms=_TERMS)

    def score(self, tenant: str, memories: Sequence[Memory]) -> Scored | ScoringFailure | None:
        """Score drafts as memories are written; None if there are none or no model serves."""
        if not memories:
            return None
        card = self._active(tenant)
        if card is None:
            return None
        return self._models.ready(tenant, card) or self._models.ask(
            tenant, card, question=lambda one: Scored(_scores(one, memories))
        )

    def forget(self, tenant: str) -> None:
        """Look up the serving model of a tenant again, after a transition."""
        self._known.forget(tenant)

    def close(self) -> None:
        """Release every model without waiting for calls in progress."""
        self._models.close()

    def _active(self, tenant: str) -> ModelCard | None:
        """Return the model that serves a tenant, cached for a short time."""
        known = self._known.serving(tenant, lambda: self._serving(tenant))
        return next((one for one in known if one.state is ModelState.ACTIVE), None)

    def _serving(self, tenant: str) -> Sequence[ModelCard]:
        with self._store.snapshot(tenant) as tx:
            return tx.models.serving(ModelRole.SALIENCE)


def _loaded(load: Callable[[str], Salience], card: ModelCard) -> Salience:
    salience = load(card.digest)
    if tuple(salience.features) != card.features:
        raise InvalidModelError("its features are not those of its card")
    return salience


def _scores(salience: Salience, memories: Sequence[Memory]) -> tuple[float, ...]:
    # Already loaded by the embedder.
    import numpy as np  # noqa: PLC0415

    feature_rows = [
        features_of(one, author=salience.authors.get(one.agent, UNKNOWN_AUTHOR)) for one in memories
    ]
    rows = np.array(
        [[one[name] for name in salience.features] for one in feature_rows], dtype=np.float32
    )
    values: list[float] = salience.scores(rows).tolist()
    if len(values) != len(memories) or not all(isfinite(one) and 0 <= one <= 1 for one in values):
        raise InvalidModelError("it gave no salience of 0 to 1 to each memory")
    return tuple(round(one, 4) for one in values)


def with_salience(
    ready: Sequence[PreparedDraft], caller: Caller, *, services: Services
) -> list[PreparedDraft]:
    """Set the salience that the tenant's model predicts on new drafts.

    If the model does not answer, the rule scores, and the outcome says so. Stored memories keep
    their salience.
    """
    now = services.clock.now()
    unscored = [one for one in ready if _is_open(one)]
    result = services.saliences.score(
        caller.tenant, [build_memory(one, caller, now=now, revision_number=0) for one in unscored]
    )
    if result is None:
        return list(ready)
    if not isinstance(result, Scored):
        warning = f"Its salience is the rule's: the learnt one did not answer: {result.reason}."
        return [
            replace(one, warnings=(*one.warnings, warning)) if _is_open(one) else one
            for one in ready
        ]
    saliences = iter(result.saliences)
    return [_with(one, saliences) for one in ready]


def _with(one: PreparedDraft, saliences: Iterator[float]) -> PreparedDraft:
    return replace(one, salience=next(saliences)) if _is_open(one) else one


def _is_open(one: PreparedDraft) -> bool:
    """Return whether neither the author nor the kind has set the salience."""
    detail = one.admitted.detail
    has_importance = isinstance(detail, EventDetail) and detail.importance is not None
    return one.admitted.kind in KINDS_SCORED and not has_importance
