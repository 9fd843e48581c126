"""mcp-memory-service's SQLite storage, as its tools store_memory and retrieve_memory call it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.workers.protocol import make_sqlite_loadable, serve

make_sqlite_loadable()

import numpy as np  # noqa: E402 after sqlite3 is replaced
from mcp_memory_service.models.memory import Memory  # noqa: E402 it imports sqlite3
from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage  # noqa: E402 the same
from mcp_memory_service.utils.hashing import generate_content_hash  # noqa: E402 the same

from benchmarks.peers.workers.embedding import DIMENSIONS, vectors  # noqa: E402 the same


class _Encoder:
    def encode(self, texts: Sequence[str], **_options: object) -> np.ndarray:
        """Embed texts."""
        return np.array(vectors(texts), np.float32)


class _Storage(SqliteVecMemoryStorage):
    async def _initialize_embedding_model(self) -> None:
        """Take the common embedder instead of a download."""
        self.embedding_model = _Encoder()
        self.embedding_dimension = DIMENSIONS


class Service:
    """A storage, and the event loop that it runs on."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._storage = _Storage(str(folder / "memory.db"))
        self._loop.run_until_complete(self._storage.initialize())

    def write(self, reference: str, text: str) -> bool:
        """Store a text with its reference as a tag; it refuses what resembles recent ones."""
        hashed = generate_content_hash(text)
        memory = Memory(content=text, content_hash=hashed, tags=[reference])
        stored, _reason = self._loop.run_until_complete(self._storage.store(memory))
        return stored

    def search(self, question: str, limit: int) -> list[str]:
        """Search by meaning, the tool's default mode."""
        results = self._loop.run_until_complete(self._storage.retrieve(question, n_results=limit))
        return [result.memory.tags[0] for result in results]


if __name__ == "__main__":
    serve(Service)
