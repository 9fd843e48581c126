"""Where a store is: in a file, or on a server that a URL names."""

from typing import Final

_SCHEMES: Final = ("postgresql://", "postgres://")


def is_url(store: object) -> bool:
    """Say whether a store is named by the URL of a server; it may hold a password."""
    return isinstance(store, str) and store.startswith(_SCHEMES)
