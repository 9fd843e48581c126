"""A job says what it has done of what, since when, and when it may end at that pace."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from commonbrain.api.operations.job import render_job
from commonbrain.client import Brain
from commonbrain.jobs.service import JobView
from commonbrain.jobs.worker import JobEvent
from commonbrain.model import ids
from commonbrain.model.jobs import Job
from commonbrain.testing.builders import FakeClock, a_brain
from tests.working import Fragile, a_worker, an_event


class Paced(Fragile):
    """Takes half a minute for each call, while it is up."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock

    def passages(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 as the stand-in has it
        vectors = super().passages(texts)
        self.clock.move(timedelta(seconds=30))
        return vectors


@pytest.fixture
def embedder(clock: FakeClock) -> Paced:
    return Paced(clock)


@pytest.fixture
def brain(path: Path, clock: FakeClock, embedder: Paced) -> Brain:
    return a_brain(path, clock=clock, embedder=embedder)


def seen_at_work(brain: Brain) -> list[JobView]:
    """Run what is due; return what a job shows after each of its steps."""
    views = list[JobView]()

    def record(what: JobEvent, job: Job) -> None:
        if what is JobEvent.MOVED:
            views.append(brain.jobs.show(ids.show(ids.JOB, job.id)))

    a_worker(brain, on_event=record).sweep()
    return views


def test_job_estimates_its_end_from_its_pace(
    brain: Brain, embedder: Paced, clock: FakeClock
) -> None:
    embedder.is_down = True
    brain.remember([an_event(number) for number in range(100)])
    embedder.is_down = False
    clock.move(timedelta(minutes=1))
    began = clock.now()

    (half,) = seen_at_work(brain)

    assert half.started_at == began
    assert (half.done, half.total, half.unit) == (64, 100, "memories")
    assert half.estimated_end is not None
    assert timedelta(seconds=46) <= half.estimated_end - began < timedelta(seconds=47)
    assert render_job(half).endswith(
        "| 64 of 100 memories | started 2026-03-02T09:01:00Z "
        "| ends about 2026-03-02T09:01:46Z, at its pace since the start"
    )
    (done,) = brain.jobs().jobs
    assert (done.done, done.total, done.estimated_end) == (None, None, None)
    assert done.started_at == began


def test_import_job_counts_the_bytes_of_its_file(brain: Brain, tmp_path: Path) -> None:
    source = tmp_path / "notes.md"
    sections = (f"## Pot {number}\n\nPot number {number} is red.\n" for number in range(128))
    source.write_text("\n".join(sections))
    brain.jobs.import_("markdown", source)

    half, *_ = seen_at_work(brain)

    size = source.stat().st_size
    assert (half.total, half.unit) == (size, "bytes")
    assert half.done is not None
    assert 0.45 * size < half.done < 0.55 * size


def test_no_end_is_estimated_after_a_failed_attempt(
    brain: Brain, embedder: Paced, clock: FakeClock
) -> None:
    embedder.is_down = True
    brain.remember([an_event(number) for number in range(100)])
    clock.move(timedelta(minutes=1))
    a_worker(brain).sweep()
    embedder.is_down = False
    clock.move(timedelta(hours=1))

    (half,) = seen_at_work(brain)

    assert (half.attempts, half.done, half.estimated_end) == (2, 64, None)
