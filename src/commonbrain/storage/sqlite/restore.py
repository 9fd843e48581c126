"""Putting a backup in the place of a store: nothing is lost, and never are two files mixed.

SQLite applies what lies in `brain.db-wal` to whatever lies in `brain.db`. So the old store is
brought to rest in its one file, under a lock that keeps others out, before the new one replaces it.
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
"""How long whoever just uses the store for one command is waited for."""


def plan_restore(file: Path, store: Path) -> Replacement:
    """Look at both files and change neither.

    Raises:
        InvalidInputError: the file is not there, or is the store itself.
        StoreCorruptError: the file is damaged, no store, or newer; or another program's database
            lies where the store should.
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
    """Put a verified copy of a backup where a store is; keep what was there under another name.

    Raises:
        InvalidInputError: the file has another digest, is not there, or is the store itself.
        StoreCorruptError: the file is damaged, no store, or newer; the store is as it was.
        UnavailableError: the store is open in another process, or the folder cannot be written; the
            store is as it was.

    """
    plan = plan_restore(file, store)
    _check_digest(file, digest)
    store = store.absolute()
    moment = clock.now().strftime("%Y%m%dT%H%M%S.%f")[:-3]
    kept = store.with_name(f"{store.name}.before-restore-{moment}Z")
    try:
        store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with partial_path(store) as partial:
            with connected(found_file(file), wait_s=_WAIT_S) as source:
                held = copy_store(source, partial, origin=file, on_progress=on_progress)
            with _nobody_else(store):
                _set_aside(store, kept)
                partial.replace(store)
                sync_folder(store.parent)
    except OSError as error:
        raise UnavailableError(
            f"{error.filename or store}: {error.strerror}.",
            hint="The store is as it was. Mend that and try again.",
        ) from error
    return RestoreResult(
        store=str(store),
        memories=held.memories,
        newest_at=held.newest_at,
        kept=str(kept) if plan.goes or plan.trouble else None,
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
    found = digest_of(file)
    if found != digest.lower():
        raise InvalidInputError(
            f"{file} has the digest {found}, not {digest[:64]}.",
            hint="It was changed, or is another backup.",
        )


@contextmanager
def _nobody_else(store: Path) -> Generator[None]:
    """Bring a store to rest in one file and keep others out, as far as it can be read at all.

    Raises:
        UnavailableError: `store_in_use`, another process has it open.

    """
    if not store.exists() or not store.stat().st_size:
        yield
        return
    sqlite = driver()
    with connected(found_file(store), wait_s=_WAIT_S) as connection:
        try:
            # Refused while anybody else has the file open, even one who does nothing with it.
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
            # What is damaged cannot be locked; it is set aside with all that lies beside it.
            connection.close()
        yield


def _set_aside(store: Path, kept: Path) -> None:
    """Give what is there another name, and take away from beside it what would be mixed in."""
    if store.exists():
        _name_too(store, kept)
    for side in SIDES:
        left = sibling_path(store, side)
        if left.exists():
            left.replace(sibling_path(kept, side))


def _name_too(store: Path, kept: Path) -> None:
    try:
        # With both names there is no moment without a store, should we die between the two steps.
        kept.hardlink_to(store)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems know no second names.
        store.rename(kept)
