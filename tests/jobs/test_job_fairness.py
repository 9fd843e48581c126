"""Jobs of several tenants: none of them waits for the end of another's long job."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from commonbrain.client import Brain
from commonbrain.jobs.worker import JobEvent, Worker
from commonbrain.model import ids
from commonbrain.model.jobs import Job, QueueMessage
from commonbrain.model.limits import JOB_SLICE_S
from commonbrain.model.scope import LOCAL_TENANT, Caller
from commonbrain.testing.builders import FakeClock, WordHashEmbedder, a_brain
from tests.tenant_rows import add_tenant
from tests.working import a_worker

BATCHES = 3
"""A time slice ends after two."""


class Slow(WordHashEmbedder):
    """Takes most of a time slice for each batch of an import."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock
        self.batches = 0

    def passages(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 as the stand-in has it
        if len(texts) > 1:
            self.batches += 1
            self.clock.move(timedelta(seconds=JOB_SLICE_S * 0.75))
        return super().passages(texts)


@pytest.fixture
def embedder(clock: FakeClock) -> Slow:
    return Slow(clock)


@pytest.fixture
def brain(path: Path, clock: FakeClock, embedder: Slow) -> Brain:
    brain = a_brain(path, clock=clock, embedder=embedder)
    add_tenant(brain, "other")
    return brain


@pytest.fixture
def other(brain: Brain) -> Brain:
    return Brain(brain.services, Caller(tenant="other", agent="zoe"))


def an_import(
    brain: Brain,
    folder: Path,
    *,
    name: str = "notes",
    dry_run: bool = False,
    batches: int = BATCHES,
) -> str:
    """Ask for the import of a file that takes several time slices, unless it is of one batch."""
    source = folder / f"{name}.md"
    count = 64 * batches
    source.write_text(
        "\n".join(f"## {name} {n}\n\nOven {n} of {name} is hot.\n" for n in range(count))
    )
    return brain.jobs.import_("markdown", source, dry_run=dry_run).id


class Order:
    """The order in which jobs begin, yield and end."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def __call__(self, what: JobEvent, job: Job) -> None:
        if what is not JobEvent.MOVED:
            self.events.append((str(what), job.caller.tenant))


def test_long_job_yields_to_another_tenants_job_and_continues_after_it(
    brain: Brain, other: Brain, tmp_path: Path
) -> None:
    long = an_import(brain, tmp_path)
    order = Order()

    def ask(what: JobEvent, job: Job) -> None:
        if what is JobEvent.MOVED and not other.jobs().jobs:
            other.jobs.run("maintain")
        order(what, job)

    assert a_worker(brain, on_event=ask).sweep() == 3

    assert order.events == [
        ("taken", LOCAL_TENANT),
        ("given_back", LOCAL_TENANT),
        ("taken", "other"),
        ("done", "other"),
        ("taken", LOCAL_TENANT),
        ("done", LOCAL_TENANT),
    ]
    done = brain.jobs.show(long)
    assert (done.state, done.attempts) == ("done", 1)
    assert done.result is not None
    assert done.result["stored"] == brain.status().memories == 64 * BATCHES


def test_import_that_yields_begins_no_further_batch(
    brain: Brain, other: Brain, embedder: Slow, tmp_path: Path
) -> None:
    an_import(brain, tmp_path)
    other.jobs.run("maintain")
    embedded = list[int]()

    def count(what: JobEvent, _: Job) -> None:
        if what is JobEvent.GIVEN_BACK:
            embedded.append(embedder.batches - brain.status().memories // 64)

    a_worker(brain, on_event=count).sweep()

    assert embedded == [1]


def test_long_jobs_of_two_tenants_take_turns_and_both_end(
    brain: Brain, other: Brain, tmp_path: Path
) -> None:
    an_import(brain, tmp_path)
    an_import(other, tmp_path, name="pots")
    order = Order()

    a_worker(brain, on_event=order).sweep()

    taken = [tenant for event, tenant in order.events if event == "taken"]
    assert taken[:4] == [LOCAL_TENANT, "other", LOCAL_TENANT, "other"]
    assert {one.memories for one in (brain.status(), other.status())} == {64 * BATCHES}


def test_long_job_does_not_yield_while_no_other_tenant_waits(
    brain: Brain, other: Brain, tmp_path: Path
) -> None:
    an_import(brain, tmp_path)
    an_import(brain, tmp_path, name="pots")
    order = Order()

    a_worker(brain, on_event=order).sweep()

    assert [what for what, _ in order.events] == ["taken", "done", "taken", "done"]
    assert other.jobs().jobs == ()


def test_job_that_cannot_resume_does_not_yield(brain: Brain, other: Brain, tmp_path: Path) -> None:
    an_import(brain, tmp_path, dry_run=True)
    other.jobs.run("maintain")
    order = Order()

    a_worker(brain, on_event=order).sweep()

    assert JobEvent.GIVEN_BACK not in {what for what, _ in order.events}


def test_job_whose_caller_waits_does_not_yield(brain: Brain, other: Brain, tmp_path: Path) -> None:
    long = an_import(brain, tmp_path)
    other.jobs.run("maintain")

    ticket = QueueMessage(tenant=LOCAL_TENANT, job=ids.parse(ids.JOB, long))
    assert a_worker(brain).handle_ticket(ticket)

    assert brain.jobs.show(long).state == "done"


def test_many_jobs_of_one_tenant_do_not_delay_the_first_job_of_another(
    brain: Brain, other: Brain, tmp_path: Path
) -> None:
    for number in range(2):
        an_import(brain, tmp_path, name=f"notes{number}")
    order = Order()

    def ask(what: JobEvent, job: Job) -> None:
        if what is JobEvent.DONE and not other.jobs().jobs:
            # The other tenant had nothing to do when this round began.
            other.jobs.run("maintain")
        order(what, job)

    a_worker(brain, on_event=ask).sweep()

    taken = [tenant for what, tenant in order.events if what == "taken"]
    assert taken[:2] == [LOCAL_TENANT, "other"]


def test_worker_gives_a_tenant_no_more_threads_than_it_may_use(
    brain: Brain, other: Brain, tmp_path: Path
) -> None:
    for name in ("notes", "pots"):
        an_import(brain, tmp_path, name=name, batches=1)
    at_work = Barrier(2)
    worked = list[str]()

    def meet(what: JobEvent, job: Job) -> None:
        if what is JobEvent.TAKEN:
            worked.append(job.caller.tenant)
            if len(worked) == 1:
                at_work.wait(60)
                at_work.wait(60)

    worker = Worker(services=brain.services, name="w", on_event=meet)
    first = Thread(target=worker.sweep)
    first.start()
    at_work.wait(60)
    assert worker.sweep() == 0, "the other job is of the tenant that has a thread"
    other.jobs.run("maintain")
    assert worker.sweep() == 1
    assert worked == [LOCAL_TENANT, "other"]
    at_work.wait(60)
    first.join(60)
    assert worked == [LOCAL_TENANT, "other", LOCAL_TENANT]
