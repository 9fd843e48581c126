"""New stores for tests as copies of an empty one: the migrations take 15 times as long."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.sql.schema_version import upgrade
from commonbrain.storage.sqlite.engine import Sqlite, open_sqlite
from commonbrain.storage.store import Store
from commonbrain.testing.builders import WordHashEmbedder


def open_laid_out(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:
    """Open a file as a store; a new one is laid out first."""
    lay_out_store(path)
    return open_sqlite(
        path, space=space, clock=clock, is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S
    )


def lay_out_store(path: Path) -> None:
    """Put a file with today's schema and no row where nothing is, so that opening need not migrate.

    Opening it registers tenant and space as in any new file: no two stores share an audit key.
    """
    log = path.with_name(f"{path.name}-wal")
    if path.exists() or log.exists() or not path.parent.is_dir():
        return
    partial = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        # Where there is no space or no right to write, opening says so, as it does to users.
        with suppress(OSError):
            partial.touch(0o600)
            partial.write_bytes(_empty_store())
            # Whole at once, and never over what another thread or process has made meanwhile.
            os.link(partial, path)
    finally:
        with suppress(OSError):
            partial.unlink()


@cache
def _empty_store() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        space = WordHashEmbedder().space
        dialect = Sqlite(path=path, space=space, is_durable=False, lock_timeout_s=LOCK_TIMEOUT_S)
        dialect.prepare()
        with dialect.writer(LOCAL_TENANT) as connection, connection.begin():
            upgrade(connection)
        dialect.engine.dispose()
        return path.read_bytes()
