"""Sources as they are uploaded: with the databases in them as of one moment."""

import shutil
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importers.databases import connect_sqlite, is_sqlite

HIDDEN_FILES: Final = frozenset({".atoms.db", ".embeddings.db"})
"""The hidden files that an importer reads; they are brain-db's."""
_LOGS: Final = ("-wal", "-shm", "-journal")
"""How SQLite names the files in which a database has changes of its own."""
_HINT: Final = "Import it in the foreground, or close the program that writes to it."


@contextmanager
def snapshot_of(source: Path) -> Generator[Path]:
    """Yield a source, or a copy of one with databases that other programs may write to.

    Raises:
        InvalidInputError: a database cannot be copied.

    """
    databases = [one for one in _files(source) if is_sqlite(one)]
    if not databases:
        yield source
        return
    with TemporaryDirectory(prefix="commonbrain-") as folder:
        copy = Path(folder) / source.resolve().name
        for file in _files(source):
            target = copy if file == source else copy / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            if file in databases:
                _back_up(file, target)
            elif not _is_log(file, databases):
                shutil.copyfile(file, target)
        yield copy


def _files(source: Path) -> Iterator[Path]:
    """Yield the files that an upload takes along."""
    if source.is_file():
        yield source
        return
    root = source.resolve()
    for path in sorted(source.rglob("*")):
        *above, name = path.relative_to(source).parts
        is_hidden = any(one.startswith(".") for one in above) or (
            name.startswith(".") and name not in HIDDEN_FILES
        )
        if path.is_file() and not is_hidden and path.resolve().is_relative_to(root):
            yield path


def _is_log(file: Path, databases: list[Path]) -> bool:
    return any(
        file == one.with_name(f"{one.name}{suffix}") for one in databases for suffix in _LOGS
    )


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
