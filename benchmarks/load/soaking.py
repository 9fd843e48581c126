"""`python -m benchmarks load soak`: whether a server holds more after minutes of the same.

A slope is told with the interval that it lies in with 95% certainty, by Theil and Sen: one sample
that stands out, as while garbage waits to be collected, does not tilt it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
from scipy.stats import theilslopes

from benchmarks.load.running import Folder, planned, sending
from benchmarks.load.stack import Stack, stack

_EVERY_S: Final = 5
_WARM: Final = 0.25
"""The share of a run that is warming up: caches fill, and every key is met once."""
_CONNECTIONS: Final = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'commonbrain'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one part holds at a moment."""

    at_s: float
    resident_mb: float
    threads: int
    files: int


def soak(
    folder: Folder, minutes: float = 10, rate: float = 10, agents: int = 60, workers: int = 2
) -> None:
    """Send requests at a low rate for long; tell whether memory, threads and connections grow."""
    with stack(folder, workers=workers) as running:
        plan = replace(planned(running, folder, agents=agents), rate=rate)
        told = folder / "plan.json"
        plan.write(told)
        held: dict[str, list[Sample]] = {name: [] for name in running.processes}
        connections: list[int] = []
        since = time.monotonic()
        with sending(running, plan, told, seconds=minutes * 60) as sent:
            while sent.poll() is None:
                for name, one in running.processes.items():
                    held[name].append(_sample(one.pid, at_s=time.monotonic() - since))
                connections.append(_connections(running))
                with suppress(psutil.TimeoutExpired):
                    psutil.Process(sent.pid).wait(_EVERY_S)
        print("\n".join(_answered(Path(plan.report), seconds=minutes * 60)))
        for name, samples in held.items():
            print("\n".join(_grown(name, samples[int(len(samples) * _WARM) :])))
        steady = connections[int(len(connections) * _WARM) :]
        print(f"connections to Postgres {min(steady)} to {max(steady)}, at the end {steady[-1]}")


def _sample(pid: int, *, at_s: float) -> Sample:
    """Look at a process and all that it started."""
    resident, threads, files = 0, 0, 0
    first = psutil.Process(pid)
    for one in (first, *first.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            resident += one.memory_info().rss
            threads += one.num_threads()
            files += one.num_fds()
    return Sample(at_s=at_s, resident_mb=resident / 1e6, threads=threads, files=files)


def _connections(running: Stack) -> int:
    with closing(psycopg.connect(running.postgres)) as connection:
        [(count,)] = connection.execute(_CONNECTIONS).fetchall()
        return count


def _answered(report: Path, *, seconds: float) -> list[str]:
    told = json.loads(report.read_text("utf-8"))
    return [
        f"{name:<9} {one['count'] / seconds:.1f}/s  failed {one['failures']}"
        f"  p50 {one['p50_ms']:.0f}  p95 {one['p95_ms']:.0f}  p99 {one['p99_ms']:.0f} ms"
        for name, one in told["calls"].items()
    ] + [f"  ! {error}" for error in told["errors"][:5]]


def _grown(name: str, samples: Sequence[Sample]) -> list[str]:
    """Tell what each figure of a part does in a minute."""
    figures: dict[str, Callable[[Sample], float]] = {
        "MB resident": lambda one: one.resident_mb,
        "threads": lambda one: one.threads,
        "open files": lambda one: one.files,
    }
    minutes = [one.at_s / 60 for one in samples]
    return [
        _slope(f"{name} {what}", minutes, [of(one) for one in samples])
        for what, of in figures.items()
    ]


def _slope(name: str, minutes: Sequence[float], values: Sequence[float]) -> str:
    found: Any = theilslopes(values, minutes)
    slope, low, high = found.slope, found.low_slope, found.high_slope
    return (
        f"{name:<20} {values[0]:7.0f} to {values[-1]:7.0f} (most {max(values):.0f})"
        f"   {slope:+.2f} a minute, 95% within {low:+.2f} to {high:+.2f}"
    )
