"""Chroma's persistent client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chromadb
from chromadb.config import Settings

from benchmarks.peers.workers.embedding import vectors
from benchmarks.peers.workers.protocol import serve


class _Embedding(chromadb.EmbeddingFunction[chromadb.Documents]):
    def __init__(self) -> None:
        """Configure nothing."""

    def __call__(self, input: chromadb.Documents) -> Any:  # noqa: A002, ANN401 Chroma's name and type
        return vectors(input)

    @staticmethod
    def name() -> str:
        """Return the name that the collection is stored with."""
        return "minilm"


class Collection:
    """One collection."""

    def __init__(self, folder: Path) -> None:
        settings = Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str(folder / "chroma"), settings=settings)
        embedding: Any = _Embedding()
        self._collection = client.create_collection("memories", embedding_function=embedding)

    def write(self, reference: str, text: str) -> bool:
        """Add a text as a document."""
        self._collection.add(ids=[reference], documents=[text])
        return True

    def search(self, question: str, limit: int) -> list[str]:
        """Query by text."""
        results = self._collection.query(query_texts=[question], n_results=limit)
        return results["ids"][0]


if __name__ == "__main__":
    serve(Collection)
