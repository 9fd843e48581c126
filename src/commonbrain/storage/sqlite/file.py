"""The file of a SQLite store: created for its owner only, checked before writes; its backups."""

import json
import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep, time
from types import ModuleType
from typing import Any, Final, cast
from urllib.parse import quote

from sqlalchemy import URL

from commonbrain.folders import make_private_folder
from commonbrain.model.errors import StoreCorruptError, UnavailableError
from commonbrain.model.values import dataclass, field, replace
from commonbrain.storage.interface import Finding
from commonbrain.storage.sqlite import PLAIN
from commonbrain.storage.sqlite.driver import driver
from commonbrain.storage.sqlite.sealing import (
    HEADER_BYTES,
    Key,
    KeySource,
    find_key,
    is_plain,
    note_source,
    source_of,
)
from commonbrain.threads import after_fork


def sibling_path(path: Path, suffix: str) -> Path:
    """Return the path of a file next to a store's, whose name begins with that of the store."""
    return path.with_name(path.name + suffix)


def has_wal(path: Path) -> bool:
    """Return whether recent changes may be in a -wal file."""
    try:
        return sibling_path(path, "-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


# `brain backup` adds a line to a file next to the store; backups before an upgrade and replaced
# stores are recognised by their names. So a damaged store can name its newest backup, and a file
# that became empty is not taken for a new store.
_RECORD: Final = ".backups"
_RECORDED_MAX: Final = 20
"""Backups that are remembered: older ones are rarely there any more."""
_REPLACED: Final = ".before-restore-"
_UPGRADED: Final = ".schema-"


def record_backup(store: Path, backup: Path) -> None:
    """Remember a backup; does nothing if the folder of the store cannot be written."""
    record = sibling_path(store, _RECORD)
    partial = sibling_path(record, f".{os.getpid()}.partial")
    known = [*(one for one in recorded_backups(store) if one != backup), backup]
    text = "".join(f"{json.dumps(str(one))}\n" for one in known[-_RECORDED_MAX:])
    with suppress(OSError):
        try:
            with open(partial, "w", encoding="ascii", opener=open_for_owner) as file:
                file.write(text)
            partial.replace(record)
        finally:
            partial.unlink(missing_ok=True)


def recorded_backups(store: Path) -> list[Path]:
    """List the remembered backups, oldest first; they may have been moved or deleted."""
    backups: list[Path] = []
    with suppress(OSError, UnicodeDecodeError):
        for line in sibling_path(store, _RECORD).read_text("ascii").splitlines():
            with suppress(ValueError):
                backups.append(Path(cast("str", json.loads(line))))
    return backups


def newest_backup(store: Path) -> Path | None:
    """Return the newest known backup that is still there."""
    known = [*recorded_backups(store), *upgrade_backups(store)]
    dated: list[tuple[int, Path]] = []
    for one in known:
        with suppress(OSError):
            status = one.stat()
            if status.st_size:
                dated.append((status.st_mtime_ns, one))
    return max(dated)[1] if dated else None


def upgrade_backups(store: Path) -> Iterator[Path]:
    """List the backups that migrations of a store left; names sort by schema."""
    return (one for one in _named(store, _UPGRADED) if one.name.endswith(".bak"))


def known_copies(store: Path) -> Iterator[Path]:
    """List the backups of a store that are known, and the stores that restores replaced."""
    yield from recorded_backups(store)
    yield from upgrade_backups(store)
    yield from _named(store, _REPLACED)


def held_memories(store: Path) -> str | None:
    """Return why an empty file must have held a store; None if nothing says so."""
    if has_wal(store) or sibling_path(store, "-shm").exists():
        return "SQLite's files of a store are next to it"
    if recorded_backups(store) or next(upgrade_backups(store), None) is not None:
        return "it was backed up"
    if next(_named(store, _REPLACED), None) is not None:
        return "the store that a restore replaced is next to it"
    return None


def _named(store: Path, suffix: str) -> Iterator[Path]:
    prefix = f"{store.name}{suffix}"
    with suppress(OSError):
        yield from (one for one in store.parent.iterdir() if one.name.startswith(prefix))


def open_for_owner(path: str, flags: int) -> int:
    """Open a file that its owner alone may read."""
    return os.open(path, flags, 0o600)


_SEALED_CACHE_KIB: Final = 16_384
"""Pages of a sealed file are decrypted when read: with 8 MiB recall takes a tenth longer."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_CREATED_WITHIN_S: Final = 10.0
"""Age up to which an empty file may be one that another process is about to fill."""
_FILLED_WITHIN_S: Final = 1.0
"""How long to wait for that; it takes milliseconds."""
_POLL_S: Final = 0.01

_FileId = tuple[int, int]
_OPEN: Final[dict[int, "StoreFile"]] = {}
"""The files that this process has open, by the identity of each `StoreFile`."""
_HEADERS: Final = Lock()
"""Held while a file is read outside SQLite, whose locks on it end when any other handle closes."""
_INHERITED: Final[set[_FileId]] = set()
"""The files that a parent had open when this process was forked."""


def _inherit() -> None:
    _INHERITED.update(file.id for file in _OPEN.values())
    _OPEN.clear()


after_fork(_inherit)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """A file as it was opened.

    `path` is absolute, so it stays valid if the working folder changes.
    """

    path: Path
    opened: os.stat_result
    is_read_only: bool
    is_at_rest: bool
    """Read-only and without a -wal file, so only the file itself is read."""
    key: Key | None = field(default=None, repr=False)
    """The key of a sealed file."""
    process: int = field(default_factory=os.getpid)
    """The process that opened it: SQLite cannot be used across a fork."""
    damage: list[str] = field(default_factory=list[str])
    """The first damage that was noticed; nothing is written from then on."""

    @property
    def url(self) -> URL:
        """The URL for SQLite."""
        if not self.is_read_only:
            # A plain string would end at a question mark and depend on the working folder.
            return URL.create("sqlite", database=str(self.path))
        # To read in WAL mode SQLite creates files next to it, unless it is told that no one writes.
        query: Mapping[str, str] = {"mode": "ro", "uri": "true"}
        if self.is_at_rest:
            query = {**query, "immutable": "1"}
        return URL.create("sqlite", database=f"file:{quote(str(self.path))}", query=query)

    @property
    def driver(self) -> ModuleType:
        """The SQLite module that opens the file."""
        return driver(is_sealed=self.key is not None)

    def unlock(self, connection: Any) -> None:  # noqa: ANN401 a driver's own
        """Give a new connection the key, before it reads anything."""
        if self.key is not None:
            connection.execute(self.key.pragma)
            connection.execute(f"PRAGMA cache_size = -{_SEALED_CACHE_KIB}")

    def use(self) -> None:
        """Mark the file as open in this process.

        Raises:
            UnavailableError: `store_forked`, a process had it open when it forked this one.

        """
        if self.id in _INHERITED:
            raise _forked(self.path)
        _OPEN[id(self)] = self

    def leave(self) -> bool:
        """Mark the file as closed; return False if the connections belong to a parent process."""
        if self.process != os.getpid():
            return False
        _OPEN.pop(id(self), None)
        return True

    def check_process(self) -> None:
        """Check that this process opened the file.

        Raises:
            UnavailableError: `store_forked`, its parent did.

        """
        if self.process != os.getpid():
            raise _forked(self.path)

    def report_damage(self, cause: str, *, is_derived: bool = False) -> StoreCorruptError:
        """Return the error for a damaged file, to which nothing is written from now on.

        A repair has to write where only what is derived is damaged.
        """
        if not self.damage and not is_derived:
            self.damage.append(cause)
        return damaged(self.path, cause)

    def check_writable(self) -> None:
        """Check that the file is writable, not damaged, and still where it was opened.

        Raises:
            UnavailableError: `store_read_only`, `store_forked`, or the path has another file or
                none.
            StoreCorruptError: damage was noticed before.

        """
        self.check_process()
        if self.damage:
            raise damaged(self.path, self.damage[0])
        if self.is_read_only:
            raise UnavailableError(
                f"The store {self.path} is read-only.",
                code="store_read_only",
                hint="Nothing was written. It can be recalled from; to write, make the file and "
                "its folder writable, then open it again.",
            )
        if not self._is_in_place():
            raise self._moved("Nothing was written.")

    def check_location(self) -> None:
        """Check that the file was not moved during a write.

        Raises:
            UnavailableError: the path has another file or none.

        """
        if not self._is_in_place():
            raise self._moved("What was being written went with it and is not acknowledged.")

    def check_readable(self) -> None:
        """Check that a file opened as static was not written to.

        Raises:
            UnavailableError: another process writes to it, or `store_forked`.

        """
        self.check_process()
        if not self.is_at_rest:
            return
        now = self.path.stat()
        is_same = (now.st_mtime_ns, now.st_size) == (self.opened.st_mtime_ns, self.opened.st_size)
        if not is_same or has_wal(self.path):
            raise UnavailableError(
                f"The store {self.path}, read-only here, was changed by another process.",
                hint="Open it again.",
            )

    def examine_seal(self) -> Finding:
        """Report whether the file is sealed, and where its key is."""
        detail = "no" if self.key is None else f"yes, with the key of {self.key.source}"
        return Finding(check="sealed", is_sound=True, detail=detail)

    def examine(self) -> Finding:
        """Check whether others than its owner may read it."""
        mode = stat.S_IMODE(self.path.stat().st_mode)
        is_private = not mode & _OTHERS
        access = "read-only, " if self.is_read_only else ""
        return Finding(
            check="access",
            is_sound=True,
            detail=f"{access}mode {mode:04o}"
            + ("" if is_private else ": other users of this machine may open it"),
            hint="" if is_private else f"If that is not meant: chmod 600 '{self.path}'*",
        )

    @property
    def id(self) -> _FileId:
        """What makes it the same file under any name."""
        return self.opened.st_dev, self.opened.st_ino

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(self.path.stat(), self.opened)
        except OSError:
            return False

    def _moved(self, what: str) -> UnavailableError:
        return UnavailableError(
            f"The store {self.path} was moved, replaced or deleted while it was open.",
            hint=f"{what} Put it back with its -wal file, or open it again.",
        )


def make_file(path: Path, *, key_file: Path | None = None) -> StoreFile:
    """Open or create a file, readable by its owner only; a new one is sealed if there is a key.

    Raises:
        OSError: it cannot be created.
        StoreCorruptError: it is empty, and once was not.
        UnavailableError: `key_missing` or `key_wrong`, it is sealed; `not_sealed`, it is not, and
            the settings name a key.

    """
    path = path.resolve()
    is_new = not path.exists()
    if not is_new:
        _check_not_emptied(path)
    if is_new or not path.stat().st_size:
        source = source_of(path, key_file)
        key = find_key(path, b"", source=source)
        make_private_folder(path.parent)
        if key is not None:
            # So that processes without the variable find the key too, such as hooks.
            note_source(path, source)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    file = found_file(path, key_file=key_file)
    if key_file is not None and file.key is None:
        raise UnavailableError(
            f"The store {path} is not sealed, and COMMONBRAIN_KEY_FILE says that it is.",
            code="not_sealed",
            hint="Nothing was changed. Seal it with `brain seal`, or unset the variable.",
        )
    return file


def _check_not_emptied(path: Path) -> None:
    """Check that an empty file is a new one: `touch` and interrupted creations leave such.

    SQLite takes it for a new database, and deletes the -wal file that may hold the memories.
    """
    if path.stat().st_size:
        return
    trace = held_memories(path)
    if trace is None or _is_being_filled(path):
        return
    backup = newest_backup(path)
    restored = f" The newest backup is {backup}; {_restoring(backup)}" if backup is not None else ""
    raise StoreCorruptError(
        f"The store {path} is empty, and once was not: {trace}.",
        hint=f"Nothing was changed.{restored} To begin with an empty store, move the file, and all "
        "files whose names begin with its name, to another folder.",
    )


def _is_being_filled(path: Path) -> bool:
    """Wait for another process that may be creating the store; return whether it did."""
    until = monotonic() + _FILLED_WITHIN_S
    while (status := path.stat()).st_size == 0:
        if time() - status.st_mtime > _CREATED_WITHIN_S or monotonic() > until:
            return False
        sleep(_POLL_S)
    return True


def damaged(path: Path, cause: str) -> StoreCorruptError:
    """Return the error for a damaged file, with its newest known backup."""
    return StoreCorruptError(
        f"The store {path} cannot be read: {cause}.",
        hint=f"Nothing was changed. `brain doctor` says what can be repaired. {restore_hint(path)}",
    )


def restore_hint(path: Path) -> str:
    """Return how to replace a damaged store, with its newest known backup."""
    backup = newest_backup(path)
    if backup is None:
        return "No backup of it is known; `brain restore FILE` puts one in its place and keeps it."
    return f"The newest backup is {backup}; {_restoring(backup)}"


def _restoring(backup: Path) -> str:
    return f"`brain restore {shlex.quote(str(backup))}` puts it in its place and keeps this file."


def _forked(path: Path) -> UnavailableError:
    return UnavailableError(
        f"The store {path} was open when this process was forked, which SQLite does not allow.",
        code="store_forked",
        hint="Nothing was changed. Close the store before the fork and open it again in the child, "
        'or start processes with multiprocessing.get_context("spawn").',
    )


def found_file(
    path: Path, *, key_file: Path | None = None, copy_of: Path | None = None
) -> StoreFile:
    """Open an existing file, with its key if it is sealed.

    Args:
        path: the file.
        key_file: the file with its key; by default the source that is noted next to it.
        copy_of: the store that it is a copy of, whose keys open it too.

    Raises:
        OSError: it does not exist.
        UnavailableError: `key_missing` or `key_wrong`, it is sealed.
        InvalidInputError: `key_invalid`, the keys cannot be used as they are.

    """
    # A link stays one: notes and SQLite's own files are next to the file itself.
    path = path.resolve()
    opened = path.stat()
    # SQLite needs two more files next to it while it is in use; without them it is read-only.
    makes_files = os.access(path.parent, os.W_OK) or has_wal(path)
    is_read_only = not (os.access(path, os.W_OK) and makes_files)
    file = StoreFile(
        path=path,
        opened=opened,
        is_read_only=is_read_only,
        is_at_rest=is_read_only and not has_wal(path),
    )
    same, page = _peek(path, opened)
    if same is not None:
        return replace(file, key=same.key)
    source = source_of(path, key_file) or (copy_of and source_of(copy_of, None))
    return replace(file, key=find_key(path, page, source=source))


def _peek(path: Path, status: os.stat_result) -> tuple[StoreFile | None, bytes]:
    """Return a file as this process has it open, or else its first page."""
    with _HEADERS:
        for one in _OPEN.values():
            if os.path.samestat(one.opened, status):
                return one, b""
        return None, read_header(path)


def is_sealed(path: Path) -> bool:
    """Return whether a file is sealed; False for an empty one, or none."""
    if not path.exists():
        return False
    same, page = _peek(path, path.stat())
    return not is_plain(page or PLAIN) if same is None else same.key is not None


def key_of_copy(
    origin: StoreFile, store: Path, *, key_file: Path | None
) -> tuple[Key | None, KeySource | None]:
    """Return the key that a restored store gets, and where to note that it is.

    Raises:
        UnavailableError: `key_missing`, there is none where the keys of the store are.

    """
    source = source_of(store, key_file)
    # The note of a plain store, left by a crash, does not matter if there are no keys.
    if source and (key_file or not store.exists() or is_sealed(store) or source.read()):
        return find_key(store, b"", source=source), source
    with suppress(UnavailableError, FileNotFoundError):
        if present := found_file(store).key:
            return present, None
    return origin.key, source_of(origin.path, None)


def read_header(path: Path) -> bytes:
    """Read the first page of a file, outside SQLite."""
    with path.open("rb") as file:
        return file.read(HEADER_BYTES)
