"""What a process costs from its start to its end, by the clock and in processor time."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

BRAIN: Final = str(Path(sys.executable).with_name("brain"))
_TIMEOUT_S: Final = 120
"""A slow machine under load needs 10 s for the slowest of these commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one run, or the medians of several."""

    wall_ms: float
    process_ms: float
    output: bytes = b""


def brain_environment(store: Path) -> dict[str, str]:
    """Run the program as an installed one runs: its modules are compiled once."""
    environment = {**os.environ, "COMMONBRAIN_STORE": str(store)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def run(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, given: bytes = b""
) -> Cost:
    """Run a command to its end; the processor time is that of all its processes."""
    before, started = _children_s(), time.perf_counter()
    done = subprocess.run(  # noqa: S603 our own programs
        command, input=given, env=environment, check=True, capture_output=True, timeout=_TIMEOUT_S
    )
    wall = time.perf_counter() - started
    return Cost(wall_ms=wall * 1000, process_ms=(_children_s() - before) * 1000, output=done.stdout)


def medians(action: Callable[[], Cost], times: int) -> Cost:
    """Do something a few times, after once that compiles modules and warms caches."""
    action()
    costs = [action() for _ in range(times)]
    return Cost(
        wall_ms=median(cost.wall_ms for cost in costs),
        process_ms=median(cost.process_ms for cost in costs),
        output=costs[-1].output,
    )


def run_python(code: str) -> Cost:
    """Run a line of Python with this interpreter."""
    return run([sys.executable, "-c", code])


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
