"""Who worked how much meanwhile: processor time and memory of each part of a running server."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one part used since it began: seconds of processor time, and megabytes it holds now."""

    processor_s: float
    resident_mb: float


def uses(parts: Mapping[str, int]) -> dict[str, Use]:
    """Give what each part uses: a process and all that it started."""
    return {name: _use(pid) for name, pid in parts.items()}


def _use(pid: int) -> Use:
    processor, resident = 0.0, 0
    for one in _family(pid):
        with suppress(psutil.NoSuchProcess):
            spent = one.cpu_times()
            processor += spent.user + spent.system
            # What is shared is counted once: Postgres' processes map the same buffers.
            memory = one.memory_full_info()
            resident += memory.uss
    return Use(processor_s=processor, resident_mb=resident / 1e6)


def _family(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    return []
