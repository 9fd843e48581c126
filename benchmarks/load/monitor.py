"""What each part of a running server uses: processor time, memory, threads, files; and growth.

Growth is the slope of a line through the samples by Theil and Sen, with the interval that it lies
in with 95% certainty: a sample that stands out, as while garbage waits to be collected, does not
tilt it.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false
# SciPy has no types.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

import psutil
import psycopg
from scipy.stats import theilslopes

_CONNECTIONS: Final = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'commonbrain'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one part used since it began: seconds of processor time, and megabytes it holds now.

    The time includes that of ended children once their parent has waited for them.
    """

    processor_s: float
    resident_mb: float


def uses(parts: Mapping[str, int]) -> dict[str, Use]:
    """Return what each part uses: a process and all that it started."""
    return {name: _use(pid) for name, pid in parts.items()}


def _use(pid: int) -> Use:
    processor, resident = 0.0, 0
    for one in _family(pid):
        with suppress(psutil.NoSuchProcess):
            processor += processor_s(one)
            # What is shared is counted once: Postgres' processes map the same buffers.
            memory = one.memory_full_info()
            resident += memory.uss
    return Use(processor_s=processor, resident_mb=resident / 1e6)


def processor_s(process: psutil.Process) -> float:
    """Read the processor time of a process and of children that it has waited for."""
    spent = process.cpu_times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _family(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a process and all that it started hold at one time."""

    resident_mb: float = 0.0
    threads: int = 0
    files: int = 0


def sample(pid: int) -> Sample:
    """Take a sample."""
    resident, threads, files = 0, 0, 0
    for one in _family(pid):
        with suppress(psutil.NoSuchProcess):
            resident += one.memory_info().rss
            threads += one.num_threads()
            files += one.num_fds()
    return Sample(resident_mb=resident / 1e6, threads=threads, files=files)


def count_connections(url: str) -> int | None:
    """Count the connections of servers and workers to Postgres; None while it is away."""
    with suppress(psycopg.OperationalError), closing(psycopg.connect(url)) as connection:
        [(count,)] = connection.execute(_CONNECTIONS).fetchall()
        return count
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How a figure grew over time, by the hour."""

    first: float
    last: float
    most: float
    slope: float
    low: float
    """The slope is above this with 97.5% certainty."""
    high: float

    @classmethod
    def of(cls, at_s: Sequence[float], values: Sequence[float]) -> Growth:
        """Fit a line through samples, of which there are at least two."""
        fitted: Any = theilslopes(values, [at / 3600 for at in at_s])
        return cls(
            first=values[0],
            last=values[-1],
            most=max(values),
            slope=float(fitted.slope),
            low=float(fitted.low_slope),
            high=float(fitted.high_slope),
        )

    def __str__(self) -> str:
        """Describe it in a line."""
        return (
            f"{self.first:.0f} to {self.last:.0f} (most {self.most:.0f}), {self.slope:+.1f} an "
            f"hour, 95% within {self.low:+.1f} to {self.high:+.1f}"
        )
