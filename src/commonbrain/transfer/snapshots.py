"""Sources as they are uploaded: with the databases in them as of one moment."""

import shutil
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from commonbrain.folders import is_disk_full, temporary_folder
from commonbrain.model.errors import InvalidInputError

_LOGS: Final = ("-wal", "-shm", "-journal")
"""How SQLite names the files in which a database has changes of its own."""
_HINT: Final = "Import it in the foreground, or close the program that writes to it."


@contextmanager
def snapshot_of(source: Path, *, hidden: frozenset[str]) -> Generator[Path]:
    """Yield a source, or a copy of one with databases that other programs may write to.

    `hidden` names the files to take along although they begin with a dot.

    Raises:
        InvalidInputError: a database cannot be copied.

    """
    databases = [one for one in _files(source, hidden) if is_sqlite(one)]
    if not databases:
        yield source
        return
    logs = {one.with_name(f"{one.name}{suffix}") for one in databases for suffix in _LOGS}
    with TemporaryDirectory(prefix="commonbrain-") as folder:
        copy = Path(folder) / source.resolve().name
        for file in _files(source, hidden):
            target = copy if file == source else copy / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            if file in databases:
                _back_up(file, target)
            elif file not in logs:
                shutil.copyfile(file, target)
        yield copy


def _files(source: Path, hidden: frozenset[str]) -> Iterator[Path]:
    """Yield the files that an upload takes along."""
    if source.is_file():
        yield source
        return
    root = source.resolve()
    for path in sorted(source.rglob("*")):
        *above, name = path.relative_to(source).parts
        is_hidden = any(one.startswith(".") for one in above) or (
            name.startswith(".") and name not in hidden
        )
        if path.is_file() and not is_hidden and path.resolve().is_relative_to(root):
            yield path


def _back_up(database: Path, target: Path) -> None:
    try:
        with (
            connect_sqlite(database, hint=_HINT) as connection,
            closing(sqlite3.connect(target)) as copy,
        ):
            connection.backup(copy)
    except InvalidInputError:
        # What is no database is none of the source, or the importer reports it.
        shutil.copyfile(database, target)
    except sqlite3.Error as error:
        raise InvalidInputError(f"{database} cannot be copied: {error}.", hint=_HINT) from error


_SQLITE: Final = b"SQLite format 3\x00"
"""How every SQLite database begins (https://www.sqlite.org/fileformat.html)."""


def is_sqlite(path: Path) -> bool:
    """Return whether a file is a SQLite database; an unreadable one is not."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


@contextmanager
def connect_sqlite(path: Path, *, hint: str) -> Generator[sqlite3.Connection]:
    """Connect to a SQLite database in a transaction that only reads it, see `open_sqlite`.

    Raises:
        InvalidInputError: it is missing, or no SQLite database.
        UnavailableError: `io_error`, it had to be copied and the disk is full.

    """
    if not path.is_file():
        raise InvalidInputError(f"There is no file {path}.", hint=hint)
    with temporary_folder() as scratch:
        connection = _connected(path, scratch, hint=hint)
        with closing(connection):
            yield connection


def _connected(path: Path, scratch: Path, *, hint: str) -> sqlite3.Connection:
    """Connect to a database, or to a copy of it if reading its log would write next to it.

    A log without an index is what a backup has, or a program that was killed left.
    """
    if not is_sqlite(path):
        raise InvalidInputError(f"{path} is not a SQLite database.", hint=hint)
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    try:
        if index.is_file() or not log.is_file():
            return _begun(f"{path.resolve().as_uri()}?mode=ro")
    except sqlite3.OperationalError:
        pass  # Its folder cannot be written to, which an open log needs.
    except sqlite3.DatabaseError as error:
        raise InvalidInputError(f"{path} cannot be read: {error}.", hint=hint) from error
    try:
        for suffix in ("", "-wal"):
            part = path.with_name(path.name + suffix)
            if part.is_file():
                shutil.copyfile(part, scratch / f"copy{suffix}")
        return _begun((scratch / "copy").resolve().as_uri())
    except (OSError, sqlite3.DatabaseError) as error:
        if is_disk_full(error):
            raise
        raise InvalidInputError(f"{path} cannot be read: {error}.", hint=hint) from error


def _begun(uri: str) -> sqlite3.Connection:
    # One thread reads the rows, and another may close what is left of them.
    connection = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
    try:
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        # All tables are read as of the same moment, whatever is written meanwhile.
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    except UnicodeDecodeError as error:  # Of a message that quotes a damaged schema.
        connection.close()
        raise sqlite3.DatabaseError("its schema is damaged") from error
    return connection
