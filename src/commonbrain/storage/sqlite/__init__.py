"""The SQLite engine."""

from typing import Final

PLAIN: Final = b"SQLite format 3\0"
"""The first bytes of a file that is not sealed."""
