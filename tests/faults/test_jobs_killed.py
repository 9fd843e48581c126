"""Every kind of job whose worker is killed: it ends once, with the result of its twin."""

import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.jobs.registry import JOBS
from commonbrain.jobs.service import JobView
from commonbrain.model.limits import EVALUATED_MIN, JOB_LEASE_S
from commonbrain.testing.builders import FakeClock, a_brain
from tests.faults.at_jobs import DAYS, work_until_late
from tests.faults.test_processes import start_together
from tests.faults.workers import worker
from tests.jobs.test_jobs_again import asked_for
from tests.moving import moving
from tests.reflecting import CHECKOUT, GARDEN, store_events
from tests.working import a_worker, store_unembedded

UNEMBEDDED = 130
"""Memories without vectors: more than one step of any kind."""


def without_vectors(path: Path) -> None:
    store_unembedded(path, count=UNEMBEDDED)


def _with_events(path: Path) -> None:
    clock = FakeClock()
    clock.move(timedelta(days=DAYS) - timedelta(hours=1))
    with a_brain(path, clock=clock) as brain:
        store_events(brain, CHECKOUT)
        store_events(brain, GARDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A store with something to do for a kind, and how often its worker is killed there."""

    fill: Callable[[Path], None] = without_vectors
    given: Mapping[str, object] | None = None


CASES = {
    "embed": Case(),
    "atomize": Case(),
    "reflect": Case(fill=_with_events),
    "reword": Case(),
    "eval": Case(given={"questions": EVALUATED_MIN}),
    "import": Case(),
    "export": Case(),
    "discard": Case(),
    "respace": Case(),
    "consolidate": Case(),
    "maintain": Case(),
}


def test_cases_cover_every_kind_of_job() -> None:
    # The package that trains has the others.
    assert set(CASES) == {kind for kind in JOBS if not kind.startswith("train_")}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], None]], Path]:
    """Fill a store once for all kinds that start from it; nothing waits in it."""
    made: dict[Callable[[Path], None], Path] = {}

    def fill(by: Callable[[Path], None]) -> Path:
        if by not in made:
            folder = tmp_path_factory.mktemp("filled")
            by(folder / "brain.db")
            with a_brain(folder / "brain.db") as brain:
                for job in brain.jobs().jobs:
                    brain.jobs.cancel(job.id)
            made[by] = folder
        return made[by]

    return fill


@pytest.mark.requirement("JB-05", "JB-10")
@pytest.mark.parametrize("kind", CASES)
def test_job_of_a_killed_worker_ends_once_with_the_result_of_its_twin(
    filled: Callable[[Callable[[Path], None]], Path], tmp_path: Path, kind: str
) -> None:
    check_ends_once(filled(CASES[kind].fill), tmp_path, kind=kind, case=CASES[kind])


def check_ends_once(source: Path, tmp_path: Path, *, kind: str, case: Case) -> None:
    """Kill workers of a job at its steps, and compare what is left with a job of its twin."""
    requested = tmp_path / "requested"
    shutil.copytree(source, requested)
    with opened(requested / "brain.db") as brain:
        job = request_job(brain, kind, case)
        late = (brain.services.clock.now() - FakeClock().now()) // timedelta(days=1)

    calm = a_twin(requested, tmp_path / "calm")
    steps = list[str]()
    with opened(calm, days=late) as brain:
        a_worker(brain, on_event=lambda what, _: steps.append(what), kinds=[kind]).sweep()
        result, is_sound = result_of(brain, job), brain.doctor().is_sound
    rows = counted(calm)
    assert len(steps) >= 3, "a job of a single step proves nothing"

    # The first step, when a job is taken, and the last, when it is done, are the same of all kinds.
    steps_before_kill = range(1, len(steps) + 1) if kind == "embed" else (len(steps) - 1,)
    for step in steps_before_kill:
        path = a_twin(requested, tmp_path / f"killed-{step}")
        killed(path, step, days=late, kind=kind, what=steps[step - 1])
        with opened(path, days=late, past_lease=True) as brain:
            a_worker(brain, kinds=[kind]).sweep()
            assert result_of(brain, job) == result, (kind, step)
            attempts = brain.jobs.show(job.id).attempts
            assert attempts == (1 if step == len(steps) else 2)
            assert brain.doctor().is_sound == is_sound
        assert counted(path) == rows, (kind, step)


def opened(path: Path, *, days: int = DAYS, past_lease: bool = False) -> Brain:
    clock = FakeClock()
    clock.move(timedelta(days=days, seconds=JOB_LEASE_S if past_lease else 0))
    return moving(a_brain(path, clock=clock))


def request_job(brain: Brain, kind: str, case: Case) -> JobView:
    if case.given is None:
        return asked_for(brain, kind)
    return brain.jobs.run(kind, case.given)


def a_twin(requested: Path, folder: Path) -> Path:
    """Copy a closed store, with its artifacts."""
    shutil.copytree(requested, folder)
    return folder / "brain.db"


def killed(path: Path, step: int, *, days: int, kind: str, what: str) -> None:
    """Let another process work, and kill it at a step."""
    with worker(work_until_late, path, number=days, times=step) as victim:
        start_together([victim])
        assert victim.hear() == f"{what} {kind}"
        victim.process.kill()
        victim.process.join()


def result_of(brain: Brain, job: JobView) -> dict[str, object]:
    """Return the result of a job; instead of the id of a model, the digest of its artifact."""
    done = brain.jobs.show(job.id)
    assert done.state == "done", done
    result = dict(done.result or {})
    if "model" in result:
        with brain.services.store.snapshot(brain.caller.tenant) as tx:
            result["model"] = [one.digest for one in tx.models.listed(limit=10)]
    return result


def counted(path: Path) -> dict[str, int]:
    """Count the rows of every table that is not the full text's own, and the kept artifacts.

    Jobs that drop artifacts are not counted: an export that dies after it has asked for one asks
    again, and each finds its own.
    """
    with closing(sqlite3.connect(path)) as db:
        names = db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
        )
        tables = [name for (name,) in names if "fts" not in name and "sqlite" not in name]
        rows: dict[str, int] = {
            name: db.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # noqa: S608
            for name in tables
        }
        (drops,) = db.execute("SELECT count(*) FROM jobs WHERE kind = 'discard'").fetchone()
        rows["jobs"] = rows["jobs"] - drops
    files = [one for one in path.parent.rglob("*") if one.is_file()]
    rows["files"] = len([one for one in files if not one.name.startswith(path.name)])
    return rows
