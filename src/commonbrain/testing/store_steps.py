"""Small steps that the contracts of stores take: look, put, find, fetch."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

import numpy as np

from commonbrain.domain.memory import Memory
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import LOCAL_TENANT, Caller
from commonbrain.ports.models import Matrix
from commonbrain.ports.store import Look, Store
from commonbrain.testing.builders import NOON
from commonbrain.testing.deterministic_embedder import WordHashEmbedder

OpenStore = Callable[[], Store]

EMBEDDER: Final = WordHashEmbedder()
SPACE: Final = EMBEDDER.space
ANN: Final = Caller(agent="ann")


def look(caller: Caller = ANN, *, now: timedelta = timedelta(), **wanted: object) -> Look:
    """Look as somebody with a filter, a while after noon."""
    return Look(caller=caller, filter=Filter(**wanted), now=NOON + now)  # type: ignore[arg-type]


def put(store: Store, *memories: Memory) -> None:
    """Store memories and make them findable, in one transaction."""
    with store.begin(LOCAL_TENANT) as tx:
        for memory in memories:
            tx.memories.add(memory)
            tx.index.put(memory, EMBEDDER.passages([memory.text])[0])


def lexical(store: Store, *terms: str, wanted: Look | None = None) -> list[int]:
    """Find by words."""
    with store.snapshot(LOCAL_TENANT) as tx:
        return [hit.id for hit in tx.index.lexical(terms, wanted or look(), limit=10)]


def nearest(store: Store, query: str, *, wanted: Look | None = None) -> list[int]:
    """Find by vector, the nearest first."""
    with store.snapshot(LOCAL_TENANT) as tx:
        hits = tx.index.nearest(EMBEDDER.query(query), wanted or look(), limit=10)
    return [hit.id for hit in hits if hit.score > SPACE.relevant_at]


def stored(store: Store, *ids: int) -> dict[int, Memory]:
    """Fetch by id."""
    with store.snapshot(LOCAL_TENANT) as tx:
        return tx.memories.get(ids)


def random_vectors(count: int) -> Matrix:
    """Make unit vectors that point anywhere."""
    drawn = np.random.default_rng(7).normal(size=(count, SPACE.dimensions)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
