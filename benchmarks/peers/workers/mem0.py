"""mem0 with its faiss store, and without a language model: texts are stored as given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mem0 import Memory

from benchmarks.peers.workers.embedding import DIMENSIONS, vector, vectors
from benchmarks.peers.workers.protocol import serve

_USER = "user"


class _Embedding:
    """Stands in for an embedder of mem0's, none of which runs without a hub or a network."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Embed one text for any action."""
        del memory_action
        return vector(text)

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        """Embed several."""
        del memory_action
        return vectors(texts)


class Mem0:
    """The memories of one user."""

    def __init__(self, folder: Path) -> None:
        faiss = {"path": str(folder / "faiss"), "embedding_model_dims": DIMENSIONS}
        # Both clients are built without a request, and neither is called.
        unused = {"provider": "openai", "config": {"api_key": "unused"}}
        self._memory: Any = Memory.from_config(
            {
                "vector_store": {"provider": "faiss", "config": faiss},
                "history_db_path": str(folder / "history.db"),
                "embedder": unused,
                "llm": unused,
            }
        )
        self._memory.embedding_model = _Embedding()

    def write(self, reference: str, text: str) -> bool:
        """Add a text as it is."""
        metadata = {"reference": reference}
        added = self._memory.add(text, user_id=_USER, metadata=metadata, infer=False)
        return bool(added["results"])

    def search(self, question: str, limit: int) -> list[str]:
        """Search among the user's memories."""
        results = self._memory.search(question, top_k=limit, filters={"user_id": _USER})
        return [item["metadata"]["reference"] for item in results["results"]]


if __name__ == "__main__":
    serve(Mem0)
