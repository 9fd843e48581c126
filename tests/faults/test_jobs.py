"""Workers that are killed, and many at once: each job ends once, with the same result."""

from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.model.limits import JOB_LEASE_S
from commonbrain.testing.builders import FakeClock, a_brain
from tests.faults.at_jobs import work, work_until
from tests.faults.test_processes import start_together
from tests.faults.workers import DONE, worker
from tests.flows.working import a_worker, fall_behind

WORKERS = 4
JOBS = 24
BEHIND = 130
"""Memories without vectors: three batches of a job that embeds them."""


@pytest.mark.parametrize(("times", "what"), [(1, "taken"), (2, "moved"), (3, "moved"), (4, "done")])
def test_a_job_whose_worker_is_killed_is_ended_by_another_with_the_same_result(
    path: Path, clock: FakeClock, times: int, what: str
) -> None:
    fall_behind(path, count=BEHIND)
    with a_brain(path, clock=clock) as brain:
        # As the victim's own clock stands still, what it is to do is made due.
        job = brain.jobs().jobs[0]
        brain.jobs.cancel(job.id)
        brain.jobs.retry(job.id)
    with worker(work_until, path, number=1, times=times) as victim:
        start_together([victim])
        assert victim.hear() == what
        victim.process.kill()
        victim.process.join()

    with a_brain(path, clock=clock) as brain:
        assert a_worker(brain).sweep() == 0
        clock.move(timedelta(seconds=JOB_LEASE_S))
        assert a_worker(brain).sweep() == (0 if what == "done" else 1)
        done = brain.jobs.show(job.id)
        assert (done.state, done.result) == ("done", {"embedded": BEHIND})
        assert done.attempts == (1 if what == "done" else 2)
        assert brain.status().embedding_pending == 0
        assert brain.doctor().is_sound


def test_of_several_workers_one_has_each_job(path: Path) -> None:
    with a_brain(path) as brain:
        asked = {brain.jobs.run("atomize", {"project": f"p{n}"}).id for n in range(JOBS)}
    with ExitStack() as stack:
        workers = [
            stack.enter_context(worker(work, path, number=number, times=0))
            for number in range(WORKERS)
        ]
        start_together(workers)
        said = [one.hear_out() for one in workers]

    assert [words[-1] for words in said] == [DONE] * WORKERS
    happened = Counter(word for words in said for word in words[:-1])
    assert happened == Counter(f"{what} {id_}" for what in ("taken", "done") for id_ in asked)
    with a_brain(path) as brain:
        assert brain.status().jobs == {"done": JOBS}
        assert {one.attempts for one in brain.jobs(limit=100).jobs} == {1}
