"""The least that recall, remember and an import cost, with which benchmarks compare them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.timing import Timing, timing
from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.model.limits import IMPORT_BATCH
from commonbrain.model.query import Filter
from commonbrain.retrieval.plan import search_terms
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.sqlite.driver import driver

_LEXICAL_LIMIT: Final = 40
_NEAREST_LIMIT: Final = 60
"""Both as a recall asks its index by default."""

Insert = Callable[[str, bytes], object]
"""Inserts a text and its vector; they are on disk when it returns."""


def time_recall_floor(brain: Brain, asked: Sequence[str]) -> Mapping[str, Timing]:
    """Time the embedding of questions, and the two searches of the index, each alone."""
    embedder, store = brain.services.embedder, brain.services.store
    scope = QueryScope(caller=brain.caller, filter=Filter(), now=brain.services.clock.now())
    vectors = [embedder.query(question) for question in asked]
    terms = [search_terms(question) for question in asked]
    with store.snapshot(brain.caller.tenant) as tx:
        words = partial(tx.index.lexical, limit=_LEXICAL_LIMIT)
        nearest = partial(tx.index.nearest, limit=_NEAREST_LIMIT)
        return {
            "embedding alone": timing(partial(embedder.query, one) for one in asked),
            "full text alone": timing(partial(words, term, scope) for term in terms),
            "vectors alone": timing(partial(nearest, vector, scope) for vector in vectors),
        }


def time_remember_floor(
    embedder: Embedder, texts: Sequence[str], insert: Insert
) -> Mapping[str, Timing]:
    """Time the embedding of texts, and one durable insert of each, both alone."""
    vector = embedder.query(texts[0]).tobytes()
    return {
        "embedding alone": timing(partial(embedder.passages, [text]) for text in texts),
        "insert alone": timing(partial(insert, text, vector) for text in texts),
    }


@contextmanager
def open_insert(path: Path) -> Generator[Insert]:
    """Create a file with a table of texts and vectors, and yield a function that inserts."""
    with closing(driver().connect(str(path), isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE memory (id INTEGER PRIMARY KEY, text TEXT, vector BLOB)")
        yield lambda text, vector: connection.execute(
            "INSERT INTO memory (text, vector) VALUES (?, ?)", (text, vector)
        )


def embed_in_batches(embedder: Embedder, texts: Sequence[str]) -> None:
    """Embed texts in the batches of an import."""
    for start in range(0, len(texts), IMPORT_BATCH):
        embedder.passages(texts[start : start + IMPORT_BATCH])
