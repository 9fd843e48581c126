"""The table of a run that things were broken in: what was answered, what not, and for how long.

Times are those of the calls themselves: an agent that was kept waiting asks the next one late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Any, Final

_OK: Final = 200
_FEW: Final = 10
"""With fewer answers no quantile is shown."""
Line = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """What was broken, from when on."""

    name: str
    at: float


def table(broken: Sequence[Broken], lines: Sequence[Line]) -> list[str]:
    """Summarize the calls from each fault until the next."""
    ends = [*(one.at for one in broken[1:]), float("inf")]
    rows: list[str] = []
    for one, end in zip(broken, ends, strict=True):
        here = [line for line in lines if one.at <= line["at"] < end]
        reads = [line for line in here if line["call"] == "recall"]
        writes = [line for line in here if line["call"] != "recall"]
        rows.append(f"{one.name:<40} {_calls('recall', reads)}   {_calls('remember', writes)}")
        rows += _failures(here, since=one.at)
    reads = [line for line in lines if line["call"] == "recall"]
    for name, status in (("answered", "status"), ("answered after retries", "last_status")):
        answered = sum(line[status] == _OK for line in reads)
        share = answered / max(len(reads), 1)
        rows.append(f"recall {name} {answered} of {len(reads)}: {share:.2%}")
    return rows


def _calls(name: str, lines: Sequence[Line]) -> str:
    answered = [line for line in lines if line["status"] == _OK]
    without_vector = sum(line["is_behind"] for line in answered)
    pending = f" ({without_vector} without vector)" if without_vector else ""
    if len(answered) < _FEW:
        return f"{name} {len(answered)}/{len(lines)}{pending}"
    every = quantiles([line["ms"] for line in answered], n=20)
    return f"{name} {len(answered)}/{len(lines)}{pending} p50 {every[9]:.0f} p95 {every[-1]:.0f} ms"


def _failures(lines: Sequence[Line], *, since: float) -> list[str]:
    failed = [line for line in lines if line["status"] != _OK]
    if not failed:
        return []
    kinds = Counter(f"{line['call']} {line['status']} {line['code']}" for line in failed)
    last = max(line["at"] - since for line in failed)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return [f"    failed: {counts}; until {last:.1f} s after"]
