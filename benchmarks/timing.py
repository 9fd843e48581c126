"""Taking times: wall time and processor time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True, slots=True)
class Lap:
    """How long one call took, and how long this process worked meanwhile."""

    wall_ms: float
    process_ms: float


@dataclass(frozen=True, slots=True)
class Timing:
    """The same call many times."""

    laps: tuple[Lap, ...]

    @property
    def p50_ms(self) -> float:
        """The median by the clock."""
        return median(lap.wall_ms for lap in self.laps)

    @property
    def process_p50_ms(self) -> float:
        """The median of what the process worked."""
        return median(lap.process_ms for lap in self.laps)

    @property
    def process_p95_ms(self) -> float:
        """The 95th percentile of what the process worked."""
        return quantiles((lap.process_ms for lap in self.laps), n=20)[-1]

    def line(self, name: str) -> str:
        """Tell it in one line."""
        wall = [lap.wall_ms for lap in self.laps]
        p95 = quantiles(wall, n=20)[-1]
        return (
            f"{name:<34} p50 {self.p50_ms:8.2f}   p95 {p95:8.2f}   longest {max(wall):8.2f} ms"
            f"   process p50 {self.process_p50_ms:8.2f}   n {len(wall)}"
        )


def timed(action: Callable[[], object]) -> Lap:
    """Call it once."""
    wall, process = time.perf_counter(), time.process_time()
    action()
    return Lap(
        wall_ms=(time.perf_counter() - wall) * 1000,
        process_ms=(time.process_time() - process) * 1000,
    )


def timing(actions: Iterable[Callable[[], object]]) -> Timing:
    """Call each once."""
    return Timing(tuple(timed(action) for action in actions))
