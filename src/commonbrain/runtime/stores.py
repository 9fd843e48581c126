"""Opens and restores stores by file or URL."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from pydantic import SecretStr

from commonbrain.clock import Clock, SystemClock
from commonbrain.config import Settings
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.extras import load_row
from commonbrain.hosts import is_url
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.jobs import Queue, QueueMessage
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.setting_types import StoreLocation
from commonbrain.storage.engines import StoreEngine
from commonbrain.storage.interface import (
    Progress,
    Replacement,
    RestoreResult,
    ignore_progress,
)
from commonbrain.storage.sqlite.engine import open_sqlite
from commonbrain.storage.sqlite.file import found_file
from commonbrain.storage.store import Store

if TYPE_CHECKING:
    from commonbrain.storage.sqlite.resealing import Sealing, SealPlan


class SqliteFiles:
    """Stores in files, which are upgraded when they are opened."""

    def open(
        self, at: StoreLocation, settings: Settings, *, space: EmbeddingSpace, clock: Clock
    ) -> Store:
        """Open a file, making or upgrading it if need be."""
        assert isinstance(at, Path)  # noqa: S101 URLs have other engines
        return open_sqlite(
            at.expanduser(),
            space=space,
            clock=clock,
            is_durable=settings.durability == "full",
            lock_timeout_s=settings.lock_timeout_s,
            key_file=settings.key_file,
        )


_POSTGRES: Final = frozenset({"postgres", "postgresql"})
"""Schemes that the extra `server` opens."""


def engine_of(at: StoreLocation) -> StoreEngine:
    """Return the engine of a store: SQLite for a file, else the one of the URL's scheme.

    Raises:
        InvalidInputError: No installed package has such an engine; the message names the extra.

    """
    if isinstance(at, Path):
        return SqliteFiles()
    scheme = at.get_secret_value().partition("://")[0]
    try:
        return cast("StoreEngine", load_row("engines", scheme, extra="server"))
    except InvalidInputError:
        if scheme in _POSTGRES:
            raise
        raise InvalidInputError(
            f"No installed package opens a store at {scheme}://.",
            hint="A store is a file, or a database at postgresql://ROLE:PASSWORD@HOST/DATABASE.",
        ) from None


def open_store(
    at: StoreLocation, settings: Settings, *, space: EmbeddingSpace, clock: Clock
) -> Store:
    """Open a file, or a store on a server by its URL."""
    return engine_of(at).open(at, settings, space=space, clock=clock)


def resolve_store(store: str | Path | None, settings: Settings) -> StoreLocation:
    """Return the location of an argument, or of the settings.

    Raises:
        InvalidInputError: It is a folder, or a new file with a variable in its path that was not
            replaced by its value.

    """
    if not store:
        location = settings.store
    else:
        location = SecretStr(str(store)) if is_url(store) else Path(store)
    if not isinstance(location, Path):
        return location
    # Those of paths raise what the functions of `os` take for "no", such as a lack of permission.
    file = location.expanduser()
    # A client that replaces no variables may have made one before.
    if "${" in str(location) and not os.path.exists(file):  # noqa: PTH110 see above
        raise InvalidInputError(
            f"{location} names a variable that was not replaced by its value.",
            hint="Write the path itself, or leave --store and COMMONBRAIN_STORE out.",
        )
    if os.path.isdir(file):  # noqa: PTH112 see above
        raise InvalidInputError(
            f"{location} is a folder, and a store is a file.", hint=f"Try {location / 'brain.db'}."
        )
    return location


def preview_restore(file: str | Path, store: str | Path | None = None) -> Replacement:
    """Preview a restore: which backup replaces which store; changes nothing.

    Raises:
        InvalidInputError: The backup does not exist, or is the store itself.
        UnavailableError: One of the two cannot be read.
        StoreCorruptError: The backup is damaged, not a store, or newer.

    """
    from commonbrain.storage.sqlite.backup import plan_restore  # noqa: PLC0415

    key_file = load_settings().key_file
    return plan_restore(Path(file).expanduser(), _store_path(store), key_file=key_file)


def restore(
    file: str | Path,
    store: str | Path | None = None,
    *,
    digest: str | None = None,
    on_progress: Progress = ignore_progress,
) -> RestoreResult:
    """Replace a closed store with a backup; the old file is kept next to it.

    Args:
        file: The backup.
        store: The store to replace; as for `open` by default.
        digest: Expected SHA-256 of the backup.
        on_progress: Called with the progress, 0..1.

    Raises:
        InvalidInputError: The backup does not exist, is the store itself, or has another digest.
        UnavailableError: `store_in_use`, or the folder is not writable; the store is unchanged.
        StoreCorruptError: The backup is damaged, not a store, or newer; the store is unchanged.

    """
    from commonbrain.storage.sqlite.backup import put_in_place  # noqa: PLC0415

    return put_in_place(
        Path(file).expanduser(),
        _store_path(store),
        digest=digest,
        clock=SystemClock(),
        on_progress=on_progress,
        key_file=load_settings().key_file,
    )


def preview_sealing(store: str | Path | None, sealing: Sealing | None) -> SealPlan:
    """Preview how a store is sealed, or unsealed if that is None; changes nothing.

    Raises:
        InvalidInputError: There is no store, it is sealed already or not at all, the settings name
            another key, or the passphrase is too short; `extra_missing`.
        UnavailableError: The store cannot be read, or its key is missing.
        StoreCorruptError: The store is damaged, not a store, or newer.

    """
    from commonbrain.storage.sqlite.resealing import plan_sealing  # noqa: PLC0415

    return plan_sealing(_file_to_seal(store), sealing, key_file=load_settings().key_file)


def reseal(
    store: str | Path | None, sealing: Sealing | None, *, on_progress: Progress = ignore_progress
) -> SealPlan:
    """Seal a closed store, change its key, or unseal it if that is None.

    Raises:
        InvalidInputError: As for `preview_sealing`; the store is unchanged.
        UnavailableError: `store_in_use`, or the folder is not writable; the store is unchanged.
        StoreCorruptError: The store is damaged, not a store, or newer; it is unchanged.

    """
    from commonbrain.storage.sqlite import resealing  # noqa: PLC0415

    return resealing.reseal(
        _file_to_seal(store), sealing, key_file=load_settings().key_file, on_progress=on_progress
    )


def is_sealed(store: str | Path | None) -> bool:
    """Return whether a store is a sealed file.

    Raises:
        UnavailableError: It is, and its key is missing.

    """
    settings = load_settings()
    resolved = resolve_store(store, settings)
    if not isinstance(resolved, Path) or not resolved.expanduser().exists():
        return False
    return found_file(resolved.expanduser(), key_file=settings.key_file).key is not None


def sealing_with(
    store: str | Path | None,
    *,
    key_file: Path | None,
    uses_keyring: bool,
    is_rotation: bool,
    ask: Callable[[], str],
) -> Sealing:
    """Return how to seal a store: as given, else where its keys are, else with a passphrase."""
    from commonbrain.storage.sqlite.resealing import Sealing  # noqa: PLC0415
    from commonbrain.storage.sqlite.sealing import KeySource, source_of  # noqa: PLC0415

    path = _file_to_seal(store)
    if uses_keyring:
        source = KeySource("keyring", str(path.absolute()))
    elif is_rotation and key_file is None:
        source = source_of(path, load_settings().key_file)
    else:
        given = key_file or load_settings().key_file
        source = None if given is None else source_of(path, given)
    passphrase = ask() if source is None else None
    return Sealing(source=source, passphrase=passphrase, is_rotation=is_rotation)


def _file_to_seal(store: str | Path | None) -> Path:
    resolved = resolve_store(store, load_settings())
    if isinstance(resolved, Path):
        return resolved.expanduser()
    raise InvalidInputError(
        "A store in Postgres is not sealed by Commonbrain.",
        code="seal_unsupported",
        hint="Encrypt the disk of its server; see the page on Postgres.",
    )


def _store_path(store: str | Path | None) -> Path:
    resolved = resolve_store(store, load_settings())
    if isinstance(resolved, Path):
        return resolved.expanduser()
    raise InvalidInputError(
        "A store in Postgres is not restored from a file of Commonbrain.",
        code="restore_unsupported",
        hint="Restore it with pg_restore, from what pg_dump or your server's own backups wrote.",
    )


_WAIT_S: Final = 1.0
_TICKETS_MAX: Final = 1000
"""Past it messages are dropped: workers poll the store anyway."""


class LocalQueue:
    """Messages in the memory of this process."""

    def __init__(self) -> None:
        self._tickets: queue.Queue[QueueMessage | None] = queue.Queue(_TICKETS_MAX)

    def put(self, ticket: QueueMessage) -> None:
        """Notify a worker of this process, if any."""
        with suppress(queue.Full):
            self._tickets.put_nowait(ticket)

    def take(self) -> QueueMessage | None:
        """Return a message, or None after a second."""
        with suppress(queue.Empty):
            return self._tickets.get(timeout=_WAIT_S)
        return None

    def close(self) -> None:
        """Wake waiting workers."""
        with suppress(queue.Full):
            self._tickets.put_nowait(None)


def make_queue(settings: Settings) -> Queue:
    """Create the configured job queue; connects on first use.

    Raises:
        InvalidInputError: The URL is invalid, or the package with such a queue is not installed.

    """
    if settings.redis_url is None:
        return LocalQueue()
    make = cast("Callable[[str], Queue]", load_row("queues", "redis", extra="server"))
    return make(settings.redis_url.get_secret_value())
