"""Stores by file or URL: opened, upgraded, restored; and the queue beside them."""

from importlib.util import find_spec
from pathlib import Path

from pydantic import SecretStr

from commonbrain.adapters.queue.local import LocalQueue
from commonbrain.adapters.sql.opening import open_sqlite
from commonbrain.adapters.sql.sqlite_restore import plan_restore, put_in_place
from commonbrain.adapters.sql.store import SqlStore
from commonbrain.adapters.system import SystemClock
from commonbrain.domain.errors import Invalid
from commonbrain.domain.locations import is_url
from commonbrain.domain.space import Space
from commonbrain.ports.clock import Clock
from commonbrain.ports.keeping import Progress, Replacement, Restored, Upgraded, unwatched
from commonbrain.ports.queue import Queue
from commonbrain.settings import Settings, Store
from commonbrain.wiring.models import make_embedder
from commonbrain.wiring.reading import load_settings


def open_store(at: Store, settings: Settings, *, space: Space, clock: Clock) -> SqlStore:
    """Open a file, or a Postgres by its URL."""
    if isinstance(at, Path):
        return open_sqlite(
            at.expanduser(),
            space=space,
            clock=clock,
            is_durable=settings.durability == "full",
            lock_wait_s=settings.lock_wait_s,
        )
    _need_server()
    # The driver is a part of the extra, and what takes long to load.
    from commonbrain.adapters.sql.postgres_opening import open_postgres  # noqa: PLC0415

    return open_postgres(
        at.get_secret_value(), space=space, clock=clock, lock_wait_s=settings.lock_wait_s
    )


def store_named(store: str | Path | None, settings: Settings) -> Store:
    """Give what an argument names, or else the settings."""
    if not store:
        return settings.store
    return SecretStr(str(store)) if is_url(store) else Path(store)


def upgrade_store(store: str | Path | None = None, *, role: str | None = None) -> Upgraded:
    """Bring a store in Postgres to this version's schema, and let a role use it.

    Args:
        store: its URL as its owner; by default as for `open`.
        role: who may open it from now on.

    Raises:
        Invalid: the store is a file, which is upgraded when it is opened.
        Unavailable: it cannot be reached, or others held what is needed for too long.
        Corrupt: it is not a store, or of a newer version; it was left as found.

    """
    settings = load_settings()
    named = store_named(store, settings)
    if isinstance(named, Path):
        raise Invalid(
            "A store in a file is upgraded when it is opened.",
            hint="For a store in Postgres give its URL with --store or COMMONBRAIN_STORE.",
        )
    _need_server()
    from commonbrain.adapters.sql.postgres_opening import upgrade_postgres  # noqa: PLC0415

    return upgrade_postgres(
        named.get_secret_value(),
        space=make_embedder(settings).space,
        clock=SystemClock(),
        lock_wait_s=settings.lock_wait_s,
        role=role,
    )


def preview_restore(file: str | Path, store: str | Path | None = None) -> Replacement:
    """Say what a restore would put in the place of what, and change nothing.

    Raises:
        Invalid: the file is not there, or is the store itself.
        Unavailable: one of the two cannot be read.
        Corrupt: the file is damaged, not a store, or of a newer version.

    """
    return plan_restore(Path(file).expanduser(), _store_path(store))


def restore(
    file: str | Path,
    store: str | Path | None = None,
    *,
    digest: str | None = None,
    on_progress: Progress = unwatched,
) -> Restored:
    """Put a backup in the place of a store that nobody has open; the old one is kept beside it.

    Args:
        file: the backup.
        store: what to replace; by default as for `open`.
        digest: the SHA-256 that the backup must have.
        on_progress: told how far it has come, 0..1.

    Raises:
        Invalid: the file is not there, is the store itself, or has another digest.
        Unavailable: `store_in_use`, or the folder cannot be written; the store is as it was.
        Corrupt: the file is damaged, not a store, or of a newer version; the store is as it was.

    """
    return put_in_place(
        Path(file).expanduser(),
        _store_path(store),
        digest=digest,
        clock=SystemClock(),
        on_progress=on_progress,
    )


def _store_path(store: str | Path | None) -> Path:
    named = store_named(store, load_settings())
    if isinstance(named, Path):
        return named.expanduser()
    raise Invalid(
        "A store in Postgres is not restored from a file of Commonbrain.",
        code="restore_unsupported",
        hint="Restore it with pg_restore, from what pg_dump or your server's own backups wrote.",
    )


def _need_server() -> None:
    """Make sure that the extra is there, which a store in a file does without.

    Raises:
        Invalid: it is not installed.

    """
    if find_spec("psycopg") is None or find_spec("pgvector") is None:
        raise Invalid(
            "A store in Postgres needs psycopg and pgvector, which are not installed.",
            code="extra_missing",
            hint="Install them with: pip install 'commonbrain[server]'",
        )


def make_queue(settings: Settings) -> Queue:
    """Make the queue that settings name; nothing is connected to yet.

    Raises:
        Invalid: it is no URL of a Redis, or what speaks to one is not installed.

    """
    if settings.redis_url is None:
        return LocalQueue()
    try:
        # What speaks to a Redis comes with the extra, and only a shared server has one.
        from commonbrain.adapters.queue.shared import SharedQueue  # noqa: PLC0415
    except ImportError as error:
        raise Invalid(
            f"COMMONBRAIN_REDIS_URL needs {error.name}, which is not installed.",
            code="extra_missing",
            hint="Install it with: pip install 'commonbrain[server]'",
        ) from error
    return SharedQueue(settings.redis_url.get_secret_value())
