"""Stores by file or URL: opened, upgraded, restored; and the queue beside them."""

from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from pydantic import SecretStr

from commonbrain.clock import Clock, SystemClock
from commonbrain.config import Settings, StoreLocation
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.jobs.local_queue import LocalQueue
from commonbrain.model.errors import InvalidInputError
from commonbrain.runtime.models import apply_thresholds, make_embedder, redacted_settings
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.storage.copying import copy_rows, plan_copy
from commonbrain.storage.job_queue import Queue
from commonbrain.storage.maintenance import (
    DistributeResult,
    Progress,
    Replacement,
    RestoreResult,
    StoreCopy,
    UpgradeResult,
    ignore_progress,
)
from commonbrain.storage.sqlite.opening import open_sqlite
from commonbrain.storage.sqlite.restore import plan_restore, put_in_place
from commonbrain.storage.store import Store
from commonbrain.text.locations import is_url


def open_store(
    at: StoreLocation, settings: Settings, *, space: EmbeddingSpace, clock: Clock
) -> Store:
    """Open a file, or a Postgres by its URL."""
    if isinstance(at, Path):
        return open_sqlite(
            at.expanduser(),
            space=space,
            clock=clock,
            is_durable=settings.durability == "full",
            lock_timeout_s=settings.lock_timeout_s,
        )
    _require_server_extra()
    # The driver is a part of the extra, and what takes long to load.
    from commonbrain.storage.postgres.opening import open_postgres  # noqa: PLC0415

    # They are copies of the store that settings name, and of no other.
    of_this = settings.store_replicas if at == settings.store else ()
    return open_postgres(
        at.get_secret_value(),
        space=space,
        clock=clock,
        lock_timeout_s=settings.lock_timeout_s,
        replicas=[one.get_secret_value() for one in of_this],
    )


def resolve_store(store: str | Path | None, settings: Settings) -> StoreLocation:
    """Give what an argument names, or else the settings."""
    if not store:
        return settings.store
    return SecretStr(str(store)) if is_url(store) else Path(store)


def upgrade_store(store: str | Path | None = None, *, role: str | None = None) -> UpgradeResult:
    """Bring a store in Postgres to this version's schema, and let a role use it.

    Args:
        store: its URL as its owner; by default as for `open`.
        role: who may open it from now on.

    Raises:
        InvalidInputError: the store is a file, which is upgraded when it is opened.
        UnavailableError: it cannot be reached, or others held what is needed for too long.
        StoreCorruptError: it is not a store, or of a newer version; it was left as found.

    """
    url, settings = _owner_of(store)
    from commonbrain.storage.postgres.opening import upgrade_postgres  # noqa: PLC0415

    return upgrade_postgres(
        url,
        space=make_embedder(settings).space,
        clock=SystemClock(),
        lock_timeout_s=settings.lock_timeout_s,
        role=role,
    )


def preview_distribute(store: str | Path | None = None) -> DistributeResult:
    """Say what would distribute a store in Postgres by tenant, and change nothing.

    Raises:
        InvalidInputError: the store is a file, which stays on one machine.
        UnavailableError: it cannot be reached, or its schema is older.
        StoreCorruptError: it is not a store, or of a newer version.

    """
    url, settings = _owner_of(store)
    from commonbrain.storage.postgres.opening import preview_distribution  # noqa: PLC0415

    return preview_distribution(url, lock_timeout_s=settings.lock_timeout_s)


def distribute_store(store: str | Path | None = None) -> DistributeResult:
    """Distribute a store in Postgres by tenant over the machines of Citus, while nobody works.

    Args:
        store: its URL as its owner; by default as for `open`.

    Raises:
        InvalidInputError: the store is a file, which stays on one machine.
        RejectedError: `citus_missing`, nothing there could distribute it; nothing has changed.
        UnavailableError: it cannot be reached, or its schema is older; run it again to go on.
        StoreCorruptError: it is not a store, or of a newer version.

    """
    url, settings = _owner_of(store)
    from commonbrain.storage.postgres.opening import distribute_postgres  # noqa: PLC0415

    return distribute_postgres(url, lock_timeout_s=settings.lock_timeout_s)


def _owner_of(store: str | Path | None) -> tuple[str, Settings]:
    settings = load_settings()
    owner = resolve_store(store, settings)
    if isinstance(owner, Path):
        raise InvalidInputError(
            "A store in a file is upgraded when it is opened, and stays on one machine.",
            hint="For a store in Postgres give its URL with --store or COMMONBRAIN_STORE.",
        )
    _require_server_extra()
    return owner.get_secret_value(), settings


def preview_copy(source: str | Path, destination: str | Path) -> StoreCopy:
    """Count what a copy of a store would bring, and change nothing.

    Raises:
        InvalidInputError: there is no source, or it is the destination.
        RejectedError: `copy_other_data`, the destination holds what the source does not.
        UnavailableError: one of the two cannot be opened.
        StoreCorruptError: one of the two is damaged, foreign, newer, or of another space.

    """
    with ExitStack() as opened:
        source_store, destination_store = _open_both(opened, (source, destination), makes=False)
        plan = plan_copy(source_store, destination_store)
    return replace(plan, destination=plan.destination or str(destination))


def copy_store(
    source: str | Path, destination: str | Path, *, on_progress: Progress = ignore_progress
) -> StoreCopy:
    """Copy every tenant of a store into a new one, of either engine, and verify it.

    Args:
        source: what is copied, a file or a URL; only read.
        destination: a file, made where there is none, or a URL that was upgraded.
        on_progress: told how far it has come, 0..1.

    Raises:
        InvalidInputError: there is no source, or it is the destination.
        RejectedError: `copy_other_data`, the destination holds what the source does not.
        UnavailableError: one of the two cannot be opened; whole pages stay, run it again.
        StoreCorruptError: one of the two is damaged, foreign, newer, or of another space;
            `copy_unfit`, a row cannot be kept there; `copy_differs`, what was written is not what
            was read.

    """
    with ExitStack() as opened:
        source_store, destination_store = _open_both(opened, (source, destination), makes=True)
        assert destination_store is not None  # noqa: S101 it was made
        return copy_rows(source_store, destination_store, on_progress=on_progress)


def _open_both(
    opened: ExitStack, locations: tuple[str | Path, str | Path], *, makes: bool
) -> tuple[Store, Store | None]:
    """Open two stores, the second only where it is there or may be made."""
    settings = load_settings()
    clock = SystemClock()
    locations_resolved = [resolve_store(one, settings) for one in locations]
    files = [
        one.expanduser().resolve() if isinstance(one, Path) else None for one in locations_resolved
    ]
    if files[0] is not None and not files[0].is_file():
        raise InvalidInputError(
            f"There is no store at {files[0]}.", hint="Name the file that is to be copied first."
        )
    if locations_resolved[0] == locations_resolved[1] or (
        files[0] is not None and files[0] == files[1]
    ):
        raise InvalidInputError(
            "Both are the same store.", hint="Name another one to copy it into."
        )
    with redacted_settings():
        space = apply_thresholds(make_embedder(settings).space, settings)
        is_there = files[1] is None or files[1].exists()
        stores = [
            open_store(one, settings, space=space, clock=clock)
            for one in (locations_resolved if makes or is_there else locations_resolved[:1])
        ]
    for one in stores:
        opened.callback(one.close)
    return stores[0], stores[1] if len(stores) > 1 else None


def preview_restore(file: str | Path, store: str | Path | None = None) -> Replacement:
    """Say what a restore would put in the place of what, and change nothing.

    Raises:
        InvalidInputError: the file is not there, or is the store itself.
        UnavailableError: one of the two cannot be read.
        StoreCorruptError: the file is damaged, not a store, or of a newer version.

    """
    return plan_restore(Path(file).expanduser(), _store_path(store))


def restore(
    file: str | Path,
    store: str | Path | None = None,
    *,
    digest: str | None = None,
    on_progress: Progress = ignore_progress,
) -> RestoreResult:
    """Put a backup in the place of a store that nobody has open; the old one is kept beside it.

    Args:
        file: the backup.
        store: what to replace; by default as for `open`.
        digest: the SHA-256 that the backup must have.
        on_progress: told how far it has come, 0..1.

    Raises:
        InvalidInputError: the file is not there, is the store itself, or has another digest.
        UnavailableError: `store_in_use`, or the folder cannot be written; the store is as it was.
        StoreCorruptError: the file is damaged, not a store, or of a newer version; the store is as
            it was.

    """
    return put_in_place(
        Path(file).expanduser(),
        _store_path(store),
        digest=digest,
        clock=SystemClock(),
        on_progress=on_progress,
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


def _require_server_extra() -> None:
    """Make sure that the extra is there, which a store in a file does without.

    Raises:
        InvalidInputError: it is not installed.

    """
    if find_spec("psycopg") is None or find_spec("pgvector") is None:
        raise InvalidInputError(
            "A store in Postgres needs psycopg and pgvector, which are not installed.",
            code="extra_missing",
            hint="Install them with: pip install 'commonbrain[server]'",
        )


def make_queue(settings: Settings) -> Queue:
    """Make the queue that settings name; nothing is connected to yet.

    Raises:
        InvalidInputError: it is no URL of a Redis, or what speaks to one is not installed.

    """
    if settings.redis_url is None:
        return LocalQueue()
    try:
        # What speaks to a Redis comes with the extra, and only a shared server has one.
        from commonbrain.jobs.redis_queue import RedisQueue  # noqa: PLC0415
    except ImportError as error:
        raise InvalidInputError(
            f"COMMONBRAIN_REDIS_URL needs {error.name}, which is not installed.",
            code="extra_missing",
            hint="Install it with: pip install 'commonbrain[server]'",
        ) from error
    return RedisQueue(settings.redis_url.get_secret_value())
