"""Small steps that the contracts of stores take: look, put, find, fetch."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import numpy as np

from commonbrain.embeddings.interface import Matrix, Vectors
from commonbrain.model.kinds import fields_of
from commonbrain.model.links import Link, LinkType
from commonbrain.model.memory import Memory
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action, Revision
from commonbrain.model.scope import LOCAL_TENANT, Authority, Caller, Trust
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON, WordHashEmbedder

OpenStore = Callable[[], Store]

EMBEDDER: Final = WordHashEmbedder()
SPACE: Final = EMBEDDER.space
ANN: Final = Caller(agent="ann")
LATER: Final = NOON + timedelta(hours=1)


def query_scope(
    caller: Caller = ANN, *, now: timedelta = timedelta(), **conditions: object
) -> QueryScope:
    """Give what a caller with a filter sees, a while after noon."""
    return QueryScope(caller=caller, filter=Filter(**conditions), now=NOON + now)  # type: ignore[arg-type]


def put(store: Store, *memories: Memory) -> None:
    """Store memories and make them findable, in one transaction."""
    with store.begin(LOCAL_TENANT) as tx:
        for memory in memories:
            tx.memories.add(memory)
            tx.index.put(memory, vectors_for(memory))


def vectors_for(memory: Memory) -> Vectors:
    """Make the vectors of a memory, those of its fields too."""
    fields = fields_of(memory.detail).items()
    return Vectors(
        windows=EMBEDDER.passages([memory.text])[0],
        fields={name: EMBEDDER.passages([text])[0][0] for name, text in fields},
    )


def move(tx: Transaction, memory_id: int, **changes: Any) -> None:  # noqa: ANN401
    """Change fields of a stored memory."""
    memory = tx.memories.get([memory_id])[memory_id]
    tx.memories.update(memory, replace(memory, **changes))


def a_change(memory_id: int, **more: Any) -> Revision:  # noqa: ANN401
    """Make a change as ann would at noon, with anything else as given."""
    plain = Revision(memory_id=memory_id, action=Action.CREATE, agent="ann", at=NOON)
    return replace(plain, **more)


def a_link(from_id: int, to_id: int, **more: Any) -> Link:  # noqa: ANN401
    """Make a link as ann would at noon, with anything else as given."""
    plain = Link(
        from_id=from_id,
        to_id=to_id,
        type=LinkType.RELATES_TO,
        agent="ann",
        trust=Trust.USER_CLAIM,
        authority=Authority.PERSON,
        created_at=NOON,
        observed_at=NOON,
    )
    return replace(plain, **more)


def lexical(store: Store, *terms: str, scope: QueryScope | None = None) -> list[int]:
    """Find by words."""
    with store.snapshot(LOCAL_TENANT) as tx:
        return [hit.id for hit in tx.index.lexical(terms, scope or query_scope(), limit=10)]


def nearest(store: Store, query: str, *, scope: QueryScope | None = None) -> list[int]:
    """Find by vector, the nearest first."""
    with store.snapshot(LOCAL_TENANT) as tx:
        hits = tx.index.nearest(EMBEDDER.query(query), scope or query_scope(), limit=10)
    return [hit.id for hit in hits if hit.score > SPACE.relevance_threshold]


def stored(store: Store, *ids: int) -> dict[int, Memory]:
    """Fetch by id."""
    with store.snapshot(LOCAL_TENANT) as tx:
        return tx.memories.get(ids)


def random_vectors(count: int) -> Matrix:
    """Make unit vectors that point anywhere."""
    drawn = np.random.default_rng(7).normal(size=(count, SPACE.dimensions)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
