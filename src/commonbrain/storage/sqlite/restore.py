"""Replace a store by a backup, losing nothing and never mixing two files.

SQLite applies the contents of `brain.db-wal` to whatever file is `brain.db`. So the old store is
checkpointed into its one file, under a lock that excludes others, before the new one replaces it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from commonbrain.clock import Clock
from commonbrain.model.errors import InvalidInputError, StoreCorruptError, UnavailableError
from commonbrain.storage.maintenance import Holdings, Progress, Replacement, RestoreResult
from commonbrain.storage.sql.schema_version import check_upgradable
from commonbrain.storage.sqlite.backup import (
    SIDES,
    check_whole,
    connected,
    contents,
    copy_store,
    digest_of,
    partial_path,
    schema_of,
    sync_folder,
)
from commonbrain.storage.sqlite.file import driver, found_file, sibling_path

_WAIT_S: Final = 2.0
"""Seconds to wait for processes that use the store for one command."""


def plan_restore(file: Path, store: Path) -> Replacement:
    """Check both files without changing them.

    Raises:
        InvalidInputError: the file does not exist, or is the store itself.
        StoreCorruptError: the file is damaged, not a store, or newer; or the store's path has
            another program's database.
        UnavailableError: one of them cannot be read.

    """
    if not file.is_file():
        raise InvalidInputError(f"There is no file {file}.", hint="Name a backup.")
    if store.exists() and file.samefile(store):
        raise InvalidInputError(f"{file} is the store itself.", hint="Name a backup of it.")
    comes = _holdings(file)
    goes, trouble = None, None
    if store.exists() and store.stat().st_size:
        try:
            goes = _holdings(store)
        except StoreCorruptError as error:
            if error.code == "store_foreign":
                raise
            trouble = error.message
    return Replacement(file=str(file), store=str(store), comes=comes, goes=goes, trouble=trouble)


def put_in_place(
    file: Path, store: Path, *, digest: str | None, clock: Clock, on_progress: Progress
) -> RestoreResult:
    """Replace a store by a verified copy of a backup; keep the old file under another name.

    Raises:
        InvalidInputError: the file has another digest, does not exist, or is the store itself.
        StoreCorruptError: the file is damaged, not a store, or newer; the store is unchanged.
        UnavailableError: another process has the store open, or the folder cannot be written; the
            store is unchanged.

    """
    plan = plan_restore(file, store)
    _check_digest(file, digest)
    store = store.absolute()
    timestamp = clock.now().strftime("%Y%m%dT%H%M%S.%f")[:-3]
    old_file = store.with_name(f"{store.name}.before-restore-{timestamp}Z")
    try:
        store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with partial_path(store) as partial:
            with connected(found_file(file), wait_s=_WAIT_S) as source:
                held = copy_store(source, partial, origin=file, on_progress=on_progress)
            with _exclusive(store):
                _rename_old(store, old_file)
                partial.replace(store)
                sync_folder(store.parent)
    except OSError as error:
        raise UnavailableError(
            f"{error.filename or store}: {error.strerror}.",
            hint="The store is unchanged. Fix that and try again.",
        ) from error
    return RestoreResult(
        store=str(store),
        memories=held.memories,
        newest_at=held.newest_at,
        kept=str(old_file) if plan.goes or plan.trouble else None,
    )


def _holdings(path: Path) -> Holdings:
    with connected(found_file(path), wait_s=_WAIT_S) as connection:
        version = schema_of(connection)
        if version is None:
            raise StoreCorruptError(
                f"{path} is not a store of Commonbrain.",
                code="store_foreign",
                hint="Name a file that `brain backup` wrote.",
            )
        check_upgradable(version, str(path))
        check_whole(connection, path)
        return contents(connection).holdings


def _check_digest(file: Path, digest: str | None) -> None:
    if digest is None:
        return
    actual = digest_of(file)
    if actual != digest.lower():
        raise InvalidInputError(
            f"{file} has the digest {actual}, not {digest[:64]}.",
            hint="It was changed, or is another backup.",
        )


@contextmanager
def _exclusive(store: Path) -> Generator[None]:
    """Checkpoint a store into one file and exclude others, as far as it can be read.

    Raises:
        UnavailableError: `store_in_use`, another process has it open.

    """
    if not store.exists() or not store.stat().st_size:
        yield
        return
    sqlite = driver()
    with connected(found_file(store), wait_s=_WAIT_S) as connection:
        try:
            # Fails while any other process has the file open.
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite.OperationalError as error:
            if "locked" not in str(error):
                raise
            raise UnavailableError(
                f"The store {store} is open in another process.",
                code="store_in_use",
                hint="Nothing was changed. Close the agents and servers that use it, then try "
                "again.",
            ) from error
        except sqlite.DatabaseError:
            # A damaged file cannot be locked; it is moved with all files next to it.
            connection.close()
        yield


def _rename_old(store: Path, old_file: Path) -> None:
    """Rename the old file, and remove files next to it that would be mixed in."""
    if store.exists():
        _name_too(store, old_file)
    for side in SIDES:
        left = sibling_path(store, side)
        if left.exists():
            left.replace(sibling_path(old_file, side))


def _name_too(store: Path, old_file: Path) -> None:
    try:
        # With both names the path always has a store, even after a crash between the two steps.
        old_file.hardlink_to(store)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no hard links.
        store.rename(old_file)
