"""Processes of tests of jobs: they work, and report what happens to each job."""

from datetime import timedelta
from pathlib import Path

from commonbrain.jobs.worker import JobEvent
from commonbrain.model import ids
from commonbrain.model.jobs import Job
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain
from tests.faults.workers import DONE, READY, Line
from tests.moving import moving
from tests.working import a_worker

DAYS = 91
"""After noon: all that was written has settled."""


def work(path: Path, number: int, _times: int, line: Line) -> None:
    """Run all jobs that are due, reporting what happens to each."""

    def report(what: JobEvent, job: Job) -> None:
        line.send(f"{what} {ids.show(ids.JOB, job.id)}")

    with a_brain(path, agent=f"worker-{number}", random_source=SeededRandom(number)) as brain:
        line.send(READY)
        line.recv()
        a_worker(brain, on_event=report, name=f"w{number}").sweep()
    line.send(DONE)


def work_until_late(path: Path, days: int, times: int, line: Line) -> None:
    """Work so many days after noon until the `times`-th event, then wait to be killed."""
    happened = 0

    def report(what: JobEvent, job: Job) -> None:
        nonlocal happened
        happened += 1
        if happened == times:
            line.send(f"{what} {job.kind}")
            line.recv()

    clock = FakeClock()
    clock.move(timedelta(days=days))
    with moving(a_brain(path, clock=clock, random_source=SeededRandom(times))) as brain:
        line.send(READY)
        line.recv()
        a_worker(brain, on_event=report, name="victim").sweep()
    line.send(DONE)
