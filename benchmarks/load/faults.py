"""`python -m benchmarks load faults`: what breaks under load, and what is lost by it: nothing."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from benchmarks.load.acknowledgements import count_lost, count_repeated, count_without_vector
from benchmarks.load.disks import NotHere
from benchmarks.load.fault_report import Broken, table
from benchmarks.load.fault_rounds import (
    in_embedder,
    in_processes,
    on_disks,
    on_failover,
    on_slow_disk,
)
from benchmarks.load.runs import Folder, load, planned, sending
from benchmarks.load.stack import Stack

_APART_S: Final = 30
_DEADLINE_MS: Final = 1000
"""What recalls give while the embedder hangs."""
_RETRIES: Final = 5
"""How often an agent sends a call again, as the server says; shown apart from first answers."""
Round = Callable[..., "Generator[tuple[Stack, Mapping[str, Callable[[], None]]]]"]
_ROUNDS: Final = {
    "processes": contextmanager(in_processes),
    "embedder": contextmanager(in_embedder),
    "disks": contextmanager(on_disks),
    "slow-disk": contextmanager(on_slow_disk),
    "failover": contextmanager(on_failover),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How much is asked while things break."""

    rate: float
    agents: int
    workers: int
    apart_s: int


@load.command()
def faults(
    folder: Folder,
    rate: float = 20,
    agents: int = 300,
    workers: int = 2,
    apart_s: Annotated[
        int, typer.Option(help="The seconds from one fault to the next.")
    ] = _APART_S,
    only: Annotated[
        list[str] | None, typer.Option(help=f"Run only these of {', '.join(_ROUNDS)}.")
    ] = None,
) -> None:
    """Break one part after the other under load, and count failures and losses.

    Processes are broken, and the disk is slow, over the store itself. For a hanging embedder, for a
    lost primary and for full disks it is copied: to a folder next to it, and to disks in memory
    that root alone may mount.
    """
    pace = Pace(rate=rate, agents=agents, workers=workers, apart_s=apart_s)
    for name in only or _ROUNDS:
        print(f"\n{name}", flush=True)
        try:
            _go_through(name, folder, pace)
        except NotHere as error:
            print(f"skipped: {error}")


def _go_through(name: str, folder: Path, pace: Pace) -> None:
    """Break what belongs together, one after the other, while requests go on."""
    with _ROUNDS[name](folder, workers=pace.workers) as (running, faults):
        plan = replace(
            # Keys are of a copy where there is one; what is written down is not to meet its faults.
            planned(running, running.folder, agents=pace.agents),
            rate=pace.rate,
            report=str(folder / "report.json"),
            ledger=str(folder / "ledger.jsonl"),
            deadline_ms=_DEADLINE_MS if name == "embedder" else None,
            retries=_RETRIES,
        )
        plan_file = folder / "plan.json"
        plan.write(plan_file)
        broken: list[Broken] = []
        seconds = pace.apart_s * (len(faults) + 1)
        with sending(running, plan, plan_file, seconds=seconds) as sent:
            for fault, do in faults.items():
                broken.append(Broken(name=fault, at=time.time()))
                do()
                _watch(sent, pace.apart_s)
            sent.wait()
        lines = [json.loads(line) for line in Path(plan.ledger).read_text("utf-8").splitlines()]
        print("\n".join(table(broken, lines)))
        print(_stored(running, [one for line in lines for one in line["ids"]], plan.mark))


def _stored(running: Stack, acknowledged: list[str], mark: str) -> str:
    """Say what is left of what was acknowledged, once workers have caught up or given up."""
    since = time.monotonic()
    lost = count_lost(running.postgres, acknowledged)
    repeated = count_repeated(running.postgres, mark)
    without_vector = count_without_vector(running.postgres, acknowledged)
    return (
        f"{len(acknowledged)} memories acknowledged, {lost} of them lost, {repeated} doubled, "
        f"{without_vector} without vector {time.monotonic() - since:.0f} s after the end"
    )


def _watch(load_: subprocess.Popen[bytes], seconds: float) -> None:
    """Let the load go on for so long."""
    with suppress(subprocess.TimeoutExpired):
        load_.wait(seconds)
