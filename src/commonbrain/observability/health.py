"""Health probes: whether the servers and files that a store depends on are reachable."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from commonbrain.clock import Clock
from commonbrain.model.limits import PROBE_S
from commonbrain.model.values import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """One dependency and whether it answered within five seconds."""

    name: str
    is_there: bool
    took_ms: float
    detail: str
    """Its address or the error, without credentials."""


class ReplicaTrouble(StrEnum):
    """Problems of a replica, without its address."""

    FAILED = "it failed when it was last tried"
    UNFIT = "it may not be read from"
    NO_REPLICA = "it is no replica"
    TIMELINE = "it is not known to be on the primary's timeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReads:
    """Reads that one replica answered for this process; the primary answered the others."""

    replica: str
    """Address, without credentials."""
    answered: int = 0
    lagged: int = 0
    """Reads for which it had not yet replayed the required writes."""
    failed: int = 0
    behind_bytes: int | None = None
    """Replication lag at the last check; None if unknown."""
    trouble: str | None = None
    """The problem found at the last check, if any."""
    sort: ReplicaTrouble | None = None
    """The category of that problem."""

    @property
    def attempts(self) -> int:
        """Number of reads that tried this replica."""
        return self.answered + self.lagged + self.failed

    def masked(self, number: int) -> ReplicaReads:
        """Return a copy without the address."""
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
"""Default ports by URL scheme."""


@dataclass(frozen=True, slots=True)
class HealthProbes:
    """By name the address of each dependency: a URL or a file."""

    places: dict[str, str | Path]
    clock: Clock

    def __call__(self) -> Sequence[Dependency]:
        """Check all dependencies at once."""
        if not self.places:
            return ()
        with ThreadPoolExecutor(len(self.places), "probe") as pool:
            return tuple(pool.map(self._probe, self.places, self.places.values()))

    def _probe(self, name: str, place: str | Path) -> Dependency:
        since_ms = self.clock.elapsed_ms()
        try:
            where, is_there = _reach(place), True
        except (OSError, ValueError) as error:
            # The operating system's message, which contains no credentials.
            where, is_there = getattr(error, "strerror", None) or type(error).__name__, False
        took_ms = round(self.clock.elapsed_ms() - since_ms, 3)
        return Dependency(name=name, is_there=is_there, took_ms=took_ms, detail=where)


def _reach(place: str | Path) -> str:
    """Connect to a URL or stat a file; return its address.

    Raises:
        OSError: It is missing or did not answer in time.
        ValueError: The URL is invalid.

    """
    if isinstance(place, Path):
        place.stat()
        return str(place)
    url = urlsplit(place)
    scheme = url.scheme.partition("+")[0]
    host, port = url.hostname or "localhost", url.port or _PORTS.get(scheme, 0)
    with socket.create_connection((host, port), timeout=PROBE_S):
        return f"{host}:{port}"
