"""The worker of a server of one client, a thread of its process."""

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from commonbrain.client import Brain
from commonbrain.jobs.worker import EmbeddedWorker, run_maintenance_slice
from commonbrain.model.jobs import QueueMessage
from commonbrain.runtime.stores import LocalQueue
from commonbrain.testing.builders import a_brain
from tests.processes import TIMEOUT_S


class Watched(LocalQueue):
    """Tells when whoever took a ticket asks for the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.is_worked_off = Event()
        self._given: QueueMessage | None = None

    def take(self) -> QueueMessage | None:
        if self._given is not None:
            self.is_worked_off.set()
        self._given = super().take()
        return self._given


@pytest.mark.parametrize("works", [True, False])
def test_server_runs_jobs_only_with_an_embedded_worker(path: Path, *, works: bool) -> None:
    queue = Watched()
    with a_brain(path) as opened:
        services = replace(opened.services, queue=queue, has_embedded_worker=works)
        brain = Brain(services, opened.caller)
        worker = EmbeddedWorker(services, start_delay_s=0)
        worker.start()
        job = brain.jobs.run("reword")
        if works:
            assert queue.is_worked_off.wait(TIMEOUT_S)
        worker.close()

        assert brain.jobs.show(job.id).state == ("done" if works else "queued")


def test_embedded_worker_ends_with_its_server(path: Path) -> None:
    with a_brain(path) as opened:
        services = replace(opened.services, has_embedded_worker=True)
        worker = EmbeddedWorker(services)
        worker.start()
        worker.close()
        job = Brain(services, opened.caller).jobs.run("reword")

        assert opened.jobs.show(job.id).state == "queued"


@pytest.mark.requirement("CL-07", "JB-09")
@pytest.mark.parametrize("works", [True, False])
def test_due_maintenance_runs_after_a_session_only_with_an_embedded_worker(
    path: Path, *, works: bool
) -> None:
    with a_brain(path) as opened:
        services = replace(opened.services, has_embedded_worker=works)
        for _ in range(2):
            run_maintenance_slice(services, seconds=TIMEOUT_S)
        jobs = opened.jobs(kind="maintain").jobs
        assert [str(one.state) for one in jobs] == (["done"] if works else [])
        # What was not done stays due: a slice of no time does nothing.
        run_maintenance_slice(services, seconds=0)
