"""Which SQLite is used: one that is safe for several processes, where there is one.

The bundled SQLite of many Pythons (3.7.0 to 3.51.2) can corrupt a WAL file that several connections
write and checkpoint, so a wheel with a mended one is used where there is one.
"""

import importlib
import sqlite3
import warnings
from types import ModuleType
from typing import Final

_MENDED: Final = (3, 51, 3)
"""The first SQLite without the WAL corruption bug."""


def driver() -> ModuleType:
    """Give the module with a SQLite that is safe for several processes, or warn that none is."""
    try:
        return importlib.import_module("pysqlite3.dbapi2")
    except ImportError:
        if sqlite3.sqlite_version_info < _MENDED:
            warnings.warn(
                f"SQLite {sqlite3.sqlite_version} has a bug that can corrupt a store which several "
                f"processes write. Install pysqlite3, or use a Python with SQLite 3.51.3 or newer.",
                RuntimeWarning,
                stacklevel=2,
            )
        return sqlite3
