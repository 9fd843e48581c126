"""Background jobs, and the leases by which workers claim them."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import RowMapping, Select, and_, delete, func, or_, select, text, update

from commonbrain.model import ids
from commonbrain.model.jobs import Job, JobError, JobState
from commonbrain.model.scope import Caller
from commonbrain.storage.interface import JobFilter
from commonbrain.storage.schema.activity import jobs
from commonbrain.storage.schema.types import Instant
from commonbrain.storage.sql.context import Repository, count_up_to

# As words, because SQLite uses an index of few rows only for the very condition it has.
_IS_LIVE: Final = text("jobs.state IN ('queued', 'running')")
_HELD_BY: Final = ("state", "attempts", "worker")
"""Columns that change with every transition; a claim compares the lease too."""
_EQUAL: Final = ("state", "kind", "agent", "session", "key")
"""Columns that a filter compares."""
_OF_JOB: Final = tuple(field.name for field in fields(Job) if field.name in jobs.c)
_OF_CALLER: Final = tuple(field.name for field in fields(Caller) if field.name in jobs.c)
_ENDED: Final = (JobState.DONE, JobState.CANCELLED)


class JobRepository(Repository):
    """The jobs of one tenant."""

    def add(self, job: Job) -> bool:
        """Insert a job; return False if its id is taken or an unfinished job has its key."""
        return self.work.add(jobs, {"tenant_id": self.work.tenant, **_row(job)})

    def get(self, id_: int) -> Job | None:
        """Return a job; None if there is none."""
        return self._first(select(jobs).where(self.work.here(jobs, id=id_)))

    def keyed(self, key: str) -> Job | None:
        """Return the unfinished job with a key."""
        return self._first(select(jobs).where(self.work.here(jobs, key=key), _IS_LIVE))

    def due(self, kinds: Collection[str], *, now: datetime, limit: int) -> list[Job]:
        """List the jobs of these kinds that a worker may claim, longest due first."""
        here = self.work.here(jobs, jobs.c.due_at <= now, jobs.c.kind.in_(sorted(kinds)))
        question = select(jobs).where(here, _IS_LIVE).order_by(jobs.c.due_at, jobs.c.id)
        return self._all(question.limit(limit))

    def move(self, before: Job, after: Job) -> bool:
        """Write the difference between two states of one job; return whether it was written.

        Nothing is written if the row was claimed, finished or requeued since `before`, or if
        `after` claims it and its lease was renewed: of several workers one gets the job, and a
        worker that lost its lease writes nothing more.
        """
        old, new = _row(before), _row(after)
        changed = {name: value for name, value in new.items() if value != old[name]}
        compared = [*_HELD_BY, *(["due_at"] if after.attempts > before.attempts else [])]
        unmoved = [jobs.c[name].is_not_distinct_from(old[name]) for name in compared]
        statement = update(jobs).where(self.work.here(jobs, jobs.c.id == before.id, *unmoved))
        # Nothing may differ if progress is saved twice; then only the claim is checked.
        done = self.work.connection.execute(statement.values(changed or {"kind": before.kind}))
        return done.rowcount > 0

    def listed(self, criteria: JobFilter, *, before: int | None, limit: int) -> list[Job]:
        """List jobs, newest first, starting below `before` if given."""
        question = self._listed(criteria, before=before).order_by(jobs.c.id.desc())
        return self._all(question.limit(limit))

    def progress(self, criteria: JobFilter, *, limit: int) -> list[Mapping[str, Any]]:
        """List only what jobs have reached, newest first."""
        question = self._listed(criteria, before=None).with_only_columns(jobs.c.reached)
        ordered = question.order_by(jobs.c.id.desc()).limit(limit)
        return list(self.work.connection.execute(ordered).scalars())

    def count(self, criteria: JobFilter, *, before: int | None, at_most: int) -> int:
        """Count those jobs, up to a number."""
        question = self._listed(criteria, before=before).with_only_columns(jobs.c.id)
        return count_up_to(self.work.connection, question, at_most=at_most)

    def _listed(self, criteria: JobFilter, *, before: int | None) -> Select[Any]:
        values = {name: getattr(criteria, name) for name in _EQUAL}
        here = [jobs.c[name] == value for name, value in values.items() if value is not None]
        if criteria.since is not None:
            # Ids begin with the time, so that the primary key bounds what is read.
            here.append(jobs.c.id >= ids.make_id(criteria.since, 0))
        if before is not None:
            here.append(jobs.c.id < before)
        return select(jobs).where(self.work.here(jobs, *here))

    def counts(self) -> Mapping[JobState, int]:
        """Count the jobs by state; states without jobs are absent."""
        counted = select(jobs.c.state, func.count()).where(self.work.here(jobs))
        rows = self.work.connection.execute(counted.group_by(jobs.c.state))
        return {row[0]: row[1] for row in rows}

    def newest(self, kind: str, *, key: str | None = None) -> datetime | None:
        """Return when the newest job of a kind, and of a key, was created or finished."""
        last = func.coalesce(jobs.c.finished_at, jobs.c.created_at)
        of_key = {} if key is None else {"key": key}
        here = self.work.here(jobs, kind=kind, **of_key)
        question = select(func.max(last, type_=Instant())).where(here)
        return self.work.connection.execute(question).scalar()

    def drop(self, *, before: datetime, dead_before: datetime, limit: int) -> int:
        """Delete jobs that finished or were cancelled before a time; return the number deleted.

        Dead letters are kept longer, for review: those that died before `dead_before` are included.
        """
        ended = and_(jobs.c.finished_at < before, jobs.c.state.in_(_ENDED))
        dead = and_(jobs.c.finished_at < dead_before, jobs.c.state == JobState.DEAD)
        old = self.work.here(jobs, or_(ended, dead))
        some = select(jobs.c.id).where(old).limit(limit).scalar_subquery()
        statement = delete(jobs).where(self.work.here(jobs, jobs.c.id.in_(some)))
        return self.work.connection.execute(statement).rowcount

    def _first(self, question: Select[Any]) -> Job | None:
        return next(iter(self._all(question)), None)

    def _all(self, question: Select[Any]) -> list[Job]:
        return [_job(row) for row in self.work.connection.execute(question).mappings()]


def _row(job: Job) -> dict[str, Any]:
    fault = job.fault
    return {
        **{name: getattr(job, name) for name in _OF_JOB},
        **{name: getattr(job.caller, name) for name in _OF_CALLER},
        "given": dict(job.given),
        "reached": dict(job.reached),
        "result": None if job.result is None else dict(job.result),
        "fault_code": fault.code if fault else None,
        "fault_message": fault.message if fault else None,
    }


def _job(row: RowMapping) -> Job:
    code = row["fault_code"]
    return Job(
        **{name: row[name] for name in _OF_JOB},
        caller=Caller(tenant=row["tenant_id"], **{name: row[name] for name in _OF_CALLER}),
        fault=None if code is None else JobError(code=code, message=row["fault_message"]),
    )
