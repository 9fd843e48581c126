"""The migrations of a later version, made up: what an upgrade does with a store of this version.

Run as a program, `python -m tests.later_migrations STORE` opens a store with them.
"""

import sys
from pathlib import Path
from typing import Final

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.storage.sql.migrations import STEPS
from commonbrain.storage.sql.schema_version import SCHEMA_VERSION, Migrations
from commonbrain.storage.sqlite.engine import Sqlite, settle
from commonbrain.storage.store import Store
from commonbrain.testing.builders import a_brain, use_store_opener

LATER: Final = f"{int(SCHEMA_VERSION) + 1:04}"
LATER_MIGRATIONS: Final = Migrations(
    steps={
        **STEPS,
        LATER: (
            "ALTER TABLE memories ADD COLUMN mood TEXT DEFAULT 'calm'",
            "CREATE TABLE moods (name TEXT PRIMARY KEY)",
            "CREATE INDEX ix_moods ON moods (name)",
        ),
    }
)


def open_later(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:
    """Open a file as a program of the later version does."""
    dialect = Sqlite(path=path, space=space, is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S)
    return settle(dialect, clock=clock, migrations=LATER_MIGRATIONS)


if __name__ == "__main__":
    with use_store_opener(open_later):
        a_brain(Path(sys.argv[1])).close()
