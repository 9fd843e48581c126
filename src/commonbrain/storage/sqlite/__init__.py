"""The SQLite engine."""

from pathlib import Path
from typing import Final

PLAIN: Final = b"SQLite format 3\0"
"""The first bytes of a file that is not sealed."""


def begins_sealed(path: Path) -> bool:
    """Return whether a file begins as no plain store does; False for an empty one, or none.

    Nothing else is loaded or read. One that cannot be read may be sealed.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(PLAIN)) not in {b"", PLAIN}
    except FileNotFoundError:
        return False
    except OSError:
        return True
