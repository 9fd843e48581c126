"""The migrations of a later version, made up: what an upgrade does with a store of this version.

Run as a program, `python -m tests.later_migrations STORE FOLDER` opens a store with them.
"""

import shutil
import sys
from pathlib import Path
from typing import Final

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.storage.sql.schema_version import MIGRATIONS, SCHEMA_VERSION, Migrations
from commonbrain.storage.sqlite.engine import Sqlite, settle
from commonbrain.storage.store import Store
from commonbrain.testing.builders import Opener, a_brain, use_store_opener

LATER: Final = f"{int(SCHEMA_VERSION) + 1:04}"
_MIGRATION: Final = f"""
import sqlalchemy as sa
from alembic import op

revision = "{LATER}"
down_revision = "{SCHEMA_VERSION}"


def upgrade() -> None:
    op.add_column("memories", sa.Column("mood", sa.Text(), server_default="calm"))
    op.create_table("moods", sa.Column("name", sa.Text(), primary_key=True))
    op.create_index("ix_moods", "moods", ["name"])
"""


def later_migrations(folder: Path) -> Migrations:
    """Write the migrations of this version and a later one into a folder, unless they are there."""
    if not folder.exists():
        shutil.copytree(MIGRATIONS.folder, folder)
        (folder / "versions" / f"v{LATER}_moods.py").write_text(_MIGRATION)
    return Migrations(folder=folder, newest=LATER)


def later_opener(folder: Path) -> Opener:
    """Give what opens files as a program of the later version does."""

    def open_later(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:
        dialect = Sqlite(path=path, space=space, is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S)
        return settle(dialect, clock=clock, migrations=later_migrations(folder))

    return open_later


if __name__ == "__main__":
    with use_store_opener(later_opener(Path(sys.argv[2]))):
        a_brain(Path(sys.argv[1])).close()
