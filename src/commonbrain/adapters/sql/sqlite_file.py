"""The file under a SQLite store: made for its owner alone, and known again before each write."""

import os
from dataclasses import dataclass
from pathlib import Path

from commonbrain.domain.errors import Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """A file as it was opened; `path` is absolute, so that it stays where it is if we move."""

    path: Path
    opened: os.stat_result

    def check_in_place(self) -> None:
        """Refuse to write into a file that nobody will find again.

        Raises:
            Unavailable: another file, or none, lies where the store was opened.

        """
        try:
            is_same = os.path.samestat(self.path.stat(), self.opened)
        except OSError:
            is_same = False
        if not is_same:
            raise Unavailable(
                f"The store {self.path} was moved, replaced or deleted while it was open.",
                hint="Nothing was written. Put it back with its -wal file, or open it again.",
            )


def make_file(path: Path) -> StoreFile:
    """Find a file or make it, readable by its owner alone.

    Raises:
        OSError: it cannot be made.

    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return StoreFile(path=path.absolute(), opened=path.stat())
