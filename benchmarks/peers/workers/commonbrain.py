"""Commonbrain by its defaults, through the library."""

from __future__ import annotations

from pathlib import Path

import commonbrain
from benchmarks.peers.workers.protocol import serve


class Library:
    """A store in a file of its own."""

    def __init__(self, folder: Path) -> None:
        self._brain = commonbrain.open(folder / "brain.db")
        self._brain.services.embedder.query("ready")

    def write(self, reference: str, text: str) -> bool:
        """Remember a text."""
        items = self._brain.remember(text, source_ref=reference).items
        return any(item.status.is_new for item in items)

    def import_(self, source: Path) -> int:
        """Import a file of conversations, which says who spoke, when and in which session."""
        return self._brain.import_("conversations", source).stored

    def search(self, question: str, limit: int) -> list[str]:
        """Recall within the default size of an answer."""
        return [
            str(item.source_ref) for item in self._brain.recall(question, max_items=limit).items
        ]


if __name__ == "__main__":
    serve(Library)
