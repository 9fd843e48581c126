"""Open a file as a store, creating or upgrading it if necessary."""

from contextlib import ExitStack
from pathlib import Path

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.errors import UnavailableError
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.sql.context import Dialect, known_space, map_driver_errors, register
from commonbrain.storage.sql.schema_version import (
    SCHEMA_VERSION,
    check_upgradable,
    upgrade,
    version_of,
)
from commonbrain.storage.sqlite.engine import Sqlite
from commonbrain.storage.store import Schema, Store


def open_sqlite(
    path: Path, *, space: EmbeddingSpace, clock: Clock, is_durable: bool, lock_timeout_s: float
) -> Store:
    """Open a file as a store, making or upgrading it in one transaction if need be.

    Raises:
        UnavailableError: it cannot be opened or stayed locked; it was left as found.
        StoreCorruptError: it is damaged, not a store (`store_foreign`), of a newer version
            (`store_newer`), or its vectors live in another space (`space_mismatch`); it was left as
            found.

    """
    try:
        dialect = Sqlite(
            path=path, space=space, is_durable=is_durable, lock_timeout_s=lock_timeout_s
        )
    except OSError as error:
        raise UnavailableError(
            f"The store {path} cannot be made: {error.strerror}.",
            hint="Choose another place with --store or COMMONBRAIN_STORE.",
        ) from error
    with ExitStack() as unless_opened, map_driver_errors(str(path)):
        unless_opened.callback(dialect.engine.dispose)
        dialect.space_id = _settle(dialect, space=space, clock=clock)
        unless_opened.pop_all()
    return Store(dialect, space, Schema(SCHEMA_VERSION))


def _settle(dialect: Dialect, *, space: EmbeddingSpace, clock: Clock) -> int:
    """Return the id of the embedding space; takes the write lock only to change it."""
    with dialect.engine.connect() as connection, connection.begin():
        version = version_of(connection, dialect.location)
        check_upgradable(version, dialect.location)
        is_prepared = version is not None and dialect.is_prepared(connection)
        if version == SCHEMA_VERSION and is_prepared:
            space_id = known_space(connection, space)
            if space_id is not None:
                return space_id
    if not is_prepared:
        dialect.prepare()
    with dialect.writer(LOCAL_TENANT) as connection, connection.begin():
        # Another process may have been faster; its rows are used.
        version = version_of(connection, dialect.location)
        check_upgradable(version, dialect.location)
        if version != SCHEMA_VERSION:
            upgrade(connection)
        return register(connection, LOCAL_TENANT, space=space, now=clock.now())
