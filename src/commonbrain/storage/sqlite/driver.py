"""The SQLite module that stores are opened with, without anything heavy beside it."""

import importlib
import sqlite3
import warnings
from types import ModuleType
from typing import Final

_FIXED_IN: Final = (3, 51, 3)
"""The first SQLite without the WAL corruption bug."""


def driver() -> ModuleType:
    """Return a module with a SQLite that is safe for several processes; warn if there is none."""
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
