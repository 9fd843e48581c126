"""The SQLite module that stores are opened with, and a first look into one, loading little."""

import importlib
import sqlite3
import warnings
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Final

from commonbrain.extras import load_extra
from commonbrain.model.errors import CommonbrainError
from commonbrain.storage.sqlite import begins_sealed

_FIXED_IN: Final = (3, 51, 3)
"""The first SQLite without the WAL corruption bug."""


def driver(*, is_sealed: bool = False) -> ModuleType:
    """Return a module with a SQLite that is safe for several processes; warn if there is none.

    Raises:
        InvalidInputError: `extra_missing`, no module that opens sealed stores is installed.

    """
    if is_sealed:
        return load_extra("sqlcipher3.dbapi2", extra="sealed")
    try:
        return importlib.import_module("pysqlite3.dbapi2")
    except ImportError:
        if sqlite3.sqlite_version_info < _FIXED_IN:
            warnings.warn(
                f"SQLite {sqlite3.sqlite_version} has a bug that can corrupt a store which several "
                f"processes write. Install pysqlite3, or use a Python with SQLite 3.51.3 or newer.",
                RuntimeWarning,
                stacklevel=2,
            )
        return sqlite3


_WAIT_S: Final = 0.1


def may_mention(path: Path, phrases: Sequence[str], *, key_file: Path | None = None) -> bool:
    """Return whether a memory of any tenant contains a phrase; True if that is not known."""
    match = " OR ".join(f'"{one.replace(chr(34), " ")}"' for one in phrases)
    if not match or not path.expanduser().exists():
        return False
    try:
        pragma = _key_pragma(path.expanduser(), key_file)
    except (CommonbrainError, OSError):
        return True
    sqlite = driver(is_sealed=pragma is not None)
    try:
        uri = f"{path.expanduser().absolute().as_uri()}?mode=ro"
        with closing(sqlite.connect(uri, uri=True, timeout=_WAIT_S)) as connection:
            if pragma is not None:
                connection.execute(pragma)
            statement = "SELECT 1 FROM memory_text WHERE memory_text MATCH ? LIMIT 1"
            return connection.execute(statement, (match,)).fetchone() is not None
    except (sqlite.Error, ValueError):
        return True


def _key_pragma(path: Path, key_file: Path | None) -> str | None:
    """Return the statement that unlocks a sealed file; None for one that is not sealed."""
    if not begins_sealed(path):
        return None
    # Hooks of stores that are not sealed do without.
    from commonbrain.storage.sqlite.sealing import (  # noqa: PLC0415
        HEADER_BYTES,
        find_key,
        source_of,
    )

    with path.open("rb") as file:
        key = find_key(path, file.read(HEADER_BYTES), source=source_of(path, key_file))
    return key and key.pragma
