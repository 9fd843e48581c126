"""Every kind of job, killed after each of its steps and done twice: the end is the same."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from commonbrain.client import Brain
from commonbrain.jobs.registry import JOBS
from commonbrain.jobs.service import UPLOAD_RETENTION, JobView
from commonbrain.jobs.worker import JobEvent
from commonbrain.llm.rule_based import PatternExtractor
from commonbrain.model import ids
from commonbrain.model.atoms import Atom
from commonbrain.model.jobs import Job
from commonbrain.model.limits import (
    EVALUATED_MIN,
    JOB_LEASE_S,
    OUTBOX_RETENTION_DAYS,
    RETAINED_AT_ONCE,
)
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.testing.builders import FakeClock, a_brain
from tests.flows.moving import moving
from tests.flows.working import a_worker, fall_behind

STORED = 130
"""More than one batch, page or step of any kind."""
SAID = "The pot number {} stands on the shelf of number {} beside the kettle."
LATER = timedelta(days=OUTBOX_RETENTION_DAYS + 1)


class Killed(BaseException):
    """What nobody catches, as nobody catches a SIGKILL."""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with something to do for every kind, whose clock stands a week back."""
    path = tmp_path_factory.mktemp("full") / "brain.db"
    fall_behind(path, count=STORED)
    with a_brain(path) as brain:
        for job in brain.jobs().jobs:
            brain.jobs.cancel(job.id)
        with brain.services.store.begin(LOCAL_TENANT) as tx:
            for number in range(2 * RETAINED_AT_ONCE - STORED):
                tx.records.publish("memory.created", number, at=brain.services.clock.now())
    return path


def a_copy(full: Path, path: Path) -> Path:
    """Copy the store, which nobody has open."""
    for suffix in ("", "-wal", "-shm"):
        source = full.with_name(full.name + suffix)
        if source.exists():
            shutil.copy(source, path.with_name(path.name + suffix))
    return path


def opened(path: Path) -> tuple[Brain, FakeClock]:
    clock = FakeClock()
    clock.move(LATER)
    return moving(a_brain(path, clock=clock)), clock


def held(brain: Brain) -> dict[str, object]:
    """What a store holds, but for the ids and times of what was made meanwhile."""
    status = brain.status()
    found = brain.recall("kettle7 broke pot7", max_items=5)
    heads = {item.headline or "" for item in found.items}
    return {
        "kinds": dict(status.by_kind),
        "pending": status.embedding_pending,
        "spaces": [(one.name, one.missing) for one in brain.spaces()],
        # Others share words with the question as well, and nothing tells which of them is shown.
        "found": sorted(one for one in heads if "ettle7 " in one),
        "sound": brain.doctor().is_sound,
    }


@pytest.mark.parametrize("kind", JOBS)
def test_a_job_killed_after_any_of_its_steps_ends_once_with_the_same_result(
    full: Path, path: Path, tmp_path: Path, kind: str
) -> None:
    steps, result, after = undisturbed(a_copy(full, tmp_path / "calm.db"), kind)
    assert len(steps) >= 3, "a job of a single step proves nothing"

    for place in range(len(steps)):
        brain, clock = opened(a_copy(full, path))
        with brain:
            job = asked_for(brain, kind)
            assert killed_at(brain, place) == steps[: place + 1], (kind, place)
            clock.move(timedelta(seconds=JOB_LEASE_S))
            a_worker(brain).sweep()
            if not JOBS[kind].is_run_after_loss and place + 1 < len(steps):
                assert brain.jobs.show(job.id).error == "worker_lost"
                brain.jobs.retry(job.id)
                a_worker(brain).sweep()
            done = brain.jobs.show(job.id)
            assert (done.state, done.result) == ("done", result), (kind, place)
            assert held(brain) == after, (kind, place)


# What was sent for an import is gone once it was read.
@pytest.mark.parametrize("kind", [kind for kind in JOBS if kind != "import"])
def test_a_job_done_twice_leaves_what_once_leaves(full: Path, path: Path, kind: str) -> None:
    brain, _ = opened(a_copy(full, path))
    with brain:
        job = asked_for(brain, kind)
        a_worker(brain).sweep()
        after = held(brain)
        with brain.services.store.begin(LOCAL_TENANT) as tx:
            done = tx.jobs.get(ids.parse(ids.JOB, job.id))
            assert done is not None
            fresh = done.retried(brain.services.clock.now())
            assert tx.jobs.move(done, replace(fresh, reached={}))
        assert a_worker(brain).sweep() == 1

        assert brain.jobs.show(job.id).state == "done"
        assert held(brain) == after


def test_a_worker_killed_within_a_page_leaves_what_the_next_one_finds(
    full: Path, path: Path, tmp_path: Path
) -> None:
    _, result, after = undisturbed(a_copy(full, tmp_path / "calm.db"), "atomize")
    brain, clock = opened(a_copy(full, path))
    with brain:
        job = brain.jobs.run("atomize")
        dying = Brain(replace(brain.services, extractor=DyingExtractor(50)), brain.caller)
        with pytest.raises(Killed):
            a_worker(dying).sweep()
        clock.move(timedelta(seconds=JOB_LEASE_S))
        a_worker(brain).sweep()

        assert brain.jobs.show(job.id).result == result
        assert held(brain) == after


def asked_for(brain: Brain, kind: str) -> JobView:
    """Ask for a job as its kind is asked for: an import with a file, what drops one with that."""
    if JOBS[kind].asked_by is None:
        return brain.jobs.run(kind, {"questions": EVALUATED_MIN} if kind == "eval" else {})
    with TemporaryDirectory() as folder:
        file = Path(folder) / "MEMORY.md"
        said = [f"## Pot {n}\n\n{SAID.format(n, n)}\n" for n in range(STORED)]
        file.write_text("\n".join(said), "utf-8")
        job = brain.jobs.import_("markdown", file)
    if kind == "import":
        return job
    brain.jobs.cancel(job.id)
    (dropping,) = brain.jobs(kind=kind).jobs
    assert isinstance(brain.services.clock, FakeClock)
    brain.services.clock.move(UPLOAD_RETENTION)
    return dropping


def undisturbed(path: Path, kind: str) -> tuple[list[JobEvent], object, dict[str, object]]:
    """Do a job in peace; give what happened, its result, and what the store holds then."""
    steps: list[JobEvent] = []
    brain, _ = opened(path)
    with brain:
        job = asked_for(brain, kind)
        a_worker(brain, tell=lambda what, _job: steps.append(what)).sweep()
        return steps, brain.jobs.show(job.id).result, held(brain)


def killed_at(brain: Brain, place: int) -> list[JobEvent]:
    """Work until so many things have happened, then die; give them."""
    happened: list[JobEvent] = []

    def tell(what: JobEvent, _job: Job) -> None:
        happened.append(what)
        if len(happened) > place:
            raise Killed

    with pytest.raises(Killed):
        a_worker(brain, tell=tell).sweep()
    return happened


class DyingExtractor(PatternExtractor):
    """Reads so many texts, then its process is gone."""

    def __init__(self, texts: int) -> None:
        super().__init__()
        self.left = texts

    def atoms(self, text: str) -> Sequence[Atom]:
        self.left -= 1
        if not self.left:
            raise Killed
        return super().atoms(text)
