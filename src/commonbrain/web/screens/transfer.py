"""Transfer: files that are imported, exported and backed up, with progress and reports."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Final, cast

from commonbrain.api.operations.job import JOB, JobRequest
from commonbrain.api.operations.status import STATUS, StatusRequest
from commonbrain.jobs.service import JobView
from commonbrain.model.jobs import LIVE, JobState
from commonbrain.model.limits import ARCHIVE_RETENTION_H, UPLOAD_BYTES_MAX
from commonbrain.model.scope import Role
from commonbrain.storage.job_queue import EXPORT
from commonbrain.transfer.importer import missing_formats
from commonbrain.transfer.imports import ImportReport, Refusal
from commonbrain.transfer.merge import OWN_FORMAT
from commonbrain.web.backups import BackupEstimate, BackupRun, BackupState
from commonbrain.web.screens.screen import Screen
from commonbrain.web.transfers import TRANSFER_PATH
from commonbrain.web.visit import Visit

_IMPORT: Final = "import"
_SHOWN: Final = 10
"""Jobs of each kind on the screen; the list of jobs has the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What a person can do next."""

    text: str
    path: str | None = None
    """The page for it, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferJob:
    """An import or export: its job, and its report if it has one."""

    job: JobView
    name: str
    """The file's name."""
    is_preview: bool
    is_imported: bool
    """Whether what a preview read was imported since."""
    report: ImportReport | None
    unlisted: int
    """Refusals that were counted, but not listed."""
    steps: tuple[NextStep, ...]
    archive: str | None
    """The address of an export's archive, until it expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupView:
    """The last backup, and the size of the next one."""

    last: BackupRun | None
    estimate: BackupEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferView:
    """Files that come in and go out."""

    formats: Mapping[str, str]
    missing_formats: tuple[str, ...]
    """What the extra `import` would add."""
    upload_bytes_max: int
    memories: int
    jobs: tuple[TransferJob, ...]
    """The latest imports and exports, newest first."""
    backup: BackupView | None
    """None if this page makes no backups, or the person is no admin."""
    archive_hours: int
    is_working: bool
    """Whether something is in progress, so that the screen changes by itself."""


def _load(visit: Visit) -> TransferView:
    is_admin = visit.can(Role.ADMIN)
    kinds = (_IMPORT, EXPORT) if is_admin else (_IMPORT,)
    jobs = sorted(
        (
            job
            for kind in kinds
            for job in visit.call(JOB, JobRequest(op="list", kind=kind, limit=_SHOWN)).jobs
        ),
        key=lambda job: (job.created_at, job.id),
        reverse=True,
    )
    importers = visit.brain.services.importers()
    backups = visit.backups if is_admin else None
    last = backups.last if backups is not None else None
    is_backing_up = last is not None and last.state is BackupState.RUNNING
    return TransferView(
        formats={one.name: one.purpose for one in importers.values()}
        | ({OWN_FORMAT: "A Commonbrain export"} if is_admin else {}),
        missing_formats=missing_formats(importers),
        upload_bytes_max=UPLOAD_BYTES_MAX,
        memories=visit.call(STATUS, StatusRequest()).memories,
        jobs=tuple(_shown(one, jobs, now=visit.now) for one in jobs),
        backup=None if backups is None else BackupView(last=last, estimate=backups.estimate()),
        archive_hours=ARCHIVE_RETENTION_H,
        is_working=is_backing_up or any(one.state in LIVE for one in jobs),
    )


def _shown(job: JobView, jobs: Sequence[JobView], *, now: datetime) -> TransferJob:
    given = job.given or {}
    file = given.get("parcel")
    file_name = str(cast("dict[str, Any]", file).get("name", "")) if isinstance(file, dict) else ""
    is_preview = bool(given.get("dry_run"))
    report = _report(job.result) if job.kind == _IMPORT and job.result else None
    refused = report.rejected + report.unreadable if report else 0
    return TransferJob(
        job=job,
        name=file_name if job.kind == _IMPORT else "",
        is_preview=is_preview,
        is_imported=is_preview and any(_imports(one, job) for one in jobs),
        report=report,
        unlisted=refused - len(report.refusals) if report else 0,
        steps=tuple(_steps(job, report, is_preview=is_preview)),
        archive=f"{TRANSFER_PATH}/archive/{job.id}" if _has_archive(job, now) else None,
    )


def _imports(job: JobView, preview: JobView) -> bool:
    """Return whether a job has imported the file of an earlier preview."""
    given = {**(job.given or {}), "dry_run": True}
    is_other = job.id != preview.id and not (job.given or {}).get("dry_run")
    is_later = job.created_at >= preview.created_at
    return is_other and is_later and job.result is not None and given == preview.given


def _has_archive(job: JobView, now: datetime) -> bool:
    is_exported = job.kind == EXPORT and job.state is JobState.DONE
    return is_exported and job.finished_at is not None and now < job.finished_at + _ARCHIVED


_ARCHIVED: Final = timedelta(hours=ARCHIVE_RETENTION_H)


_REPORTED: Final = frozenset(field.name for field in fields(ImportReport))


def _report(result: Mapping[str, Any]) -> ImportReport:
    """Read the report of a job; another version may have stored other fields."""
    known = {name: value for name, value in result.items() if name in _REPORTED}
    known["refusals"] = tuple(
        Refusal(where=one["where"], reason=one["reason"], hint=one.get("hint"))
        for one in known.get("refusals", ())
    )
    return ImportReport(**known)


_REVIEW: Final = "/review?category=proposals"
_OF_ERRORS: Final[Mapping[str, str]] = {
    "action_items_pending": "Acknowledge the action items that bind you, then retry.",
    "blobs_down": "Check the folder or bucket of artifacts, then retry.",
    "extra_missing": "Install commonbrain[import] where the worker runs, then retry.",
    "io_error": "Free space for temporary files on the machine of the worker, then retry.",
    "internal": "The log shows the cause. Retry when it is repaired.",
    "limit_exceeded": "Send it in parts, or import it with brain import where the store is.",
    "not_found": "The upload has expired: send the file again.",
    "quota_exceeded": "Free some of the quota, or raise it, then retry: what is stored stays.",
    "secret_detected": "Leave the secret out of the source, and send it again.",
    "store_read_only": "Make the disk writable, then retry.",
    "took_too_long": "Retry: it continues where it was.",
    "worker_lost": "Retry: it continues where it was.",
}
"""The next step by the code of a job's error."""
_RESEND: Final = "Choose the format that fits the file, or correct the file, and send it again."


def _steps(job: JobView, report: ImportReport | None, *, is_preview: bool) -> Iterator[NextStep]:
    """Yield the next step of each kind of outcome."""
    if job.error is not None and job.state is not JobState.DONE:
        text = _OF_ERRORS.get(job.error, _RESEND)
        yield NextStep(text="It is tried again by itself." if job.state in LIVE else text)
    if report is None:
        return
    if report.quarantined:
        yield NextStep(text=f"Decide on {report.quarantined:,} in the review queue.", path=_REVIEW)
    if report.rejected:
        yield NextStep(
            text="Correct in the source what was refused, as each line says, and import it again: "
            "what is stored stays as it is."
        )
    if report.unreadable:
        yield NextStep(
            text="Repair what could not be read, or leave it out: the rest does not depend on it."
        )
    if report.read == 0:
        yield NextStep(text="Nothing was found in it: check that it is the right file and format.")
    elif not is_preview and report.stored:
        yield NextStep(text="See what came in.", path="/browse")


TRANSFER: Final = Screen(
    name="transfer",
    path=TRANSFER_PATH,
    title="Transfer",
    load=_load,
    key="t",
    role=Role.WRITER,
)
