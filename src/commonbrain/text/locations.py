"""Where a store is, in a file or on a server that a URL names; and what is this machine."""

from ipaddress import ip_address
from typing import Final

_SCHEMES: Final = ("postgresql://", "postgres://")


def is_url(store: object) -> bool:
    """Say whether a store is named by the URL of a server; it may hold a password."""
    return isinstance(store, str) and store.startswith(_SCHEMES)


def is_loopback(address: str) -> bool:
    """Say whether an address is this machine's own; no name is one, for names may be made up."""
    try:
        return ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def is_here(host: str) -> bool:
    """Say whether the host of a URL of our own choice is this machine, by name or by address."""
    return host.lower() == "localhost" or is_loopback(host)
