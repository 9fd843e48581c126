"""Upgrades, distributes and copies stores by URL, for `brain store`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from commonbrain.clock import SystemClock
from commonbrain.config import Settings
from commonbrain.model.errors import InvalidInputError
from commonbrain.runtime.models import make_embedder, open_with_model, with_thresholds
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.runtime.stores import engine_of, open_store, resolve_store
from commonbrain.setting_types import StoreLocation
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.storage.store import Store
from commonbrain_server.copying import StoreCopy, copy_rows, plan_copy
from commonbrain_server.postgres.opening import (
    ENGINE,
    DistributeResult,
    UpgradeResult,
    distribute_postgres,
    preview_distribution,
    upgrade_postgres,
)


def upgrade_store(store: str | Path | None = None, *, role: str | None = None) -> UpgradeResult:
    """Upgrade a Postgres store to the current schema, and grant a role access.

    Args:
        store: URL with the owner's role; as for `open` by default.
        role: Role that may open the store from now on.

    Raises:
        InvalidInputError: The store is a file, which is upgraded when opened.
        UnavailableError: The store cannot be reached, or its locks were held for too long;
            `store_in_use`: only its indexes are not finished; another program builds them, or held
            a lock for too long.
        StoreCorruptError: The database is not a store, or is newer; it is unchanged.

    """
    settings = load_settings()
    return open_with_model(
        settings,
        lambda chosen: upgrade_postgres(
            _url_of(resolve_store(store, settings)),
            space=make_embedder(chosen).space,
            clock=SystemClock(),
            lock_timeout_s=settings.lock_timeout_s,
            role=role,
        ),
    )


def preview_distribute(store: str | Path | None = None) -> DistributeResult:
    """Preview the distribution of a Postgres store; changes nothing.

    Raises:
        InvalidInputError: The store is a file, which cannot be distributed.
        UnavailableError: The store cannot be reached, or its schema is older.
        StoreCorruptError: The database is not a store, or is newer.

    """
    settings = load_settings()
    url = _url_of(resolve_store(store, settings))
    return preview_distribution(url, lock_timeout_s=settings.lock_timeout_s)


def distribute_store(store: str | Path | None = None) -> DistributeResult:
    """Distribute an idle Postgres store over the nodes of Citus, by tenant.

    Args:
        store: URL with the owner's role; as for `open` by default.

    Raises:
        InvalidInputError: The store is a file, which cannot be distributed.
        RejectedError: `citus_missing`: Citus is not installed; nothing changed.
        UnavailableError: The store cannot be reached, or its schema is older; repeat to continue.
        StoreCorruptError: The database is not a store, or is newer.

    """
    settings = load_settings()
    url = _url_of(resolve_store(store, settings))
    return distribute_postgres(url, lock_timeout_s=settings.lock_timeout_s)


def _url_of(at: StoreLocation) -> str:
    """Return the URL of a store in Postgres; refuse files, and URLs that another engine opens."""
    if not isinstance(at, Path):
        if engine_of(at) is not ENGINE:
            raise InvalidInputError(
                "The engine of this store neither upgrades nor distributes it.",
                hint="Give a URL that begins with postgresql://.",
            )
        return at.get_secret_value()
    raise InvalidInputError(
        "A store in a file is upgraded when it is opened, and stays on one machine.",
        hint="For a store on a server give its URL with --store or COMMONBRAIN_STORE.",
    )


def preview_copy(source: str | Path, destination: str | Path) -> StoreCopy:
    """Preview a copy: count the rows to copy; changes nothing.

    Raises:
        InvalidInputError: The source does not exist, or is the destination.
        RejectedError: `copy_other_data`: the destination holds data that the source does not.
        UnavailableError: One of the two cannot be opened.
        StoreCorruptError: One of the two is damaged, foreign, newer, or of another embedding space.

    """
    with ExitStack() as opened:
        source_store, destination_store = _open_both(opened, (source, destination), makes=False)
        plan = plan_copy(source_store, destination_store)
    return replace(plan, destination=plan.destination or str(destination))


def copy_store(
    source: str | Path, destination: str | Path, *, on_progress: Progress = ignore_progress
) -> StoreCopy:
    """Copy all tenants of a store into a new one, of either engine, and verify the copy.

    Args:
        source: File or URL; only read.
        destination: A file, created if missing, or the URL of an upgraded database.
        on_progress: Called with the progress, 0..1.

    Raises:
        InvalidInputError: The source does not exist, or is the destination.
        RejectedError: `copy_other_data`: the destination holds data that the source does not.
        UnavailableError: One of the two cannot be opened; complete pages stay, repeat to continue.
        StoreCorruptError: One of the two is damaged, foreign, newer, or of another embedding space;
            `copy_unfit`: the destination cannot hold a row; `copy_differs`: verification failed.

    """
    with ExitStack() as opened:
        source_store, destination_store = _open_both(opened, (source, destination), makes=True)
        assert destination_store is not None  # noqa: S101 it was made
        return copy_rows(source_store, destination_store, on_progress=on_progress)


def _open_both(
    opened: ExitStack, locations: tuple[str | Path, str | Path], *, makes: bool
) -> tuple[Store, Store | None]:
    """Open two stores, the second only if it exists or may be created."""
    settings = load_settings()
    clock = SystemClock()
    locations_resolved = [resolve_store(one, settings) for one in locations]
    files = [
        one.expanduser().resolve() if isinstance(one, Path) else None for one in locations_resolved
    ]
    if files[0] is not None and not files[0].is_file():
        raise InvalidInputError(
            f"There is no store at {files[0]}.", hint="Give the file to copy as the first argument."
        )
    if locations_resolved[0] == locations_resolved[1] or (
        files[0] is not None and files[0] == files[1]
    ):
        raise InvalidInputError(
            "Both are the same store.", hint="Name another one to copy it into."
        )
    is_there = files[1] is None or files[1].exists()

    def open_in(chosen: Settings) -> list[Store]:
        space = with_thresholds(make_embedder(chosen).space, settings)
        stores: list[Store] = []
        for one in locations_resolved if makes or is_there else locations_resolved[:1]:
            stores.append(open_store(one, settings, space=space, clock=clock))
            opened.callback(stores[-1].close)
        return stores

    source, *target = open_with_model(settings, open_in)
    return source, target[0] if target else None
