"""Backups: complete copies of a store, made while others write and verified before they appear.

SQLite's backup API copies under one read transaction: a snapshot to compare the copy with, which no
writer disturbs. Without the transaction, every write of another process restarts the copy.
"""

import hashlib
import logging
import os
import secrets
import shutil
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from glob import escape
from itertools import chain, count
from pathlib import Path
from time import time
from types import ModuleType
from typing import Final

from sqlalchemy import exc

from commonbrain.clock import Clock
from commonbrain.folders import make_private_folder
from commonbrain.model.errors import (
    KEYLESS,
    CommonbrainError,
    InvalidInputError,
    StoreCorruptError,
    UnavailableError,
)
from commonbrain.model.memory import CURRENT_STATES
from commonbrain.model.timestamps import from_millis
from commonbrain.storage.interface import (
    Backup,
    Holdings,
    Progress,
    Replacement,
    RestoreResult,
    ignore_progress,
)
from commonbrain.storage.schema.memories import OURS
from commonbrain.storage.schema.types import UnreadableValueError, reading
from commonbrain.storage.sql.context import damage_in, map_driver_errors
from commonbrain.storage.sql.schema_version import MIGRATIONS, only_version
from commonbrain.storage.sqlite.acknowledged import LOST_SUFFIX, SUFFIX
from commonbrain.storage.sqlite.checks import REPAIR, is_derived
from commonbrain.storage.sqlite.driver import driver
from commonbrain.storage.sqlite.file import (
    StoreFile,
    found_file,
    is_sealed,
    key_of_copy,
    record_backup,
    restore_hint,
    sibling_path,
    upgrade_backups,
)
from commonbrain.storage.sqlite.sealing import (
    Key,
    note_source,
)

_PAGES: Final = 256
"""Pages copied at a time: a megabyte."""
_COPIED: Final = 0.2
"""Progress when the pages are copied; verification takes the longest."""
_CHECKED: Final = 0.6
"""Progress after the first verification."""
SIDES: Final = ("-wal", "-shm", "-journal", SUFFIX, LOST_SUFFIX)
"""Files next to a store that belong to what is in it, the first three of SQLite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of a store, for display and comparison."""

    holdings: Holdings
    digest: str
    """Digest of id, state and text of every memory."""


@contextmanager
def connected(
    file: StoreFile,
    *,
    wait_s: float,
    copy_of: StoreFile | None = None,
    sqlite: ModuleType | None = None,
) -> Generator[sqlite3.Connection]:
    """Connect to a file for one task, with translated errors; damage of a copy is its origin's.

    Args:
        file: the file.
        wait_s: seconds to wait for others.
        copy_of: the file that it is a copy of.
        sqlite: the module to use, if not the file's own.

    Raises:
        UnavailableError: it is locked, full, or the system denies access.
        StoreCorruptError: it is damaged, or not a database.

    """
    sqlite = sqlite or file.driver
    # Under an identity of its own: the store may have the file open as well.
    mark = replace(file)
    with map_driver_errors(str(file.path), (copy_of or file).report_damage):
        mark.use()
        try:
            name, given = str(file.path), file.url.query
            if given:
                options = "&".join(f"{key}={value}" for key, value in given.items() if key != "uri")
                name = f"{file.url.database}?{options}"
            connection: sqlite3.Connection = sqlite.connect(
                name, timeout=wait_s, isolation_level=None, uri=bool(given)
            )
            with closing(connection):
                file.unlock(connection)
                yield connection
        except sqlite.OperationalError as error:
            raise exc.OperationalError("", None, error) from error
        except sqlite.DatabaseError as error:
            raise exc.DatabaseError("", None, error) from error
        except OSError as error:
            raise UnavailableError(
                f"{error.filename or file.path}: {error.strerror}.",
                hint="Nothing was changed. Fix that and try again.",
            ) from error
        finally:
            mark.leave()


def schema_of(connection: sqlite3.Connection) -> str | None:
    """Return the schema version of a store; None if it is another program's or empty."""
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    if not {name for (name,) in rows}.issuperset(OURS):
        return None
    versions = connection.execute("SELECT version_num FROM alembic_version")
    return only_version([version for (version,) in versions])


def contents(connection: sqlite3.Connection) -> Contents:
    """Read the contents of a store, including every memory."""
    version = schema_of(connection)
    if version is None:
        raise UnreadableValueError("its tables are not those of a store")
    hashed, current, newest = hashlib.sha256(), 0, None
    rows = connection.execute(
        "SELECT tenant_id, id, state, semantic_hash, recorded_at FROM memories "
        "ORDER BY tenant_id, id"
    )
    for row in rows:
        hashed.update(repr(row).encode())
        current += row[2] in CURRENT_STATES
        with reading():
            newest = max(newest or row[4], row[4])
    with reading():
        newest_at = None if newest is None else from_millis(newest)
    held = Holdings(memories=current, newest_at=newest_at, schema_version=version)
    return Contents(holdings=held, digest=hashed.hexdigest())


def check_whole(connection: sqlite3.Connection, file: StoreFile) -> None:
    """Check every page, index and reference of a file, or of its copy.

    Raises:
        StoreCorruptError: one of them is damaged.

    """
    pages = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
    dangling = connection.execute("PRAGMA foreign_key_check").fetchone()
    if pages == ["ok"] and dangling is None:
        return
    if pages == ["ok"]:
        raise StoreCorruptError(
            f"{file.path} is damaged: a reference leads nowhere.",
            hint=f"Keep the file. {REPAIR} {restore_hint(file.path)}",
        )
    raise file.report_damage("; ".join(pages), is_derived=is_derived(pages))


def copy_store(
    source: sqlite3.Connection,
    target: Path,
    *,
    origin: StoreFile,
    key: Key | None,
    on_progress: Progress,
) -> Holdings:
    """Copy a consistent snapshot into an empty file, verify it, and make it durable.

    Deleted data in free pages is not copied. If only one of the two is sealed, the source must be
    open with the module for sealed stores, and no other process may write to it.

    Raises:
        StoreCorruptError: the store is damaged, or the copy differs.

    """
    source.execute("BEGIN")
    expected = contents(source)
    copied = replace(found_file(target), key=key)
    is_resealed = (key is None) is not (origin.key is None)
    if is_resealed:
        source.execute("ROLLBACK")
        _export(source, target, key=key)
    with connected(copied, wait_s=0, copy_of=origin) as copy:
        # The copy is discarded on failure, so it needs no journal.
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        if not is_resealed:
            source.backup(
                copy,
                pages=_PAGES,
                progress=lambda _, left, total: on_progress(_COPIED * (1 - left / max(total, 1))),
            )
            source.execute("ROLLBACK")
        # One file that can be moved: a copy in WAL mode would create others next to it.
        copy.execute("PRAGMA journal_mode = DELETE")
        # Before VACUUM, which may fail on damage or hide it.
        check_whole(copy, origin)
        on_progress(_CHECKED)
        copy.execute("VACUUM")
        check_whole(copy, origin)
        is_same = contents(copy) == expected
    if not is_same:
        raise StoreCorruptError(
            f"A copy of {origin.path} does not hold what the store holds.",
            hint=f"Nothing was written. Run `brain doctor`, and check the disk. "
            f"{restore_hint(origin.path)}",
        )
    _sync(target)
    on_progress(1.0)
    return expected.holdings


def _export(source: sqlite3.Connection, target: Path, *, key: Key | None) -> None:
    """Copy row by row: SQLite's backup copies pages, whose size differs if they are sealed."""
    digits = "" if key is None else f"x'{key.digits}'"
    source.execute("ATTACH ? AS resealed KEY ?", (str(target), digits))
    try:
        source.execute("SELECT sqlcipher_export('resealed')")
    finally:
        source.execute("DETACH resealed")


def write_backup(
    file: StoreFile, destination: Path, *, replace: bool, wait_s: float, on_progress: Progress
) -> Backup:
    """Write a verified copy under another name, and rename it as the last step.

    Raises:
        InvalidInputError: the destination exists and may not be replaced, or is the store itself.
        UnavailableError: the destination cannot be written, or the store cannot be read.
        StoreCorruptError: the store is damaged.

    """
    destination = destination.absolute()
    _check_free(destination, file.path, replace=replace)
    with connected(file, wait_s=wait_s) as source, partial_path(destination) as partial:
        held = copy_store(source, partial, origin=file, key=file.key, on_progress=on_progress)
        digest = digest_of(partial)
        size = partial.stat().st_size
        _check_free(destination, file.path, replace=replace)
        partial.replace(destination)
        sync_folder(destination.parent)
    if not file.damage:
        # A copy of damaged rows is not what a damaged store is to be replaced with.
        record_backup(file.path, destination)
    return Backup(
        path=str(destination),
        size_bytes=size,
        memories=held.memories,
        newest_at=held.newest_at,
        schema_version=held.schema_version,
        digest=digest,
    )


@contextmanager
def partial_path(path: Path) -> Generator[Path]:
    """Create an empty file next to a path, and remove what is left of it."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        yield partial
    finally:
        for left in (partial, *(sibling_path(partial, side) for side in SIDES)):
            left.unlink(missing_ok=True)


def drop_partials(path: Path, *, but: Path) -> None:
    """Remove what a killed process left next to a store that no other process has open."""
    for left in path.parent.glob(f".{escape(path.name)}.????????.partial*"):
        if not left.name.startswith(but.name):
            left.unlink(missing_ok=True)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Make a rename durable, where folders can be opened for that."""
    with suppress(PermissionError):
        _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_free(destination: Path, store: Path, *, replace: bool) -> None:
    if destination.name in {store.name, *(store.name + side for side in SIDES)} and (
        destination.parent.resolve() == store.parent.resolve()
    ):
        raise InvalidInputError(
            f"{destination} belongs to the store itself.", hint="Name another file."
        )
    if destination.is_dir():
        raise InvalidInputError(f"{destination} is a folder.", hint="Name a file in it.")
    if destination.exists() and destination.samefile(store):
        raise InvalidInputError(f"{destination} is the store itself.", hint="Name another file.")
    if destination.exists() and not replace:
        raise InvalidInputError(f"{destination} exists already.", hint="Add --force to replace it.")


WAIT_S: Final = 2.0
"""Seconds to wait for processes that use the store for one command."""


def plan_restore(file: Path, store: Path, *, key_file: Path | None = None) -> Replacement:
    """Check both files without changing them.

    Raises:
        InvalidInputError: the file does not exist, or is the store itself.
        StoreCorruptError: the file is damaged, not a store, or newer; or the store's path has
            another program's database.
        UnavailableError: one of them cannot be read, or no key opens the file.

    """
    if not file.is_file():
        raise InvalidInputError(f"There is no file {file}.", hint="Name a backup.")
    if store.exists() and file.samefile(store):
        raise InvalidInputError(f"{file} is the store itself.", hint="Name a backup of it.")
    origin = _backup_file(file, store, key_file=key_file)
    comes = holdings_of(origin)
    key, _ = key_of_copy(origin, store, key_file=key_file)
    goes, trouble = None, None
    if store.exists() and store.stat().st_size:
        try:
            goes = holdings_of(found_file(store, key_file=key_file))
        except StoreCorruptError as error:
            if error.code == "store_foreign":
                raise
            trouble = error.message
        except UnavailableError as error:
            if error.code not in KEYLESS:
                raise
            trouble = error.message
    return Replacement(
        file=str(file),
        store=str(store),
        comes=comes,
        goes=goes,
        trouble=trouble,
        unseals=key is None and is_sealed(store),
    )


def put_in_place(
    file: Path,
    store: Path,
    *,
    digest: str | None,
    clock: Clock,
    on_progress: Progress,
    key_file: Path | None = None,
) -> RestoreResult:
    """Replace a store by a verified copy of a backup; keep the old file under another name.

    The copy is sealed if there is a key for the store, if that is sealed, or if the backup is.

    Raises:
        InvalidInputError: the file has another digest, does not exist, or is the store itself.
        StoreCorruptError: the file is damaged, not a store, or newer; the store is unchanged.
        UnavailableError: another process has the store open, or the folder cannot be written; the
            store is unchanged.

    """
    store = store.resolve()
    plan = plan_restore(file, store, key_file=key_file)
    _check_digest(file, digest)
    timestamp = clock.now().strftime("%Y%m%dT%H%M%S.%f")[:-3]
    suffix = f".before-restore-{timestamp}Z"
    # A clock may give a time twice.
    suffixes = chain([suffix], (f"{suffix}-{number}" for number in count(2)))
    try:
        make_private_folder(store.parent)
        with partial_path(store) as partial:
            origin = _backup_file(file, store, key_file=key_file)
            key, source_of_key = key_of_copy(origin, store, key_file=key_file)
            sqlite = driver(is_sealed=(key or origin.key) is not None)
            with connected(origin, wait_s=WAIT_S, sqlite=sqlite) as source:
                held = copy_store(source, partial, origin=origin, key=key, on_progress=on_progress)
            with _exclusive(store, key_file=key_file):
                old_file = next(
                    free for one in suffixes if not (free := sibling_path(store, one)).exists()
                )
                _rename_old(store, old_file)
                note_source(store, source_of_key)
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


def _backup_file(file: Path, store: Path, *, key_file: Path | None) -> StoreFile:
    """Open a backup, with the keys of the store if it has none of its own."""
    return found_file(file, key_file=key_file, copy_of=store)


def holdings_of(file: StoreFile) -> Holdings:
    """Check a store in a file and return what it holds.

    Raises:
        StoreCorruptError: it is damaged, not a store, or newer.
        UnavailableError: it cannot be read.

    """
    with connected(file, wait_s=WAIT_S) as connection:
        version = schema_of(connection)
        if version is None:
            raise StoreCorruptError(
                f"{file.path} is not a store of Commonbrain.",
                code="store_foreign",
                hint="Name a file that `brain backup` wrote.",
            )
        MIGRATIONS.check_upgradable(version, str(file.path))
        check_whole(connection, file)
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
def _exclusive(store: Path, *, key_file: Path | None) -> Generator[None]:
    """Checkpoint a store into one file and exclude others, as far as it can be read.

    Raises:
        UnavailableError: `store_in_use`, another process has it open.

    """
    if not store.exists() or not store.stat().st_size:
        yield
        return
    try:
        file = found_file(store, key_file=key_file)
    except UnavailableError as error:
        if error.code not in KEYLESS:
            raise
        # As a damaged file, one without its key cannot be locked.
        yield
        return
    with connected(file, wait_s=WAIT_S) as connection:
        try:
            lock_out_others(connection, file)
        except file.driver.OperationalError as error:
            if damage_in(str(error)) is None:
                raise
            connection.close()
        except (file.driver.DatabaseError, UnicodeDecodeError):
            # A damaged file cannot be locked; it is moved with all files next to it.
            connection.close()
        yield


def lock_out_others(
    connection: sqlite3.Connection, file: StoreFile, *, sqlite: ModuleType | None = None
) -> None:
    """Bring the log into a file, and keep every other process out until the connection closes.

    Raises:
        UnavailableError: `store_in_use`, another process has it open.

    """
    try:
        # Fails while any other process has the file open.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except (sqlite or file.driver).OperationalError as error:
        if "locked" not in str(error):
            raise
        raise UnavailableError(
            f"The store {file.path} is open in another process.",
            code="store_in_use",
            hint="Nothing was changed. Close the agents and servers that use it, then try again.",
        ) from error


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


BACKUPS_MAX: Final = 3
"""Backups kept next to a store, those of the newest schemas."""
_COPIES: Final = 2
"""Copies of the file for which there must be space: the backup, and its compaction."""
_PARTIAL_S_MAX: Final = 3600
"""After this time, an unfinished backup belongs to a process that was stopped."""
_LOG: Final = logging.getLogger(__name__)


def back_up_before_upgrade(file: StoreFile, *, version: str, to: str, wait_s: float) -> Path | None:
    """Write a backup next to the store, log where it is, and delete the oldest ones.

    Returns:
        Its path; None if it was skipped, for which the log has the reason. A store is never kept
        from opening.

    """
    target = sibling_path(file.path, f".schema-{version}.bak")
    about = f"The schema of {file.path} changes from {version} to {to}"
    try:
        needed, free = _COPIES * _size(file.path), shutil.disk_usage(file.path.parent).free
        if free < needed:
            _LOG.warning(
                "%s without a backup: it needs %s bytes and %s are free.",
                about,
                f"{needed:,}",
                f"{free:,}",
            )
            return None
        _drop_partial(target)
        write_backup(file, target, replace=True, wait_s=wait_s, on_progress=ignore_progress)
    except (CommonbrainError, OSError) as error:
        _LOG.warning("%s without a backup: %s", about, error)
        return None
    _LOG.warning("%s; the store as it was is in %s.", about, target)
    with suppress(OSError):
        for old in sorted(upgrade_backups(file.path), reverse=True)[BACKUPS_MAX:]:
            old.unlink(missing_ok=True)
    return target


def _size(path: Path) -> int:
    files = (path, sibling_path(path, "-wal"))
    return sum(one.stat().st_size for one in files if one.exists())


def _drop_partial(target: Path) -> None:
    oldest = time() - _PARTIAL_S_MAX
    prefix = f".{target.name}."
    for path in target.parent.iterdir():
        if path.name.startswith(prefix) and path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
