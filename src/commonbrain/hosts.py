"""Hosts and addresses: which are those of this machine, and what is a URL."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from commonbrain.text.patterns import lazy_pattern

_SCHEME: Final = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://")


def is_url(store: object) -> bool:
    """Return whether a store is given as a server URL, which may contain a password."""
    return isinstance(store, str) and _SCHEME.match(store) is not None


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an IP address; None if it is none, such as the name of a host."""
    try:
        address = ip_address(text.strip("[]"))
    except ValueError:
        return None
    # A dual-stack listener reports IPv4 callers as IPv6 addresses.
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(address: str) -> bool:
    """Return whether an IP address is this machine's; host names are not trusted."""
    parsed = parse_address(address)
    return parsed is not None and parsed.is_loopback


def is_local_host(host: str) -> bool:
    """Return whether the host of a configured URL is this machine, by name or address."""
    return host.lower() == "localhost" or is_loopback(host)
