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

EXTRA: Final = "sealed"
_FIXED_IN: Final = (3, 51, 3)
"""The first SQLite without the WAL corruption bug."""


def driver(*, is_sealed: bool = False) -> ModuleType:
    """Return a module with a SQLite that is safe for several processes; warn if there is none.

    Raises:
        InvalidInputError: `extra_missing`, no module that opens sealed stores is installed.

    """
    if is_sealed:
        return load_extra("sqlcipher3.dbapi2", extra=EXTRA)
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


def may_mention(path: Path, phrases: Sequence[str]) -> bool:
    """Return whether a memory of any tenant contains a phrase; True if that is not known."""
    match = " OR ".join(f'"{one.replace(chr(34), " ")}"' for one in phrases)
    if not match or not path.expanduser().exists():
        return False
    sqlite = driver()
    try:
        uri = f"{path.expanduser().absolute().as_uri()}?mode=ro"
        with closing(sqlite.connect(uri, uri=True, timeout=_WAIT_S)) as connection:
            statement = "SELECT 1 FROM memory_text WHERE memory_text MATCH ? LIMIT 1"
            return connection.execute(statement, (match,)).fetchone() is not None
    except (sqlite.Error, ValueError):
        return True
