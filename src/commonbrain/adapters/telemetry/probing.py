"""Knocks at the doors of what the house depends on: sockets opened, files looked at."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from commonbrain.domain.limits import PROBE_S
from commonbrain.ports.clock import Clock
from commonbrain.ports.probing import Dependency

_PORTS: Final = {
    "postgresql": 5432,
    "postgres": 5432,
    "redis": 6379,
    "rediss": 6379,
    "http": 80,
    "https": 443,
}
"""The port of a URL that names none."""


@dataclass(frozen=True, slots=True)
class Doors:
    """By name where each dependency is: a URL, or a file."""

    places: dict[str, str | Path]
    clock: Clock

    def __call__(self) -> Sequence[Dependency]:
        """Knock at all at once."""
        if not self.places:
            return ()
        with ThreadPoolExecutor(len(self.places), "probe") as pool:
            return tuple(pool.map(self._knock, self.places, self.places.values()))

    def _knock(self, name: str, place: str | Path) -> Dependency:
        since_ms = self.clock.elapsed_ms()
        try:
            where, is_there = _reach(place), True
        except (OSError, ValueError) as error:
            # The words of the system, which name no credential.
            where, is_there = getattr(error, "strerror", None) or type(error).__name__, False
        took_ms = round(self.clock.elapsed_ms() - since_ms, 3)
        return Dependency(name=name, is_there=is_there, took_ms=took_ms, detail=where)


def _reach(place: str | Path) -> str:
    """Open a socket to a URL or look at a file; say where it is.

    Raises:
        OSError: it is not there, or did not answer in time.
        ValueError: its URL is none.

    """
    if isinstance(place, Path):
        place.stat()
        return str(place)
    url = urlsplit(place)
    scheme = url.scheme.partition("+")[0]
    host, port = url.hostname or "localhost", url.port or _PORTS.get(scheme, 0)
    with socket.create_connection((host, port), timeout=PROBE_S):
        return f"{host}:{port}"
