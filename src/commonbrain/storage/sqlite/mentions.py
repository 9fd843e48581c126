"""Whether a store contains any of some words, before anything heavy is imported.

It tells only that a closer look is worth its time: callers learn nothing of a memory from it.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from commonbrain.storage.sqlite.driver import driver

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
