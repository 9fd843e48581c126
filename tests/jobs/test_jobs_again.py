"""Every kind of job, killed after each of its steps and done twice: the end is the same."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from commonbrain_causes.extractors import PatternExtractor

from commonbrain.client import Brain
from commonbrain.jobs.registry import JOBS
from commonbrain.jobs.service import UPLOAD_RETENTION, JobView
from commonbrain.jobs.worker import JobEvent
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
from tests.moving import moving
from tests.working import a_worker, store_unembedded

STORE = "brain.db"
STORED = 130
"""More than one batch, page or step of any kind."""
SAID = "The pot number {} stands on the shelf of number {} beside the kettle."
LATER = timedelta(days=OUTBOX_RETENTION_DAYS + 1)


class Killed(BaseException):
    """The end of a process, which no handler catches."""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store with something to do for every kind, whose clock stands a week back."""
    folder = tmp_path_factory.mktemp("full")
    store_unembedded(folder / STORE, count=STORED)
    with a_brain(folder / STORE) as brain:
        for job in brain.jobs().jobs:
            brain.jobs.cancel(job.id)
        with brain.services.store.begin(LOCAL_TENANT) as tx:
            for number in range(2 * RETAINED_AT_ONCE - STORED):
                tx.records.publish("memory.created", number, at=brain.services.clock.now())
    return folder


@dataclass(frozen=True, slots=True)
class Step:
    """What a job did, and a copy of its folder: what a kill leaves of it then."""

    event: JobEvent
    at: datetime
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A job that ran undisturbed."""

    job: str
    result: object
    after: dict[str, object]
    """What the store holds then."""
    steps: list[Step]


def opened(folder: Path, *, clock: FakeClock | None = None) -> Brain:
    if clock is None:
        clock = FakeClock()
        clock.move(LATER)
    return moving(a_brain(folder / STORE, clock=clock))


def held(brain: Brain) -> dict[str, object]:
    """What a store holds, but for the ids and times of what was made meanwhile."""
    status = brain.status()
    matches = brain.recall("kettle7 broke pot7", max_items=5)
    heads = {item.headline or "" for item in matches.items}
    return {
        "kinds": dict(status.by_kind),
        "pending": status.embedding_pending,
        "spaces": [(one.name, one.missing) for one in brain.spaces()],
        # Others share words with the question as well, and nothing tells which of them is shown.
        "found": sorted(one for one in heads if "ettle7 " in one),
        "sound": brain.doctor().is_sound,
    }


@pytest.fixture(scope="module")
def run_of(full: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Do a job of a kind once, for all tests."""

    @cache
    def run(kind: str) -> Run:
        return undisturbed(full, tmp_path_factory.mktemp(kind), kind)

    return run


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.part("learn")) if kind.startswith("train_") else kind
        for kind in JOBS
    ],
)
def test_job_killed_after_any_step_or_repeated_leaves_the_same_state_as_one_run(
    run_of: Callable[[str], Run], tmp_path: Path, subtests: pytest.Subtests, kind: str
) -> None:
    run = run_of(kind)
    assert len(run.steps) >= 3, "a job of a single step proves nothing"

    for number, step in enumerate(run.steps):
        folder = shutil.copytree(step.folder, tmp_path / f"killed-{number}")
        clock = FakeClock(step.at + timedelta(seconds=JOB_LEASE_S))
        case = subtests.test(killed_after=number, event=step.event)
        with case, opened(folder, clock=clock) as brain:
            a_worker(brain).sweep()
            done = brain.jobs.show(run.job)
            assert (done.state, done.result) == ("done", run.result)
            assert held(brain) == run.after

    # What was sent for an import is gone once it was read.
    if kind != "import":
        last = run.steps[-1]
        folder = shutil.copytree(last.folder, tmp_path / "again")
        with opened(folder, clock=FakeClock(last.at)) as brain:
            retry_from_the_start(brain, run.job)
            assert a_worker(brain).sweep() == 1
            assert brain.jobs.show(run.job).state == "done"
            assert held(brain) == run.after


def test_job_of_a_worker_killed_within_a_page_is_completed_by_the_next_worker(
    run_of: Callable[[str], Run], tmp_path: Path
) -> None:
    run = run_of("atomize")
    taken = run.steps[0]
    clock = FakeClock(taken.at)
    with opened(shutil.copytree(taken.folder, tmp_path / "killed"), clock=clock) as brain:
        clock.move(timedelta(seconds=JOB_LEASE_S))
        with_dying_extractor = Brain(
            replace(brain.services, extractor=lambda: DyingExtractor(50)), brain.caller
        )
        with pytest.raises(Killed):
            a_worker(with_dying_extractor).sweep()
        clock.move(timedelta(seconds=JOB_LEASE_S))
        a_worker(brain).sweep()

        assert brain.jobs.show(run.job).result == run.result
        assert held(brain) == run.after


def retry_from_the_start(brain: Brain, id_: str) -> None:
    """Let a job that is done be due again, as if it had done nothing."""
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        done = tx.jobs.get(ids.parse(ids.JOB, id_))
        assert done is not None
        fresh = done.retried(brain.services.clock.now(), by=done.caller)
        assert tx.jobs.move(done, replace(fresh, reached={}))


def asked_for(brain: Brain, kind: str) -> JobView:
    """Ask for a job as its kind is asked for: an import with a file, what drops one with that."""
    if JOBS[kind].asked_by is None:
        return brain.jobs.run(kind, {"questions": EVALUATED_MIN} if kind == "eval" else {})
    with TemporaryDirectory() as folder:
        file = Path(folder) / "MEMORY.md"
        sections = [f"## Pot {n}\n\n{SAID.format(n, n)}\n" for n in range(STORED)]
        file.write_text("\n".join(sections), "utf-8")
        job = brain.jobs.import_("markdown", file)
    if kind == "import":
        return job
    brain.jobs.cancel(job.id)
    (dropping,) = brain.jobs(kind=kind).jobs
    assert isinstance(brain.services.clock, FakeClock)
    brain.services.clock.move(UPLOAD_RETENTION)
    return dropping


def undisturbed(full: Path, folder: Path, kind: str) -> Run:
    """Do a job in a copy of the store; copy that as each step leaves it."""
    calm = folder / "calm"
    shutil.copytree(full, calm)
    steps: list[Step] = []
    with opened(calm) as brain:
        job = asked_for(brain, kind)

        def record(event: JobEvent, _job: Job) -> None:
            copy = folder / f"step-{len(steps)}"
            # The index of the log is made anew when the copy is opened.
            shutil.copytree(calm, copy, ignore=shutil.ignore_patterns("*-shm"))
            steps.append(Step(event, brain.services.clock.now(), copy))

        a_worker(brain, on_event=record).sweep()
        result = brain.jobs.show(job.id).result
        return Run(job=job.id, result=result, after=held(brain), steps=steps)


def killed_at(brain: Brain, place: int) -> list[JobEvent]:
    """Work until so many things have happened, then die; give them."""
    happened: list[JobEvent] = []

    def die(what: JobEvent, _job: Job) -> None:
        happened.append(what)
        if len(happened) > place:
            raise Killed

    with pytest.raises(Killed):
        a_worker(brain, on_event=die).sweep()
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
