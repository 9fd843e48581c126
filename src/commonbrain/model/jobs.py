"""A job: work that outlives the call that asked for it, and every way it moves on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from commonbrain.model.limits import JOB_BACKOFF_MAX_S, JOB_FAULT_CHARS_MAX
from commonbrain.model.scope import Caller

_BACKOFF_FACTOR: Final = 4
"""Each failure waits so many times as long as the one before: what is down is down for a while."""


class JobState(StrEnum):
    """Where a job stands; one that failed and may try again is queued once more."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    """A dead letter: every attempt failed, and somebody has to look."""
    CANCELLED = "cancelled"


LIVE: Final = frozenset({JobState.QUEUED, JobState.RUNNING})
"""States of jobs that will still be worked on."""
FAILED: Final = frozenset({JobState.DEAD, JobState.CANCELLED})
"""States of jobs that ended badly, and may be retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """Why an attempt failed; never a stored text."""

    code: str
    message: str

    @classmethod
    def told(cls, code: str, message: str) -> JobError:
        """Make one of bounded length."""
        return cls(code=code, message=message[:JOB_FAULT_CHARS_MAX])


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One piece of work, for whom it is done, and how far it has come."""

    id: int
    kind: str
    caller: Caller
    """For whom: it may do what they may, and no more."""
    given: Mapping[str, object]
    key: str | None = None
    """Of the unfinished jobs of a tenant one has this key."""
    state: JobState = JobState.QUEUED
    attempts: int = 0
    due_at: datetime
    """From when anybody may take it up: while it runs, that is when its lease ends."""
    worker: str | None = None
    """Who took it up last."""
    progress: float = 0.0
    reached: Mapping[str, object]
    """Where whoever takes it up again goes on, and what was counted up to there."""
    fault: JobError | None = None
    """Why the last attempt failed."""
    result: Mapping[str, object] | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Say whether anybody may take it up."""
        return self.state in LIVE and self.due_at <= now

    def claimed(self, worker: str, *, until: datetime, now: datetime) -> Job:
        """Let a worker have it until its lease ends."""
        return replace(
            self,
            state=JobState.RUNNING,
            attempts=self.attempts + 1,
            worker=worker,
            due_at=until,
            started_at=self.started_at or now,
        )

    def renewed(self, until: datetime) -> Job:
        """Prolong its lease."""
        return replace(self, due_at=until)

    def moved(self, progress: float, reached: Mapping[str, object]) -> Job:
        """Tell how far it has come, 0..1, and where to go on."""
        return replace(self, progress=min(max(progress, 0.0), 1.0), reached=reached)

    def done(self, result: Mapping[str, object], *, now: datetime) -> Job:
        """End it well."""
        return replace(
            self, state=JobState.DONE, progress=1.0, result=result, fault=None, finished_at=now
        )

    def failed(self, fault: JobError, *, again_at: datetime) -> Job:
        """Put it back for another attempt."""
        return replace(self, state=JobState.QUEUED, fault=fault, due_at=again_at)

    def buried(self, fault: JobError, *, now: datetime) -> Job:
        """Make it a dead letter."""
        return replace(self, state=JobState.DEAD, fault=fault, finished_at=now)

    def given_back(self, now: datetime) -> Job:
        """Put it back as if this attempt had never begun; what it reached stays."""
        return replace(self, state=JobState.QUEUED, attempts=self.attempts - 1, due_at=now)

    def retried(self, now: datetime) -> Job:
        """Give what has ended badly all its attempts again; it goes on where it was."""
        return replace(
            self, state=JobState.QUEUED, attempts=0, due_at=now, finished_at=None, worker=None
        )

    def cancelled(self, now: datetime) -> Job:
        """End it unfinished; a worker that is at it stops at its next step."""
        return replace(self, state=JobState.CANCELLED, finished_at=now)


def backoff(base: timedelta, attempt: int) -> timedelta:
    """Say how long to wait after the `attempt`-th failure, from 1."""
    waits = base * _BACKOFF_FACTOR ** (attempt - 1)
    return min(waits, timedelta(seconds=JOB_BACKOFF_MAX_S))
