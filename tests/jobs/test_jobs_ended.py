"""Jobs that can no longer run end as dead letters: their kind was removed, or their data grew."""

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from commonbrain.client import Brain
from commonbrain.jobs.registry import JOBS
from commonbrain.jobs.worker import REMOVED_KINDS
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import JOB_REACHED_BYTES_MAX, JOBS_DUE_AT_ONCE
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.job_queue import JobContext, enqueue
from tests.distributions import add_distribution
from tests.working import a_worker


def queued(brain: Brain, kind: str, **given: object) -> str:
    """Ask as a program of another version does, which has that kind."""
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        now = brain.services.clock.now()
        job = enqueue(tx, brain.services, caller=brain.caller, kind=kind, given=given, due_at=now)
    return ids.show(ids.JOB, job.id)


@pytest.mark.requirement("JB-10")
@pytest.mark.parametrize("kind", REMOVED_KINDS)
def test_job_of_a_removed_kind_is_a_dead_letter_that_names_the_replacement(
    brain: Brain, kind: str
) -> None:
    jobs = [queued(brain, kind, number=number) for number in range(JOBS_DUE_AT_ONCE + 1)]
    a_worker(brain).schedule()
    a_worker(brain).schedule()

    ended = [brain.jobs.show(one) for one in jobs]
    assert {(one.state, one.error, one.attempts) for one in ended} == {("dead", "kind_gone", 0)}
    assert REMOVED_KINDS[kind] in (ended[0].reason or "")
    assert not REMOVED_KINDS.keys() & JOBS.keys()
    assert set(REMOVED_KINDS.values()) <= JOBS.keys()


def test_job_of_a_newer_program_is_left_queued(brain: Brain) -> None:
    job = queued(brain, "daydream")
    a_worker(brain).schedule()
    a_worker(brain).sweep()
    assert brain.jobs.show(job).state == "queued"


def test_job_of_a_package_that_is_not_installed_names_the_extra(
    brain: Brain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = brain.jobs.run("eval")
    add_distribution(tmp_path / "hidden", "commonbrain-evals")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "hidden"), *sys.path])
    a_worker(brain).sweep()

    # Another worker may have the package.
    left = brain.jobs.show(job.id)
    assert (left.state, left.error, left.attempts) == ("queued", "extra_missing", 1)
    assert "pip install 'commonbrain[eval]'" in (left.reason or "")
    with pytest.raises(InvalidInputError) as refused:
        brain.jobs.run("eval", {"seed": 2})
    assert refused.value.code == "extra_missing"


def test_step_with_too_much_progress_data_is_rolled_back_whole(brain: Brain) -> None:
    id_ = ids.parse(ids.JOB, queued(brain, "atomize"))
    services = brain.services
    with services.store.begin(LOCAL_TENANT) as tx:
        job = tx.jobs.get(id_)
        assert job is not None
        now = services.clock.now()
        claimed = job.claimed("w", until=now + timedelta(minutes=1), now=now)
        assert tx.jobs.move(job, claimed)
    on_move: Callable[[object], None] = lambda _job: None  # noqa: E731 nothing is listened to
    task = JobContext(
        services=services, job=claimed, stop=Event(), limit=timedelta(hours=1), on_move=on_move
    )
    with task.step() as tx:
        task.save_progress(tx, 0.1, reached={"much": "x" * (JOB_REACHED_BYTES_MAX - 100)})
    saved = task.job

    def grow() -> None:
        with task.step() as tx:
            task.save_progress(tx, 0.2, reached={})
            task.save_progress(tx, 0.3, reached={"much": "x" * JOB_REACHED_BYTES_MAX})

    with pytest.raises(InvalidInputError, match="bytes"):
        grow()
    assert task.job == saved
    with services.store.snapshot(LOCAL_TENANT) as tx:
        assert tx.jobs.get(id_) == saved
