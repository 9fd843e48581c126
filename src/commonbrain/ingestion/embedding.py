"""Embedding later: vectors for what was stored while the embedder was down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commonbrain.embeddings.interface import Embedder, Vectors
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.kinds import CausalField, Detail, fields_of
from commonbrain.model.limits import EMBED_BATCH, ITEMS_PER_CALL_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.scope import Caller
from commonbrain.services import Services

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


def vectors_for(memories: Sequence[Memory], embedder: Embedder) -> dict[int, Vectors]:
    """Embed memories in one batch; give their vectors by id.

    Raises:
        UnavailableError: the embedder is down, or does not take one of the texts.

    """
    made = embedded([(one.text, one.detail) for one in memories], embedder)
    return {one.id: given for one, given in zip(memories, made, strict=True)}


def embedded(inputs: Sequence[tuple[str, Detail | None]], embedder: Embedder) -> list[Vectors]:
    """Embed full texts and the fields of what is an atom, each distinct text once, in one batch.

    Raises:
        UnavailableError: the embedder is down, or does not take one of the texts.

    """
    fields = [fields_of(detail) for _, detail in inputs]
    texts = dict.fromkeys(
        segment
        for (text, _), parts in zip(inputs, fields, strict=True)
        for segment in (text, *parts.values())
    )
    made = dict(zip(texts, embedder.passages(list(texts)), strict=True)) if texts else {}

    def vectors(text: str, parts: Mapping[CausalField, str]) -> Vectors:
        # A field is a clause: of one that is longer than a window, its beginning tells the matter.
        beginnings = {name: made[segment][0] for name, segment in parts.items()}
        return Vectors(windows=made[text], fields=beginnings)

    return [vectors(text, parts) for (text, _), parts in zip(inputs, fields, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedProgress:
    """How many memories got their vectors, and how many of this tenant's still wait."""

    count: int
    left: int


OnCommit = Callable[["Transaction", EmbedProgress], None]


def _nothing(_tx: Transaction, _done: EmbedProgress) -> None:
    """Do nothing beside."""


@dataclass(frozen=True, slots=True)
class EmbedPending:
    """Catching up for one tenant."""

    services: Services
    caller: Caller

    def __call__(
        self, *, batch: int = EMBED_BATCH, one_by_one: bool = True, on_commit: OnCommit = _nothing
    ) -> EmbedProgress:
        """Give vectors to a batch of those that lack some, oldest first.

        Call it again while it embeds some and leaves some. A text that the embedder does not take
        is left waiting, and keeps none of the others from theirs.

        Args:
            batch: how many at most, 1 to 100.
            one_by_one: try each alone when the batch fails; that takes longer while nothing works.
            on_commit: what is to be done in the transaction that keeps the vectors.

        Raises:
            InvalidInputError: the batch is out of bounds.
            UnavailableError: the embedder took none of them, or the store cannot be read or
                written; those waiting still wait.

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
    """Embed all at once, or one by one when something among them is refused.

    Raises:
        UnavailableError: none of them was taken.

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
