"""Store URLs and local addresses."""

from ipaddress import ip_address
from typing import Final

_SCHEMES: Final = ("postgresql://", "postgres://")


def is_url(store: object) -> bool:
    """Return whether a store is given as a server URL, which may contain a password."""
    return isinstance(store, str) and store.startswith(_SCHEMES)


def is_loopback(address: str) -> bool:
    """Return whether an IP address is this machine's; host names are not trusted."""
    try:
        return ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def is_here(host: str) -> bool:
    """Return whether the host of a configured URL is this machine, by name or address."""
    return host.lower() == "localhost" or is_loopback(host)
