from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.jobs.worker import JobEvent, schedule
from commonbrain.model import ids
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    NotFoundError,
    RejectedError,
)
from commonbrain.model.limits import JOB_GIVEN_BYTES_MAX, JOB_LEASE_S
from commonbrain.model.memory import Draft
from commonbrain.model.scope import LOCAL_TENANT, Role
from commonbrain.testing.builders import FakeClock, a_brain
from tests.working import Breaking, Fragile, a_worker, states


@pytest.fixture
def embedder() -> Fragile:
    return Fragile()


@pytest.fixture
def brain(path: Path, clock: FakeClock, embedder: Fragile) -> Iterator[Brain]:
    with a_brain(path, clock=clock, embedder=embedder) as brain:
        yield brain


def remember_without_vectors(brain: Brain, embedder: Fragile, clock: FakeClock) -> None:
    """Store more than one batch while the embedder is down, then let the job be due."""
    embedder.is_down = True
    brain.remember([Draft(body=f"Kettle number {n} is red.", kind="event") for n in range(100)])
    embedder.is_down = False
    clock.move(timedelta(minutes=1))


def test_text_stored_without_vectors_is_embedded_by_a_job(
    brain: Brain, embedder: Fragile, clock: FakeClock
) -> None:
    embedder.is_down = True
    for number in range(3):
        brain.remember(f"Kettle number {number} is red.", kind="event")

    (job,) = brain.jobs().jobs
    assert (job.kind, job.state) == ("embed", "queued")
    assert brain.status().embedding_pending == 3

    embedder.is_down = False
    clock.move(timedelta(minutes=1))
    assert a_worker(brain).sweep() == 1
    assert brain.status().embedding_pending == 0
    assert brain.jobs.show(job.id).result == {"embedded": 3}


def test_no_embedding_job_is_created_while_the_embedder_answers(brain: Brain) -> None:
    brain.remember("The kettle is red.", kind="fact")

    assert brain.jobs().jobs == ()


@pytest.mark.requirement("JB-10")
def test_failing_job_is_tried_three_times_then_is_a_dead_letter(
    brain: Brain, embedder: Fragile, clock: FakeClock
) -> None:
    embedder.is_down = True
    brain.remember("The kettle is red.", kind="fact")
    events: list[JobEvent] = []
    worker = a_worker(brain, on_event=lambda what, _job: events.append(what))

    for wait in (timedelta(seconds=30), timedelta(seconds=30), timedelta(minutes=2)):
        assert worker.sweep() == 0
        clock.move(wait)
        assert worker.sweep() == 1
    clock.move(timedelta(days=1))
    assert worker.sweep() == 0

    (dead,) = brain.jobs(state="dead").jobs
    assert (dead.attempts, dead.error) == (3, "embedder_down")
    assert events == [
        JobEvent.TAKEN, JobEvent.FAILED, JobEvent.TAKEN, JobEvent.FAILED,
        JobEvent.TAKEN, JobEvent.DEAD,
    ]  # fmt: skip
    embedder.is_down = False
    assert brain.jobs.retry(dead.id).state == "queued"
    assert worker.sweep() == 1
    assert states(brain) == ["done"]
    assert brain.jobs.show(dead.id).error is None


def test_dead_letter_is_tried_again_when_its_job_is_requested_again(
    brain: Brain, embedder: Fragile, clock: FakeClock
) -> None:
    embedder.is_down = True
    brain.remember("The kettle is red.", kind="fact")
    for _ in range(3):
        clock.move(timedelta(hours=1))
        a_worker(brain).sweep()
    assert states(brain) == ["dead"]

    brain.remember("The pot is blue.", kind="fact")

    (again,) = brain.jobs().jobs
    assert (again.state, again.attempts) == ("queued", 0)


def test_job_is_taken_over_by_another_worker_when_its_lease_ends(
    brain: Brain, clock: FakeClock
) -> None:
    job = brain.jobs.run("maintain")
    id_ = ids.parse(ids.JOB, job.id)
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        queued = tx.jobs.get(id_)
        assert queued is not None
        until = clock.now() + timedelta(seconds=JOB_LEASE_S)
        tx.jobs.move(queued, queued.claimed("gone", until=until, now=clock.now()))

    assert a_worker(brain).sweep() == 0
    clock.move(timedelta(seconds=JOB_LEASE_S))
    assert a_worker(brain).sweep() == 1
    done = brain.jobs.show(job.id)
    assert (done.state, done.attempts) == ("done", 2)


def test_job_is_a_dead_letter_after_all_its_workers_died(brain: Brain, clock: FakeClock) -> None:
    job = brain.jobs.run("maintain")
    for _ in range(3):
        assert brain.jobs.show(job.id).error is None
        with brain.services.store.begin(LOCAL_TENANT) as tx:
            queued = tx.jobs.get(ids.parse(ids.JOB, job.id))
            assert queued is not None
            tx.jobs.move(queued, queued.claimed("gone", until=clock.now(), now=clock.now()))

    a_worker(brain, kinds=["maintain"]).sweep()
    assert brain.jobs.show(job.id).error == "worker_lost"


def test_stopping_worker_returns_its_job_which_continues_later(
    brain: Brain, embedder: Fragile, clock: FakeClock
) -> None:
    remember_without_vectors(brain, embedder, clock)
    events: list[JobEvent] = []

    def hear(what: JobEvent, _job: object) -> None:
        events.append(what)
        if what is JobEvent.MOVED:
            worker.stop.set()

    worker = a_worker(brain, on_event=hear)
    worker.sweep()

    assert events == [JobEvent.TAKEN, JobEvent.MOVED, JobEvent.GIVEN_BACK]
    (job,) = brain.jobs().jobs
    assert (job.state, job.attempts) == ("queued", 0)
    assert 0 < job.progress < 1
    a_worker(brain).sweep()
    assert brain.jobs.show(job.id).result == {"embedded": 100}


def test_cancelled_job_writes_nothing_more(
    brain: Brain, embedder: Fragile, clock: FakeClock
) -> None:
    remember_without_vectors(brain, embedder, clock)
    events: list[JobEvent] = []

    def hear(what: JobEvent, _job: object) -> None:
        events.append(what)
        if what is JobEvent.MOVED:
            brain.jobs.cancel(brain.jobs().jobs[0].id)

    a_worker(brain, on_event=hear).sweep()

    assert events == [JobEvent.TAKEN, JobEvent.MOVED, JobEvent.LOST]
    assert states(brain) == ["cancelled"]
    assert brain.status().embedding_pending == 36


def test_queue_ticket_runs_its_job_only_once(brain: Brain) -> None:
    job = brain.jobs.run("maintain")
    ticket = brain.services.queue.take()
    assert ticket is not None

    assert a_worker(brain).handle_ticket(ticket)
    assert not a_worker(brain).handle_ticket(ticket)
    assert brain.jobs.show(job.id).attempts == 1


def test_worker_runs_only_jobs_of_its_kinds(brain: Brain) -> None:
    brain.jobs.run("maintain")

    assert a_worker(brain, kinds=frozenset({"embed"})).sweep() == 0
    assert a_worker(brain, kinds=frozenset({"embed", "maintain"})).sweep() == 1


def test_periodic_job_schedules_its_next_run(brain: Brain, clock: FakeClock) -> None:
    worker = a_worker(brain)
    for _ in range(3):
        worker.schedule()
    assert [one.kind for one in brain.jobs().jobs] == ["maintain"]
    assert worker.sweep() == 1
    worker.schedule()
    assert states(brain) == ["done"]

    clock.move(timedelta(days=1))
    worker.schedule()
    assert states(brain) == ["queued", "done"]


def test_job_that_another_worker_has_just_done_is_not_scheduled_again(path: Path) -> None:
    clock = _Interrupted()
    with a_brain(path, clock=clock) as brain:
        other = a_worker(brain, name="other")

        def meanwhile() -> None:
            other.schedule()
            assert other.sweep() == 1

        clock.interrupt_with(meanwhile)
        # It finds maintenance due, and then the other one does it.
        assert schedule(brain.services, LOCAL_TENANT, last_idle={}) == 0

        assert [(one.kind, one.state) for one in brain.jobs().jobs] == [("maintain", "done")]


class _Interrupted(FakeClock):
    """A clock whose next reader is held up while something else is done."""

    _meanwhile: Callable[[], None] | None = None

    def interrupt_with(self, meanwhile: Callable[[], None]) -> None:
        self._meanwhile = meanwhile

    def now(self) -> datetime:
        read = super().now()
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return read


def test_equal_work_requested_twice_is_one_job(brain: Brain) -> None:
    first = brain.jobs.run("atomize", {"project": "tea"})

    assert brain.jobs.run("atomize", {"project": "tea"}).id == first.id
    assert brain.jobs.run("atomize", {"project": "bread"}).id != first.id
    a_worker(brain).sweep()
    assert brain.jobs.run("atomize", {"project": "tea"}).id != first.id


def test_job_with_invalid_kind_or_arguments_is_refused(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for kind, arguments in [
        ("fly", {}),
        ("embed", {"x": 1}),
        ("atomize", {"project": 3}),
        ("atomize", {"kinds": "fact"}),
        ("atomize", {"project": JOB_GIVEN_BYTES_MAX * "x"}),
    ]:
        with subtests.test(kind=kind, arguments=arguments):
            with pytest.raises(InvalidInputError):
                brain.jobs.run(kind, arguments)

            assert brain.jobs().jobs == ()


def test_writer_runs_only_unprivileged_kinds_of_jobs_and_sees_only_its_own(brain: Brain) -> None:
    bo, cy = (
        Brain(brain.services, replace(brain.caller, agent=agent, role=Role.WRITER))
        for agent in ("bo", "cy")
    )
    job = bo.jobs.run("embed")

    with pytest.raises(RejectedError, match="takes the role admin"):
        bo.jobs.run("maintain")
    assert cy.jobs().jobs == ()
    for call in (cy.jobs.show, cy.jobs.cancel, cy.jobs.retry):
        with pytest.raises(NotFoundError):
            call(job.id)
    assert [one.id for one in brain.jobs().jobs] == [job.id]


def test_only_active_jobs_are_cancelled_and_only_failed_ones_retried(
    brain: Brain,
) -> None:
    job = brain.jobs.run("maintain")
    with pytest.raises(RejectedError, match="cannot be retried"):
        brain.jobs.retry(job.id)
    assert brain.jobs.cancel(job.id).state == "cancelled"
    assert brain.jobs.cancel(job.id).state == "cancelled"
    assert brain.jobs.retry(job.id).state == "queued"
    a_worker(brain).sweep()
    for call in (brain.jobs.cancel, brain.jobs.retry):
        with pytest.raises(RejectedError) as refusal:
            call(job.id)
        assert refusal.value.code == "job_over"


def test_retry_of_a_job_queued_again_since_returns_the_queued_job(brain: Brain) -> None:
    first = brain.jobs.run("maintain")
    brain.jobs.cancel(first.id)
    second = brain.jobs.run("maintain")

    assert brain.jobs.retry(first.id).id == second.id
    assert sorted(states(brain)) == ["cancelled", "queued"]


def test_jobs_are_listed_page_by_page(brain: Brain) -> None:
    made = [brain.jobs.run("atomize", {"project": f"p{n}"}).id for n in range(5)]

    page = brain.jobs(limit=3)
    rest = brain.jobs(limit=3, cursor=page.next)

    assert (page.more, rest.more, rest.next) == (2, 0, None)
    assert [one.id for one in (*page.jobs, *rest.jobs)] == sorted(made, reverse=True)
    for arguments in (
        {"limit": 0},
        {"state": "odd"},
        {"cursor": "mem_1"},
        {"cursor": page.next, "kind": "embed"},
    ):
        with pytest.raises(CommonbrainError):
            brain.jobs(**arguments)  # type: ignore[arg-type]


def test_tenant_admin_cannot_run_jobs_that_concern_all_tenants(brain: Brain) -> None:
    other = Brain(brain.services, replace(brain.caller, tenant="acme"))

    with pytest.raises(RejectedError) as refusal:
        other.jobs.run("reword")
    assert refusal.value.code == "scope_denied"


def test_failure_inside_a_job_is_retried_and_reported_without_content(
    brain: Brain, clock: FakeClock
) -> None:
    brain.remember("The kettle boiled dry because nobody was there.", kind="event")
    broken = Brain(replace(brain.services, extractor=Breaking), brain.caller)
    job = brain.jobs.run("atomize")
    for _ in range(3):
        a_worker(broken).sweep()
        clock.move(timedelta(hours=1))

    dead = brain.jobs.show(job.id)
    assert (dead.state, dead.error, dead.reason) == ("dead", "internal", "LookupError")
    assert brain.status().jobs["dead"] == 1


def test_job_that_takes_too_long_is_stopped_at_its_next_step(
    brain: Brain, embedder: Fragile, clock: FakeClock
) -> None:
    remember_without_vectors(brain, embedder, clock)

    def hear(what: JobEvent, _job: object) -> None:
        if what is JobEvent.MOVED:
            clock.move(timedelta(hours=2))

    a_worker(brain, on_event=hear).sweep()

    (job,) = brain.jobs().jobs
    assert (job.state, job.error) == ("queued", "took_too_long")
    clock.move(timedelta(minutes=1))
    a_worker(brain).sweep()
    assert brain.jobs.show(job.id).result == {"embedded": 100}
