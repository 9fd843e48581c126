"""The shelf of jobs: rows that are the truth about work, whatever becomes of any queue."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from commonbrain.domain.job import Job, JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs are listed; what is left out does not matter."""

    state: JobState | None = None
    kind: str | None = None
    agent: str | None = None
    """For whom they are done."""
    key: str | None = None


class Jobs(Protocol):
    """The shelf of jobs of one tenant."""

    def add(self, job: Job) -> bool:
        """Put a job there, unless its id is taken or an unfinished one has its key; say whether."""
        ...

    def get(self, id_: int) -> Job | None:
        """Give a job; None where there is none."""
        ...

    def keyed(self, key: str) -> Job | None:
        """Give the unfinished job of a key."""
        ...

    def due(self, kinds: Collection[str], *, now: datetime, limit: int) -> list[Job]:
        """List what anybody may take up of these kinds, the longest due first."""
        ...

    def move(self, before: Job, after: Job) -> bool:
        """Write what differs between two states of one job; say whether anything was written.

        Nothing is where the row was claimed, ended or put back since `before`, nor where `after`
        claims it and its lease was renewed: of several who want one job, one has it, and who has
        lost it writes nothing more.
        """
        ...

    def listed(self, wanted: JobFilter, *, before: int | None, limit: int) -> list[Job]:
        """List jobs, the newest first, or from before one of them on."""
        ...

    def counts(self) -> Mapping[JobState, int]:
        """Count the jobs of every state that has any."""
        ...

    def newest(self, kind: str, *, key: str | None = None) -> datetime | None:
        """Give when a job of a kind, and of a key, was last made or ended; None: none is known."""
        ...

    def drop(self, *, before: datetime, dead_before: datetime, limit: int) -> int:
        """Delete what ended well or was cancelled before a moment; count the rows.

        Dead letters stay longer, for somebody has to look at them: those given up before
        `dead_before` are counted with the rest.
        """
        ...
