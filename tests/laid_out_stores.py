"""New stores for tests at low cost: copies of an empty one, and statements compiled once a process.

The migrations of a new store take 15 times as long as a copy, and each store would compile the
statements of a remember and a recall anew, which takes a quarter of the time of a small test.
"""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from sqlalchemy import Connection, Engine, event

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.sql.schema_version import MIGRATIONS
from commonbrain.storage.sqlite.engine import SQLITE, Sqlite, open_sqlite
from commonbrain.storage.store import Store
from commonbrain.testing.builders import WordHashEmbedder


class CompiledStatements(dict[tuple[object, ...], object]):
    """A cache of compiled statements for all engines of stores in files, which are set up alike.

    SQLAlchemy's keys begin with the dialect of one engine.
    """

    def get(self, key: tuple[object, ...], default: object = None) -> object:
        """Return the statement compiled for any of the engines."""
        return super().get((type(key[0]), *key[1:]), default)

    def __setitem__(self, key: tuple[object, ...], compiled: object) -> None:
        """Keep a statement for all of the engines."""
        super().__setitem__((type(key[0]), *key[1:]), compiled)


COMPILED = CompiledStatements()


@event.listens_for(Engine, "engine_connect")
def share_compiled_statements(connection: Connection) -> None:
    """Let the stores in files of this process share what is compiled."""
    # Only engines of stores hide what is being stored.
    if connection.dialect.name == "sqlite" and connection.engine.hide_parameters:
        connection.execution_options(compiled_cache=COMPILED)


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
            MIGRATIONS.upgrade(connection, SQLITE, version=None)
        dialect.engine.dispose()
        return path.read_bytes()
