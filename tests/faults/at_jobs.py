"""What the processes of `test_jobs` do: they work, and say what becomes of each job."""

from datetime import timedelta
from pathlib import Path

from commonbrain.jobs.worker import JobEvent
from commonbrain.model import ids
from commonbrain.model.jobs import Job
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain
from tests.faults.workers import DONE, READY, Line
from tests.flows.moving import moving
from tests.flows.working import a_worker

DAYS = 91
"""After noon: all that was written has settled."""


def work(path: Path, number: int, _times: int, line: Line) -> None:
    """Work off all that is due, saying what happens to which job."""

    def tell(what: JobEvent, job: Job) -> None:
        line.send(f"{what} {ids.show(ids.JOB, job.id)}")

    with a_brain(path, agent=f"worker-{number}", random_source=SeededRandom(number)) as brain:
        line.send(READY)
        line.recv()
        a_worker(brain, tell=tell, name=f"w{number}").sweep()
    line.send(DONE)


def work_until(path: Path, _number: int, times: int, line: Line) -> None:
    """Work until the `times`-th thing happens, then say so and wait to be killed."""
    happened = 0

    def tell(what: JobEvent, _job: Job) -> None:
        nonlocal happened
        happened += 1
        if happened == times:
            line.send(str(what))
            line.recv()

    with a_brain(path, agent="victim") as brain:
        line.send(READY)
        line.recv()
        a_worker(brain, tell=tell, name="victim").sweep()
    line.send(DONE)


def work_until_late(path: Path, days: int, times: int, line: Line) -> None:
    """Work so many days after noon until the `times`-th thing happens, then wait to be killed."""
    happened = 0

    def tell(what: JobEvent, job: Job) -> None:
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
        a_worker(brain, tell=tell, name="victim").sweep()
    line.send(DONE)
