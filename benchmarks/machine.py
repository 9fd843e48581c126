"""The machine that a benchmark runs on, in one line."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_FLAGS = ("avx2", "avx_vnni", "avx512_vnni")
"""What the speed of an int8 model depends on."""


def describe_machine() -> str:
    """Name the processor, its cores and vector instructions, the load, and Python."""
    processor, flags = _processor()
    known = ", ".join(f"{flag} {'yes' if flag in flags else 'no'}" for flag in _FLAGS)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{processor}, {os.cpu_count()} cores, {known if flags else 'flags unknown'},"
        f" load {load}, Python {platform.python_version()}, {platform.system()}"
    )


def _processor() -> tuple[str, frozenset[str]]:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine(), frozenset()
    fields = dict(reversed([line.split(":", 1) for line in lines if ":" in line]))
    known = {name.strip(): value.strip() for name, value in fields.items()}
    name = known.get("model name", platform.machine())
    return name, frozenset(known.get("flags", "").split())
