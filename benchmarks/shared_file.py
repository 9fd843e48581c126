"""One file under many processes: writers killed at random moments, and a crowd at work."""

import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import typer

from benchmarks.workers import opened, recall_for, remember_for, remember_until_killed
from commonbrain.client import Brain
from commonbrain.model.errors import NotFoundError
from tests.faults.workers import READY, Worker, worker

shared_file = typer.Typer()


@shared_file.command()
def faults(kills: int = 200, *, alive_ms: int = 1500, seed: int = 1) -> None:
    """Kill writers at random moments, and check that nothing acknowledged is lost."""
    random_source = random.Random(seed)
    acknowledged: list[str] = []
    without_reply = 0
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "brain.db"
        with worker(remember_until_killed, path, number=kills, times=10**9) as bystander:
            let_go([bystander])
            acknowledged.append(bystander.hear() or "")
            for number in range(kills):
                with worker(remember_until_killed, path, number=number, times=10**9) as victim:
                    let_go([victim])
                    # Waits for its end, which does not come: so it is killed anywhere in its work.
                    victim.process.join(random_source.uniform(0, alive_ms) / 1000)
                    victim.process.kill()
                    ids = victim.hear_out()
                    acknowledged += ids
                    without_reply += not ids
            bystander.process.kill()
            acknowledged += bystander.hear_out()
        seconds = time.perf_counter() - started
        with opened(path, "judge") as brain:
            print(f"{kills} kills in {seconds:.0f} s, {without_reply} before the first reply")
            _judge(brain, acknowledged)


@shared_file.command()
def contention(writers: int = 8, readers: int = 8, seconds: int = 60) -> None:
    """Count errors, losses and waits of processes that write and read one file."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "brain.db"
        opened(path, "maker").close()
        writing = [
            stack.enter_context(worker(remember_for, path, number=number, times=seconds))
            for number in range(writers)
        ]
        reading = [
            stack.enter_context(worker(recall_for, path, number=number, times=seconds))
            for number in range(readers)
        ]
        let_go([*writing, *reading])
        for one in (*writing, *reading):
            one.process.join(seconds + 1)
        wrote = Tally.of(writing)
        read = Tally.of(reading)
        print(f"{writers} writers and {readers} readers for {seconds} s")
        print(f"{'writes':<10}{wrote.row(seconds)}")
        print(f"{'reads':<10}{read.row(seconds)}")
        print(
            f"errors: {dict(wrote.errors + read.errors) or 'none'}; traces dropped {read.dropped}"
        )
        with opened(path, "judge") as brain:
            _judge(brain, wrote.ids)


@dataclass(slots=True)
class Tally:
    """The results of several processes."""

    ids: list[str] = field(default_factory=list[str])
    ms: list[float] = field(default_factory=list[float])
    errors: Counter[str] = field(default_factory=Counter[str])
    dropped: int = 0

    @classmethod
    def of(cls, workers: Sequence[Worker]) -> "Tally":
        """Hear all of them out."""
        tally = cls()
        for one in workers:
            for line in one.hear_out():
                given = json.loads(line)
                tally.ids += given["ids"]
                tally.ms += given["ms"]
                tally.errors.update(given["errors"])
                tally.dropped += given["dropped"]
        return tally

    def row(self, seconds: int) -> str:
        """Return the times as one line of the table."""
        p95 = quantiles(self.ms, n=20)[-1]
        return (
            f"{len(self.ms):>8,} ({len(self.ms) / seconds:,.0f}/s)   p50 {median(self.ms):8.1f} ms"
            f"   p95 {p95:8.1f} ms   longest {max(self.ms):8.1f} ms"
        )


def let_go(workers: Sequence[Worker]) -> None:
    """Let processes begin together."""
    for one in workers:
        if one.hear() != READY:
            raise RuntimeError("A worker did not start.")
    for one in workers:
        one.line.send("go")


def _judge(brain: Brain, acknowledged: Sequence[str]) -> None:
    """Return whether all that was acknowledged is there once, and the store sound."""
    lost = sum(not _is_there(brain, id_) for id_ in acknowledged)
    duplicates = len(acknowledged) - len(set(acknowledged))
    diagnosis = brain.doctor()
    unsound = [finding.check for finding in diagnosis.findings if not finding.is_sound]
    print(f"acknowledged {len(acknowledged):,}   lost {lost}   duplicate ids {duplicates}")
    print(f"memories {brain.status().memories:,}   doctor {', '.join(unsound) or 'sound'}")


def _is_there(brain: Brain, id_: str) -> bool:
    try:
        return brain.get(id_).state == "active"
    except NotFoundError:
        return False
