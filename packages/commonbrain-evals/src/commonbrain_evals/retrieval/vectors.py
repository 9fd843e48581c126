"""The vectors of data sets' texts, kept on this machine: a text is embedded once for all runs.

Embedding takes most of the time of filling a store with documents. Of texts, only digests are kept.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np
from platformdirs import user_cache_path

from commonbrain.embeddings.interface import Embedder, EmbeddingSpace, Matrix

_WAIT_S: Final = 30.0
"""For another run that writes to the same file."""
_TABLE: Final = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, rows BLOB) WITHOUT ROWID"


def default_folder() -> Path:
    """Say where vectors are kept; the folder can be deleted at any time."""
    return user_cache_path("commonbrain", appauthor=False) / "evaluations"


@dataclass(frozen=True, slots=True)
class CachedEmbedder:
    """Embeds each passage once; queries are embedded whenever they are asked, for their time."""

    embedder: Embedder
    folder: Path = field(default_factory=default_folder)
    _lock: Lock = field(default_factory=Lock)

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the embedder."""
        return self.embedder.space

    def query(self, text: str) -> Matrix:
        """Embed a query."""
        return self.embedder.query(text)

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        """Give the windows of each text, `(windows, dimensions)`, embedding those not kept yet."""
        keys = [blake2b(text.encode(), digest_size=16).digest() for text in texts]
        with self._lock, closing(self._open()) as connection:
            known = dict(self._read(connection, set(keys)))
            new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
            made = dict(zip(new, self.embedder.passages(list(new.values())), strict=True))
            with connection:
                rows = ((key, matrix.tobytes()) for key, matrix in made.items())
                connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
        known |= made
        return [known[key] for key in keys]

    def _open(self) -> sqlite3.Connection:
        self.folder.mkdir(parents=True, exist_ok=True)
        # Vectors of another model, version or quantization are in another file.
        name = blake2b(self.space.name.encode(), digest_size=8).hexdigest()
        connection = sqlite3.connect(self.folder / f"vectors-{name}.db", timeout=_WAIT_S)
        connection.execute(_TABLE)
        return connection

    def _read(
        self, connection: sqlite3.Connection, keys: set[bytes]
    ) -> Iterator[tuple[bytes, Matrix]]:
        for key in keys:
            for (rows,) in connection.execute("SELECT rows FROM vectors WHERE key = ?", (key,)):
                matrix = np.frombuffer(rows, dtype=np.float32)
                yield key, matrix.reshape(-1, self.space.dimensions)
