"""Jobs as agents and people see them: asked for, looked at, tried again, called off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commonbrain.consolidation.artifacts import schedule_purge
from commonbrain.jobs.handlers import ARCHIVE_KEPT
from commonbrain.jobs.registry import check_arguments, kind_of
from commonbrain.model import ids
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    NotFoundError,
    RejectedError,
    parse_choice,
)
from commonbrain.model.jobs import FAILED, LIVE, Job, JobState
from commonbrain.model.limits import (
    JOBS_LIVE_MAX,
    JOBS_PAGE_DEFAULT,
    JOBS_PAGE_MAX,
    UPLOAD_KEPT_DAYS,
)
from commonbrain.model.scope import LOCAL_TENANT, Caller, Role
from commonbrain.services import Services
from commonbrain.storage.interface import JobFilter
from commonbrain.storage.job_queue import EXPORT, enqueue, notify_worker
from commonbrain.storage.uploads import Upload
from commonbrain.transfer.export import check_may_move, expedite_discard, read_upload
from commonbrain.transfer.merge import OWN_FORMAT

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

UPLOAD_KEPT: Final = timedelta(days=UPLOAD_KEPT_DAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job: what it does, how far it has come, and what became of it."""

    id: str
    kind: str
    state: JobState
    progress: float
    attempts: int
    agent: str
    """For whom it is done."""
    created_at: datetime
    due_at: datetime | None = None
    """When it is taken up at the earliest, while it waits."""
    worker: str | None = None
    finished_at: datetime | None = None
    given: Mapping[str, object] | None = None
    result: Mapping[str, object] | None = None
    error: str | None = None
    """The code of why its last attempt failed."""
    reason: str | None = None
    """The same in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsReply:
    """Jobs, the newest first."""

    jobs: tuple[JobView, ...]
    is_more: bool = False


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs for one caller: an admin sees all of the tenant, everybody else their own."""

    services: Services
    caller: Caller

    def __call__(
        self,
        *,
        state: JobState | str | None = None,
        kind: str | None = None,
        limit: int = JOBS_PAGE_DEFAULT,
        before: str | None = None,
    ) -> JobsReply:
        """List jobs, the newest first, or from before one of them on.

        Raises:
            InvalidInputError: there is no such state or kind, or the limit is out of bounds.

        """
        if not 1 <= limit <= JOBS_PAGE_MAX:
            raise InvalidInputError(f"The limit is {limit}; 1 to {JOBS_PAGE_MAX} are allowed.")
        wanted = JobFilter(
            state=None if state is None else parse_choice(JobState, state),
            kind=kind,
            agent=None if self._is_admin else self.caller.agent,
        )
        below = None if before is None else ids.parse(ids.JOB, before)
        with self.services.store.snapshot(self.caller.tenant) as tx:
            jobs = tx.jobs.listed(wanted, before=below, limit=limit + 1)
        return JobsReply(jobs=tuple(map(_shown, jobs[:limit])), is_more=len(jobs) > limit)

    def show(self, id_: str) -> JobView:
        """Show one job.

        Raises:
            NotFoundError: there is none, or it is another agent's.

        """
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return _shown(self._own(tx, id_))

    def run(self, kind: str, given: Mapping[str, object] | None = None) -> JobView:
        """Ask for a job; the same one, asked for again while it is unfinished, is one job.

        Raises:
            InvalidInputError: there is no such kind, or it takes something else.
            RejectedError: the role is too low for it, or too many jobs wait.

        """
        known, wanted = kind_of(kind), dict(given or {})
        if known.asked_by is not None:
            raise InvalidInputError(
                f"{kind} cannot be asked for alone.", hint=f"It is by {known.asked_by}."
            )
        check_arguments(kind, wanted)
        self._check_role(known.role, what=kind)
        if known.is_personal:
            wanted["agent"] = self.caller.agent
        if known.is_store_wide and self.caller.tenant != LOCAL_TENANT:
            raise RejectedError(
                f"{kind} works on what all tenants of this store share.",
                code="scope_denied",
                hint="Ask whoever runs the server.",
            )
        return self._add(kind, wanted)

    def import_(
        self, format_: str, source: Path, *, name: str | None = None, project: str | None = None
    ) -> JobView:
        """Keep a file or folder among the artifacts, and ask for its import; it is read later.

        Raises:
            InvalidInputError: the format is unknown, or the file cannot be read or is too large.
            RejectedError: the role is too low for it, or too many jobs wait.
            UnavailableError: `blobs_down`, nothing was kept.

        """
        self._check_role(Role.ADMIN if format_ == OWN_FORMAT else Role.WRITER, what="import")
        known = [*self.services.importers, OWN_FORMAT]
        if format_ not in known:
            raise InvalidInputError(
                f"There is no importer for {format_[:40]!r}.", hint=", ".join(known)
            )
        with self.services.store.snapshot(self.caller.tenant) as tx:
            _check_job_quota(tx)
        upload = self._sent(source, name)
        given = {"format": format_, "project": project, "parcel": asdict(upload)}
        return self._add("import", given)

    def archive(self, id_: str) -> Upload:
        """Give what an export wrote, to its admin, for as long as it is kept.

        Raises:
            NotFoundError: there is no such export, it is not over, or its archive was dropped.

        """
        with self.services.store.snapshot(self.caller.tenant) as tx:
            job = self._own(tx, id_)
        is_retained = job.finished_at and job.finished_at + ARCHIVE_KEPT > self.services.clock.now()
        is_there = job.kind == EXPORT and job.state is JobState.DONE and "parcel" in job.reached
        if not (is_there and is_retained):
            raise NotFoundError(
                f"{id_[:40]} has no archive.",
                hint="Ask for one with job run export; fetch it within a day, before an erase.",
            )
        check_may_move(self.caller)
        return read_upload(job.reached["parcel"])

    def _add(self, kind: str, given: Mapping[str, object]) -> JobView:
        now = self.services.clock.now()
        with self.services.store.begin(self.caller.tenant) as tx:
            _check_job_quota(tx)
            job = enqueue(tx, self.services, caller=self.caller, kind=kind, given=given, due_at=now)
        notify_worker(self.services, job)
        return _shown(job)

    def _sent(self, source: Path, name: str | None) -> Upload:
        """Keep a file or folder; it is dropped some day, whatever happens to who sends it."""
        begun = list[Upload]()

        def tell(upload: Upload) -> None:
            due_at = self.services.clock.now() + UPLOAD_KEPT
            with self.services.store.begin(self.caller.tenant) as tx:
                schedule_purge(tx, self.services, caller=self.caller, upload=upload, due_at=due_at)
            begun.append(upload)

        try:
            return self.services.staging.put(source, name=name, on_start=tell)
        except CommonbrainError:
            # Or the job would count as unfinished for days, and keep others out.
            with self.services.store.begin(self.caller.tenant) as tx:
                for upload in begun:
                    expedite_discard(tx, upload, now=self.services.clock.now())
            raise

    def retry(self, id_: str) -> JobView:
        """Give a dead letter, or what was cancelled, all its attempts again.

        Raises:
            NotFoundError: there is none, or it is another agent's.
            RejectedError: `job_not_over`, it waits, runs, or ended well.

        """
        with self.services.store.begin(self.caller.tenant) as tx:
            job = self._own(tx, id_)
            if job.state not in FAILED:
                raise _wrong_state(job, "retried", hint="Only dead and cancelled jobs are.")
            now = self.services.clock.now()
            # What does the same was asked for since: then it is that one.
            twin = tx.jobs.keyed(job.key) if job.key else None
            again = twin or job.retried(now)
            if twin is None:
                tx.jobs.move(job, again)
        notify_worker(self.services, again)
        return _shown(again)

    def cancel(self, id_: str) -> JobView:
        """End a job that is not over; what it did so far stays, and a worker at it stops.

        Raises:
            NotFoundError: there is none, or it is another agent's.
            RejectedError: `job_over`.

        """
        with self.services.store.begin(self.caller.tenant) as tx:
            job = self._own(tx, id_)
            if job.state is JobState.CANCELLED:
                return _shown(job)
            if job.state not in LIVE:
                raise _wrong_state(job, "cancelled", hint="It is over.")
            over = job.cancelled(self.services.clock.now())
            tx.jobs.move(job, over)
        return _shown(over)

    @property
    def _is_admin(self) -> bool:
        return self.caller.role.covers(Role.ADMIN)

    def _own(self, tx: Transaction, id_: str) -> Job:
        """Find a job that the caller may see."""
        job = tx.jobs.get(ids.parse(ids.JOB, id_))
        if job is None or not (self._is_admin or job.caller.agent == self.caller.agent):
            raise NotFoundError(f"There is no job {id_[:40]!r}.", hint="List the jobs there are.")
        return job

    def _check_role(self, role: Role, *, what: str) -> None:
        if not self.caller.role.covers(role):
            raise RejectedError(
                f"Agent {self.caller.agent} is a {self.caller.role}; {what} takes the role {role}.",
                code="insufficient_role",
                hint=f"Ask an admin for the role {role}.",
            )


def _check_job_quota(tx: Transaction) -> None:
    counts = tx.jobs.counts()
    live = sum(counts.get(state, 0) for state in LIVE)
    if live >= JOBS_LIVE_MAX:
        raise RejectedError(
            f"{live} jobs are unfinished; at most {JOBS_LIVE_MAX} may be.",
            code="limit_exceeded",
            hint="Start a worker with `brain worker`, or cancel some.",
        )


def _wrong_state(job: Job, what: str, *, hint: str) -> RejectedError:
    return RejectedError(
        f"The job {ids.show(ids.JOB, job.id)} is {job.state} and cannot be {what}.",
        code="job_over" if job.state not in LIVE else "job_not_over",
        hint=hint,
    )


def _shown(job: Job) -> JobView:
    return JobView(
        id=ids.show(ids.JOB, job.id),
        kind=job.kind,
        state=job.state,
        progress=round(job.progress, 3),
        attempts=job.attempts,
        agent=job.caller.agent,
        created_at=job.created_at,
        due_at=job.due_at if job.state is JobState.QUEUED else None,
        worker=job.worker if job.state is JobState.RUNNING else None,
        finished_at=job.finished_at,
        given=_displayed_arguments(job.given) or None,
        result=job.result,
        error=job.fault.code if job.fault else None,
        reason=job.fault.message if job.fault else None,
    )


def _displayed_arguments(given: Mapping[str, object]) -> Mapping[str, object]:
    """Tell what a job was given; of a file its name and size, not where its parts are.

    For whom it is done, which is there for its key, is told beside it.
    """
    displayed = {name: value for name, value in given.items() if name != "agent"}
    return {name: _named(value) if name == "parcel" else value for name, value in displayed.items()}


def _named(upload: object) -> object:
    known = read_upload(upload)
    return {"name": known.name, "size": known.size}
