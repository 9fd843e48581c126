"""Hosts and addresses: which are those of this machine, and what is a URL."""

import re
from ipaddress import ip_address
from typing import Final

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_url(store: object) -> bool:
    """Return whether a store is given as a server URL, which may contain a password."""
    return isinstance(store, str) and _SCHEME.match(store) is not None


def is_loopback(address: str) -> bool:
    """Return whether an IP address is this machine's; host names are not trusted."""
    try:
        return ip_address(address.strip("[]")).is_loopback
    except ValueError:
        return False


def is_local_host(host: str) -> bool:
    """Return whether the host of a configured URL is this machine, by name or address."""
    return host.lower() == "localhost" or is_loopback(host)
