"""Jobs for agents and users: create, show, list, retry and cancel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commonbrain.consolidation.artifact_cleanup import (
    expedite_discard,
    read_upload,
    schedule_purge,
)
from commonbrain.ingestion.validation import check_address
from commonbrain.jobs.registry import check_arguments, kind_of
from commonbrain.model import ids, limits
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    NotFoundError,
    RejectedError,
    parse_choice,
)
from commonbrain.model.jobs import FAILED, LIVE, Job, JobState
from commonbrain.model.paging import Listing
from commonbrain.model.scope import LOCAL_TENANT, Authority, Role, who_may
from commonbrain.security.authority import check_is_person
from commonbrain.services import Capability
from commonbrain.storage.interface import JobFilter
from commonbrain.storage.job_queue import EXPORT, enqueue, key_of, notify_worker
from commonbrain.storage.uploads import Upload, check_packed
from commonbrain.transfer.archive import check_may_move
from commonbrain.transfer.importer import (
    check_is_path,
    database_url,
    find_importer,
    split_part,
)
from commonbrain.transfer.merge import OWN_FORMAT

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

UPLOAD_RETENTION: Final = timedelta(days=limits.UPLOAD_RETENTION_DAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job: its kind, progress and result."""

    id: str
    kind: str
    state: JobState
    progress: float
    attempts: int
    agent: str
    """The agent that requested the job."""
    created_at: datetime
    due_at: datetime | None = None
    """Earliest start of a waiting job."""
    worker: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    done: int | None = None
    """What an unfinished job has done, in its `unit`; None for kinds that do not count."""
    total: int | None = None
    """What it has to do: the bytes of the file that it imports, else an estimate."""
    unit: str | None = None
    """`bytes` or `memories`."""
    estimated_end: datetime | None = None
    """When it ends at its pace since `started_at`, time in the queue included.

    None before 1%, and after a failed attempt, whose end says nothing about the pace.
    """
    given: Mapping[str, object] | None = None
    result: Mapping[str, object] | None = None
    error: str | None = None
    """Error code of the last attempt."""
    reason: str | None = None
    """Error message of the last attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsReply:
    """Jobs, newest first."""

    jobs: tuple[JobView, ...]
    next: str | None = None
    """The cursor of the next page of a list; None on the last one."""
    more: int = 0
    """Jobs after this page; 1,000 means 1,000 or more."""


class Jobs(Capability):
    """Jobs of one caller: admins see all jobs of the tenant, others their own."""

    def __call__(
        self,
        *,
        state: JobState | str | None = None,
        kind: str | None = None,
        limit: int = limits.JOBS_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> JobsReply:
        """List jobs, newest first.

        Args:
            state: only jobs in this state.
            kind: only jobs of this kind.
            limit: 1 to 100 jobs.
            cursor: `next` of the page before.

        Raises:
            InvalidInputError: Unknown state or kind, or a malformed cursor.
            RejectedError: `limit_exceeded`.

        """
        filters = {"state": state, "kind": kind}
        listing = Listing(name="jobs", limit=limit, cursor=cursor, filters=filters)
        after = listing.checked(limits.JOBS_PAGE_MAX).after(int)
        filter_ = JobFilter(
            state=None if state is None else parse_choice(JobState, state),
            kind=kind,
            agent=None if self._is_admin else self.caller.agent,
        )
        below = None if after is None else int(after[0])
        with self.services.store.snapshot(self.caller.tenant) as tx:
            page = listing.page(
                tx.jobs.listed(filter_, before=below, limit=limit + 1),
                key=lambda job: (job.id,),
                count=lambda most: tx.jobs.count(filter_, before=below, at_most=most),
            )
        return JobsReply(jobs=tuple(map(self._shown, page.rows)), next=page.next, more=page.more)

    def show(self, id_: str) -> JobView:
        """Show one job.

        Raises:
            NotFoundError: There is no such job, or another agent owns it.

        """
        with self.services.store.snapshot(self.caller.tenant) as tx:
            return self._shown(self._own(tx, id_))

    def run(self, kind: str, given: Mapping[str, object] | None = None) -> JobView:
        """Create a job; an identical unfinished job is returned instead.

        Raises:
            InvalidInputError: Unknown kind or invalid arguments; `extra_missing`, the package is
                not installed that runs it.
            RejectedError: The role is insufficient, or too many jobs wait; `secret_detected`.

        """
        known, arguments = kind_of(kind), dict(given or {})
        known.handler(kind)
        if known.asked_by is not None:
            raise InvalidInputError(
                f"{kind} cannot be asked for alone.", hint=f"It is by {known.asked_by}."
            )
        check_arguments(kind, arguments)
        texts = [one for one in arguments.values() if isinstance(one, str)]
        check_address(texts, self.services.secret_scanner)
        self._check_role(known.role, what=kind)
        if known.is_personal:
            arguments["agent"] = self.caller.agent
        if known.is_store_wide and self.caller.tenant != LOCAL_TENANT:
            raise RejectedError(
                f"{kind} works on what all tenants of this store share.",
                code="scope_denied",
                hint="Ask the operator of the server.",
            )
        return self._add(kind, arguments)

    def import_(
        self,
        format_: str,
        source: Path,
        *,
        name: str | None = None,
        project: str | None = None,
        dry_run: bool = False,
    ) -> JobView:
        """Upload a file or folder and create the job that imports it.

        A dry run reads and validates everything and stores nothing; `import_previewed` then imports
        the same upload.

        Args:
            format_: the name of an importer, or that of an export.
            source: the file or folder.
            name: the name of a source that was sent here, of which `source` is a copy. Its projects
                are those that its paths name; otherwise the folders of this machine give them.
                Both names may end in the part to import: `brainstem.db#tenant`.
            project: overrides the project that the source suggests.
            dry_run: store nothing.

        Raises:
            InvalidInputError: Unknown format, or the file is unreadable or too large;
                `extra_missing`, the package of the format is not installed; `limit_exceeded`, it is
                a zip of too much.
            RejectedError: The role is insufficient, or too many jobs wait; `secret_detected`, in a
                name.
            UnavailableError: `blobs_down`; nothing was stored.

        """
        self.check_may_import(format_)
        check_address((name or "", project or ""), self.services.secret_scanner)
        is_own = format_ == OWN_FORMAT
        importer = None if is_own else find_importer(self.services.importers(), format_)
        if is_own and project is not None:
            raise InvalidInputError(
                "An export keeps its own projects.", hint="Leave the project out."
            )
        if database_url(source) is not None:
            raise InvalidInputError(
                "A database cannot be uploaded.", hint="Import it in the foreground, or a dump."
            )
        check_is_path(source)
        with self.services.store.snapshot(self.caller.tenant) as tx:
            _check_job_quota(tx)
            if name is not None:
                _check_imports(tx)
        if name is not None:
            check_packed(source, self.services.import_limits)
        part: str | None = None
        reads_part = importer is not None and importer.reads_part
        if reads_part and name is not None:
            named, part = split_part(Path(name))
            name = named.name
        elif reads_part and not source.exists():
            source, part = split_part(source)
        projects: Mapping[str, str] | None = None
        if importer and name is None and project is None:
            projects = importer.projects_in(source)
        upload = self._upload(
            source, name, hidden=importer.hidden_files if importer else frozenset()
        )
        given = {"format": format_, "project": project, "parcel": asdict(upload)}
        # What was sent keeps the limits of what is sent, also in a worker.
        is_sent = name is not None
        further = {"projects": projects, "part": part, "dry_run": dry_run, "sent": is_sent}
        return self._add("import", given | {one: value for one, value in further.items() if value})

    def import_previewed(self, id_: str) -> JobView:
        """Create the job that imports what a dry run read; repeating it returns the same job.

        Raises:
            NotFoundError: There is no such dry run, it is not done, or its upload has expired.
            RejectedError: The role is insufficient, or too many jobs wait.

        """
        with self.services.store.snapshot(self.caller.tenant) as tx:
            preview = self._own(tx, id_)
            given = {one: value for one, value in preview.given.items() if one != "dry_run"}
            same = JobFilter(kind="import", key=key_of("import", given))
            earlier = next(iter(tx.jobs.listed(same, before=None, limit=1)), None)
        is_done = preview.state is JobState.DONE and "dry_run" in preview.given
        if preview.kind != "import" or not is_done:
            raise NotFoundError(
                f"{id_[:40]} is no finished dry run of an import.", hint="Upload the file again."
            )
        self.check_may_import(str(given["format"]))
        if earlier is not None and earlier.state not in FAILED:
            return self._shown(earlier)
        if preview.created_at + UPLOAD_RETENTION <= self.services.clock.now():
            raise NotFoundError(
                f"The upload of {id_[:40]} has expired.", hint="Upload the file again."
            )
        return self._add("import", given)

    def archive(self, id_: str) -> Upload:
        """Return the archive of an export, for admins, until it expires.

        Raises:
            NotFoundError: There is no such export, it is not done, or its archive has expired.
            UnavailableError: Reads are audited, and the line cannot be written.

        """
        with self.services.store.snapshot(self.caller.tenant) as tx:
            job = self._own(tx, id_)
        retention, now = timedelta(hours=limits.ARCHIVE_RETENTION_H), self.services.clock.now()
        is_retained = job.finished_at and job.finished_at + retention > now
        is_there = job.kind == EXPORT and job.state is JobState.DONE and "parcel" in job.reached
        if not (is_there and is_retained):
            raise NotFoundError(
                f"{id_[:40]} has no archive.",
                hint="Ask for one with job run export; fetch it within a day, before an erase.",
            )
        check_may_move(self.caller)
        if self.services.guard is not None:
            memories = int(str((job.result or {}).get("memories", 0)))
            self.services.guard.note_copy(
                self.caller, action="export", subject=id_, memories=memories
            )
        return read_upload(job.reached["parcel"])

    def _add(self, kind: str, given: Mapping[str, object]) -> JobView:
        now = self.services.clock.now()
        with self.services.store.begin(self.caller.tenant) as tx:
            _check_job_quota(tx)
            job = enqueue(tx, self.services, caller=self.caller, kind=kind, given=given, due_at=now)
        notify_worker(self.services, job)
        return self._shown(job)

    def _upload(self, source: Path, name: str | None, *, hidden: frozenset[str]) -> Upload:
        """Upload a file or folder; it expires even if the client fails."""
        from commonbrain.transfer.snapshots import snapshot_of  # noqa: PLC0415

        begun = list[Upload]()

        def on_created(upload: Upload) -> None:
            due_at = self.services.clock.now() + UPLOAD_RETENTION
            with self.services.store.begin(self.caller.tenant) as tx:
                schedule_purge(tx, self.services, caller=self.caller, upload=upload, due_at=due_at)
            begun.append(upload)

        try:
            if name is not None:
                return self.services.uploads.put(source, name=name, on_start=on_created)
            with snapshot_of(source, hidden=hidden) as whole:
                return self.services.uploads.put(whole, hidden=hidden, on_start=on_created)
        except CommonbrainError:
            # Otherwise the unfinished job would block identical ones for days.
            with self.services.store.begin(self.caller.tenant) as tx:
                for upload in begun:
                    expedite_discard(tx, upload, now=self.services.clock.now())
            raise

    def retry(self, id_: str) -> JobView:
        """Restart a dead or cancelled job with all its attempts.

        Raises:
            NotFoundError: There is no such job, or another agent owns it.
            RejectedError: `job_not_over`: it waits, runs, or succeeded; `insufficient_role`;
                `person_required`.

        """
        with self.services.store.begin(self.caller.tenant) as tx:
            job = self._changeable(tx, id_, what="Restarting")
            self._check_role(kind_of(job.kind).role, what=job.kind)
            if job.state not in FAILED:
                raise _wrong_state(job, "retried", hint="Only dead and cancelled jobs are.")
            now = self.services.clock.now()
            # An identical job was created since: return that one.
            twin = tx.jobs.keyed(job.key) if job.key else None
            again = twin or job.retried(now, by=self.caller)
            if twin is None:
                tx.jobs.move(job, again)
        notify_worker(self.services, again)
        return self._shown(again)

    def cancel(self, id_: str) -> JobView:
        """Cancel an unfinished job; completed steps stay, and a running worker stops.

        Raises:
            NotFoundError: There is no such job, or another agent owns it.
            RejectedError: `job_over`; `person_required`.

        """
        with self.services.store.begin(self.caller.tenant) as tx:
            job = self._changeable(tx, id_, what="Cancelling")
            if job.state is JobState.CANCELLED:
                return self._shown(job)
            if job.state not in LIVE:
                raise _wrong_state(job, "cancelled", hint="It is over.")
            over = job.cancelled(self.services.clock.now())
            tx.jobs.move(job, over)
        return self._shown(over)

    def _shown(self, job: Job) -> JobView:
        return _view(job, now=self.services.clock.now())

    @property
    def _is_admin(self) -> bool:
        return self.caller.role.covers(Role.ADMIN)

    def _own(self, tx: Transaction, id_: str) -> Job:
        """Return a job that the caller may see."""
        job = tx.jobs.get(ids.parse(ids.JOB, id_))
        if job is None or not (self._is_admin or job.caller.agent == self.caller.agent):
            raise NotFoundError(f"There is no job {id_[:40]!r}.", hint="List the jobs there are.")
        return job

    def _changeable(self, tx: Transaction, id_: str, *, what: str) -> Job:
        """Return a job that the caller may cancel or restart: a person's takes a person."""
        job = self._own(tx, id_)
        if job.caller.authority is Authority.PERSON:
            check_is_person(self.caller, f"{what} a job of a person")
        return job

    def check_may_import(self, format_: str) -> None:
        """Check that the caller may import anything in a format, before it sends the file.

        Raises:
            RejectedError: The role is insufficient.
            LimitExceededError: `quota_exceeded`, the tenant holds as many memories as it may.

        """
        self._check_role(Role.ADMIN if format_ == OWN_FORMAT else Role.WRITER, what="import")
        if self.services.guard is not None:
            self.services.guard.check_quota(self.caller)

    def _check_role(self, role: Role, *, what: str) -> None:
        if not self.caller.role.covers(role):
            raise RejectedError(
                f"Agent {self.caller.agent} is a {self.caller.role}; {what} takes the role {role}.",
                code="insufficient_role",
                hint=who_may(self.caller, role),
            )


def _check_job_quota(tx: Transaction) -> None:
    counts = tx.jobs.counts()
    live = sum(counts.get(state, 0) for state in LIVE)
    if live >= limits.JOBS_LIVE_MAX:
        raise RejectedError(
            f"{live} jobs are unfinished; at most {limits.JOBS_LIVE_MAX} may be.",
            code="limit_exceeded",
            hint="Start a worker with `brain worker`, or cancel some.",
        )


def _check_imports(tx: Transaction) -> None:
    """Limit the files of a tenant that wait to be imported."""
    live = sum(
        tx.jobs.count(
            JobFilter(state=one, kind="import"), before=None, at_most=limits.SENT_IMPORTS_MAX
        )
        for one in LIVE
    )
    if live >= limits.SENT_IMPORTS_MAX:
        raise RejectedError(
            f"{live} imports are unfinished; at most {limits.SENT_IMPORTS_MAX} may be.",
            code="limit_exceeded",
            hint="Wait until one has ended, or cancel some: job list shows them.",
        )


def _wrong_state(job: Job, what: str, *, hint: str) -> RejectedError:
    return RejectedError(
        f"The job {ids.show(ids.JOB, job.id)} is {job.state} and cannot be {what}.",
        code="job_over" if job.state not in LIVE else "job_not_over",
        hint=hint,
    )


def _view(job: Job, *, now: datetime) -> JobView:
    done, total, unit = _amounts(job)
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
        started_at=job.started_at,
        finished_at=job.finished_at,
        done=done,
        total=total,
        unit=unit,
        estimated_end=_estimated_end(job, now=now),
        given=_displayed_arguments(job.given) or None,
        result=job.result,
        error=job.fault.code if job.fault else None,
        reason=job.fault.message if job.fault else None,
    )


_COUNTERS: Final = {"embed": "embedded", "atomize": "read"}
"""By kind of job, the name of the memories that it counts in `reached`."""
_ESTIMATED_FROM: Final = 0.01
"""The progress from which its pace says something."""


def _amounts(job: Job) -> tuple[int | None, int | None, str | None]:
    """Return what an unfinished job has done, what it has to do, and the unit of both."""
    if job.state not in LIVE or not job.progress:
        return None, None, None
    if "parcel" in job.given:
        size = read_upload(job.given["parcel"]).size
        return round(job.progress * size), size, "bytes"
    done = job.reached.get(_COUNTERS.get(job.kind, ""))
    if not isinstance(done, int):
        return None, None, None
    return done, max(round(done / job.progress), done), "memories"


def _estimated_end(job: Job, *, now: datetime) -> datetime | None:
    is_measured = job.state in LIVE and job.fault is None and job.progress >= _ESTIMATED_FROM
    if not is_measured or job.started_at is None:
        return None
    left = (now - job.started_at) * ((1 - job.progress) / job.progress)
    return (now + left).replace(microsecond=0)


def _displayed_arguments(given: Mapping[str, object]) -> Mapping[str, object]:
    """Return the arguments to display; of a file its name and size only.

    The requesting agent is shown separately; the projects of all folders would be a long list.
    """
    hidden = ("agent", "projects", "sent")
    displayed = {name: value for name, value in given.items() if name not in hidden}
    return {name: _named(value) if name == "parcel" else value for name, value in displayed.items()}


def _named(upload: object) -> object:
    known = read_upload(upload)
    return {"name": known.name, "size": known.size}
