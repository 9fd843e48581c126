"""Whether what the house depends on is there, told by a knock at its door."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from commonbrain.clock import Clock
from commonbrain.model.limits import PROBE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """One thing the house depends on, and whether it answered within five seconds."""

    name: str
    is_there: bool
    took_ms: float
    detail: str
    """Where it is or what is wrong, without a secret."""


class Probe(Protocol):
    """Knocks at the doors of what the house depends on."""

    def __call__(self) -> Sequence[Dependency]:
        """Knock at all of them at once; takes five seconds at most, and never raises."""
        ...


def unprobed() -> Sequence[Dependency]:
    """Know of none."""
    return ()


class ReplicaTrouble(StrEnum):
    """What may be wrong with a replica, told without where it is."""

    FAILED = "it failed when it was last asked"
    UNFIT = "it may not be read from"
    NO_REPLICA = "it is no replica"
    TIMELINE = "it is not known to be on the primary's timeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReads:
    """What one replica did for this process; what it did not answer the primary answered."""

    replica: str
    """Where it is, without a secret."""
    answered: int = 0
    lagged: int = 0
    """Reads that came before it had replayed what they must see."""
    failed: int = 0
    behind_bytes: int | None = None
    """How much was missing when it was last asked; None where nobody knows."""
    trouble: str | None = None
    """What is wrong with it, if anything was when it was last asked."""
    sort: ReplicaTrouble | None = None
    """What sort of trouble that is."""

    @property
    def asked(self) -> int:
        """How often it was turned to."""
        return self.answered + self.lagged + self.failed

    def masked(self, number: int) -> ReplicaReads:
        """Tell the same without where it is."""
        trouble = None if self.sort is None else self.sort.value
        return replace(self, replica=f"replica {number}", trouble=trouble)


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
class HealthProbes:
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
