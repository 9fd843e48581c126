"""SQLite's files next to that of a store."""

from pathlib import Path


def sibling_path(path: Path, suffix: str) -> Path:
    """Return the path of a file next to a store's, whose name begins with that of the store."""
    return path.with_name(path.name + suffix)


def has_wal(path: Path) -> bool:
    """Return whether recent changes may be in a -wal file."""
    try:
        return sibling_path(path, "-wal").stat().st_size > 0
    except FileNotFoundError:
        return False
