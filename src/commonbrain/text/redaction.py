"""Detected secrets, described without repeating them."""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from commonbrain.model.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretMatch:
    """A span of a text that is a secret, or looks like one."""

    sort: str
    """The type in words, such as "GitHub token"; never a part of the secret."""
    start: int
    end: int
    is_certain: bool = True
    """Whether it is removed or rejected; random-looking text only causes a warning."""


def describe_place(text: str, position: int) -> str:
    """Return a position as "line L, column C", both counted from 1."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return f"line {line}, column {column}"


def redacted(text: str, matches: Iterable[SecretMatch]) -> str:
    """Replace every certain secret by its type."""
    parts: list[str] = []
    done = 0
    for one in sorted(matches, key=lambda one: one.start):
        if one.is_certain and one.end > done:
            parts += [text[done : max(one.start, done)], f"[redacted: {one.sort}]"]
            done = one.end
    return "".join([*parts, text[done:]])


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


def is_here(host: str) -> bool:
    """Return whether the host of a configured URL is this machine, by name or address."""
    return host.lower() == "localhost" or is_loopback(host)
