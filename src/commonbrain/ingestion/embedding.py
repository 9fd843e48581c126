"""Deferred embedding: vectors for memories stored while the embedder was unavailable."""

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
