"""LangGraph's SqliteStore with its vector index."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.peers.workers.protocol import make_sqlite_loadable, serve

make_sqlite_loadable()

from langgraph.store.sqlite import SqliteStore  # noqa: E402 it imports sqlite3

from benchmarks.peers.workers.embedding import DIMENSIONS, vectors  # noqa: E402 the same

_NAMESPACE = ("memories",)


class Store:
    """One namespace of a store."""

    def __init__(self, folder: Path) -> None:
        index: Any = {"dims": DIMENSIONS, "embed": vectors, "fields": ["text"]}
        path = str(folder / "store.db")
        self._opened = ExitStack()
        self._store = self._opened.enter_context(SqliteStore.from_conn_string(path, index=index))
        self._store.setup()

    def write(self, reference: str, text: str) -> bool:
        """Put a text as one field of a value."""
        self._store.put(_NAMESPACE, reference, {"text": text})
        return True

    def search(self, question: str, limit: int) -> list[str]:
        """Search by the vector of the question."""
        return [item.key for item in self._store.search(_NAMESPACE, query=question, limit=limit)]


if __name__ == "__main__":
    serve(Store)
