"""SQLite's FTS5 alone, with nothing but the standard library."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from benchmarks.peers.workers.protocol import serve


class FullText:
    """A table of texts, ranked by BM25."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "memory.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(
            "CREATE VIRTUAL TABLE memory USING"
            " fts5(reference UNINDEXED, text, tokenize = 'porter unicode61')"
        )

    def write(self, reference: str, text: str) -> bool:
        """Insert a text in a transaction of its own."""
        self._connection.execute("INSERT INTO memory VALUES (?, ?)", (reference, text))
        return True

    def search(self, question: str, limit: int) -> list[str]:
        """Match any of the words; without OR, hardly any text has all words of a question."""
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        rows = self._connection.execute(
            "SELECT reference FROM memory WHERE memory MATCH ? ORDER BY rank LIMIT ?",
            (words, limit),
        )
        return [reference for (reference,) in rows]


if __name__ == "__main__":
    serve(FullText)
