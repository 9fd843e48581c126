"""Jobs: work that outlives the call that requested it, and its state transitions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol

from commonbrain.model.limits import JOB_BACKOFF_MAX_S, JOB_FAULT_CHARS_MAX
from commonbrain.model.scope import Caller
from commonbrain.model.values import dataclass, replace

_BACKOFF_FACTOR: Final = 4
"""Each retry waits this many times longer than the one before: outages last a while."""


class JobState(StrEnum):
    """The state of a job; one that failed and will be retried is queued again."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    """A dead letter: every attempt failed, and an operator has to look at it."""
    CANCELLED = "cancelled"


LIVE: Final = frozenset({JobState.QUEUED, JobState.RUNNING})
"""States of unfinished jobs."""
FAILED: Final = frozenset({JobState.DEAD, JobState.CANCELLED})
"""States of failed jobs, which can be retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """Why an attempt failed; contains no stored text."""

    code: str
    message: str

    @classmethod
    def of(cls, code: str, message: str) -> JobError:
        """Create one of bounded length."""
        return cls(code=code, message=message[:JOB_FAULT_CHARS_MAX])


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A unit of work, its caller and its progress."""

    id: int
    kind: str
    caller: Caller
    """The caller on whose behalf it runs, with that caller's authority."""
    given: Mapping[str, object]
    key: str | None = None
    """Unique among the unfinished jobs of a tenant."""
    state: JobState = JobState.QUEUED
    attempts: int = 0
    due_at: datetime
    """When it may be started; while it runs, when its lease ends."""
    worker: str | None = None
    """The worker that started it last."""
    progress: float = 0.0
    reached: Mapping[str, object]
    """Where the next attempt continues, with its counters."""
    fault: JobError | None = None
    """Why the last attempt failed."""
    result: Mapping[str, object] | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None

    def is_due(self, now: datetime) -> bool:
        """Return whether a worker may start it."""
        return self.state in LIVE and self.due_at <= now

    def claimed(self, worker: str, *, until: datetime, now: datetime) -> Job:
        """Lease it to a worker."""
        return replace(
            self,
            state=JobState.RUNNING,
            attempts=self.attempts + 1,
            worker=worker,
            due_at=until,
            started_at=self.started_at or now,
        )

    def renewed(self, until: datetime) -> Job:
        """Extend its lease."""
        return replace(self, due_at=until)

    def moved(self, progress: float, reached: Mapping[str, object]) -> Job:
        """Record the progress, 0..1, and where to continue."""
        return replace(self, progress=min(max(progress, 0.0), 1.0), reached=reached)

    def done(self, result: Mapping[str, object], *, now: datetime) -> Job:
        """Finish it successfully."""
        return replace(
            self, state=JobState.DONE, progress=1.0, result=result, fault=None, finished_at=now
        )

    def failed(self, fault: JobError, *, again_at: datetime) -> Job:
        """Queue it for another attempt."""
        return replace(self, state=JobState.QUEUED, fault=fault, due_at=again_at)

    def buried(self, fault: JobError, *, now: datetime) -> Job:
        """Make it a dead letter."""
        return replace(self, state=JobState.DEAD, fault=fault, finished_at=now)

    def given_back(self, now: datetime) -> Job:
        """Queue it as if this attempt had not started; its progress stays."""
        return replace(self, state=JobState.QUEUED, attempts=self.attempts - 1, due_at=now)

    def retried(self, now: datetime, *, by: Caller) -> Job:
        """Reset the attempts of a failed job; it continues where it was.

        It may do no more than its own caller and the one that restarts it both may.
        """
        caller = self.caller.limited_to(by)
        again = replace(self, state=JobState.QUEUED, attempts=0, due_at=now, caller=caller)
        return replace(again, finished_at=None, worker=None)

    def cancelled(self, now: datetime) -> Job:
        """Cancel it; its worker stops at the next step."""
        return replace(self, state=JobState.CANCELLED, finished_at=now)


def backoff(base: timedelta, attempt: int) -> timedelta:
    """Return the delay after the `attempt`-th failure, from 1."""
    waits = base * _BACKOFF_FACTOR ** (attempt - 1)
    return min(waits, timedelta(seconds=JOB_BACKOFF_MAX_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMessage:
    """A notification that a job is ready."""

    tenant: str
    job: int


class Queue(Protocol):
    """Notifies workers of jobs; messages may be lost, since workers also poll the store."""

    def put(self, ticket: QueueMessage) -> None:
        """Notify one worker of a committed job.

        Raises:
            UnavailableError: `queue_down`; workers find the job by polling.

        """
        ...

    def take(self) -> QueueMessage | None:
        """Take a message, waiting for about a second; None if there was none.

        Raises:
            UnavailableError: `queue_down`.

        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...
