"""`python -m benchmarks load faults`: what breaks under load, and what is lost by it: nothing."""

# pyright: reportUnknownMemberType=false
# The client of Redis tells half of its types.
from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import redis

from benchmarks.load.running import Folder, load, planned, postmaster, sending
from benchmarks.load.stack import Stack, again, stack
from commonbrain.domain import ids

_APART_S: Final = 30
_LOST: Final = (
    "SELECT count(*) FROM unnest(%s::bigint[]) AS told (id) "
    "WHERE NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = told.id)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """What was broken, from when on."""

    name: str
    at: float


@load.command()
def faults(folder: Folder, rate: float = 20, agents: int = 300, workers: int = 2) -> None:
    """Break one part after the other under load; count what failed, for how long, what is lost."""
    with stack(folder, workers=workers) as running:
        deeds: dict[str, Callable[[], None]] = {
            "nothing": lambda: None,
            "one of the API's processes is killed": lambda: _kill_a_child(running),
            "the worker is killed": lambda: again(running, "worker"),
            "Redis is flushed": lambda: _flush(running),
            "Redis is frozen for 30 s": lambda: _signal_redis(folder, signal.SIGSTOP),
            "Redis goes on": lambda: _signal_redis(folder, signal.SIGCONT),
            "Postgres crashes and recovers": lambda: _crash(folder),
            "nothing any more": lambda: None,
        }
        plan = replace(planned(running, folder, agents=agents), rate=rate)
        told = folder / "plan.json"
        plan.write(told)
        seconds = _APART_S * (len(deeds) + 1)
        broken: list[Broken] = []
        with sending(running, plan, told, seconds=seconds) as sent:
            for name, deed in deeds.items():
                broken.append(Broken(name=name, at=time.time()))
                deed()
                _watch(sent, _APART_S)
            sent.wait()
        lines = [json.loads(line) for line in Path(plan.ledger).read_text("utf-8").splitlines()]
        _tell(broken, lines)
        stored = [ids.parse(ids.MEMORY, id_) for line in lines for id_ in line["ids"]]
        with closing(psycopg.connect(running.postgres)) as connection:
            [(lost,)] = connection.execute(_LOST, [stored]).fetchall()
        print(f"{len(stored)} memories acknowledged, {lost} of them lost")


def _tell(broken: list[Broken], lines: list[dict[str, Any]]) -> None:
    ends = [*(one.at for one in broken[1:]), float("inf")]
    for one, end in zip(broken, ends, strict=True):
        here = [line for line in lines if one.at <= line["at"] < end]
        failed = [line for line in here if line["status"] != 200]  # noqa: PLR2004 HTTP's OK
        kinds = {line["status"] for line in failed}
        last = max((line["at"] - one.at for line in failed), default=0.0)
        print(
            f"{one.name:<38} {len(here):5} answers, {len(failed):4} failed {sorted(kinds) or ''}"
            f" until {last:.1f} s after"
        )
    reads = [line for line in lines if line["call"] == "recall"]
    answered = sum(line["status"] == 200 for line in reads)  # noqa: PLR2004 HTTP's OK
    print(f"recall answered {answered} of {len(reads)}: {answered / max(len(reads), 1):.2%}")


def _kill_a_child(running: Stack) -> None:
    """Kill one of the processes that answer; whoever watches over them starts another."""
    doors = psutil.Process(running.processes["doors"].pid)
    serving = [one for one in doors.children() if "spawn_main" in " ".join(one.cmdline())]
    serving[0].kill()


def _flush(running: Stack) -> None:
    with redis.Redis.from_url(running.environment["COMMONBRAIN_REDIS_URL"]) as queue:
        queue.flushall()


def _signal_redis(folder: Path, what: signal.Signals) -> None:
    """Stop Redis in its tracks, so that callers wait for what does not come; or let it go on."""
    for one in psutil.process_iter(["cmdline"]):
        is_redis = "valkey-server" in " ".join(one.info["cmdline"] or [])
        if is_redis and str(folder) in one.cwd():
            one.send_signal(what)


def _watch(load_: subprocess.Popen[bytes], seconds: float) -> None:
    """Let the load go on for so long."""
    with suppress(subprocess.TimeoutExpired):
        load_.wait(seconds)


def _crash(folder: Path) -> None:
    """Kill a backend: Postgres ends every connection, recovers from its log and goes on."""
    first = psutil.Process(postmaster(folder))
    backends = [one for one in first.children() if "idle" in " ".join(one.cmdline())]
    os.kill(backends[0].pid, signal.SIGKILL)
