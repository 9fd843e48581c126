"""Job handlers.

Each continues where it stopped, and running twice has the effect of running once.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.administration.embedding_spaces import (
    BuildCursor,
    fill_space,
    services_in_space,
)
from commonbrain.consolidation.artifact_cleanup import (
    PENDING_ARCHIVE,
    archive_of,
    read_upload,
    schedule_purge,
)
from commonbrain.ingestion.embedding import EmbedPending, EmbedProgress
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert_line
from commonbrain.model.limits import ARCHIVE_RETENTION_H, LOCAL_IMPORT, ImportLimits
from commonbrain.storage.job_queue import (
    JobContext,
    JobTimeoutError,
    LeaseLostError,
    WorkerStoppedError,
    enqueue_embedding,
)
from commonbrain.storage.uploads import Upload
from commonbrain.transfer.archive import Export, ExportResult
from commonbrain.transfer.importer import join_part
from commonbrain.transfer.imports import (
    Import,
    ImportReport,
    ImportSource,
    Refusal,
    ResumeOptions,
)
from commonbrain.transfer.merge import OWN_FORMAT, Merge

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


def embed(task: JobContext) -> None:
    """Embed memories that were stored without vectors, in batches."""
    made, left = _count(task, "embedded"), 0

    def record_progress(tx: Transaction, done: EmbedProgress) -> None:
        """Update the count in the transaction that stores the vectors: no crash counts twice."""
        nonlocal made, left
        made += done.count
        left = done.left
        counts = {"embedded": made}
        if done.left and done.count:
            task.save_progress(tx, made / (made + done.left), reached=counts)
        else:
            # A memory stored without a vector from here on creates its own job.
            task.finish(tx, counts)

    pending = EmbedPending(task.services, task.caller)
    while task.is_live:
        with task.fenced():
            pending(on_commit=record_progress)
    # A transaction that found this job unfinished may have stored more while the job finished.
    with task.services.store.begin(task.caller.tenant) as tx:
        if tx.missing_embeddings.pending() > left:
            enqueue_embedding(tx, task.services, caller=task.caller, is_down=False)


def rebuild_text_index(task: JobContext) -> None:
    """Rebuild the full-text index from the rows."""

    def record_progress(progress: float) -> None:
        with task.step() as tx:
            task.save_progress(tx, progress, reached={})

    words = task.services.store.rebuild_text(record_progress)
    with task.step() as tx:
        task.finish(tx, {"reworded": words})


def _count(task: JobContext, name: str) -> int:
    """Return the count of earlier attempts."""
    return cast("int", task.job.reached.get(name, 0))


def reembed(task: JobContext) -> None:
    """Add vectors of another embedding space to every memory; switching is a separate step.

    Memories that have them are skipped, so that a batch whose progress was not recorded is not
    lost.
    """
    other = services_in_space(task.services, cast("str | None", task.job.given.get("space")))
    spaces, space_id = other.store.spaces, other.store.spaces.add(other.store.space).id
    total = max(sum(spaces.missing_vectors(space_id).values()), 1)
    known = task.job.reached
    since = BuildCursor(
        tenant=cast("str", known.get("tenant", "")),
        after=_count(task, "after"),
        passes=_count(task, "passes"),
    )
    made = 0
    task.pause()
    for count, at in fill_space(other, since=since):
        made += count
        with task.step() as tx:
            task.save_progress(tx, min(made / total, 1.0), reached=asdict(at))
        task.pause()
    left = sum(spaces.missing_vectors(space_id).values())
    with task.step() as tx:
        task.finish(tx, {"space": other.store.space.name, "missing": left})


ARCHIVE_RETENTION: Final = timedelta(hours=ARCHIVE_RETENTION_H)
_ARCHIVE: Final = "commonbrain.jsonl"
_UPLOADED: Final = 0.9
"""Progress of an export when everything is written but not uploaded."""


def import_(task: JobContext) -> None:
    """Import a file in batches; the report is the result.

    A dry run starts anew in each attempt, and leaves the upload for the import.
    """
    given = task.job.given
    upload, is_dry_run = read_upload(given["parcel"]), bool(given.get("dry_run"))
    # Postgres stores no NUL, which the name of a file that was sent may contain.
    name = inert_line(upload.name)
    # Only what a client sent has the limits of the settings.
    limits = task.services.import_limits if given.get("sent") else LOCAL_IMPORT
    reader = task.services.importers().get(str(given["format"]))
    stays_packed = reader is not None and reader.reads_zip
    opened = task.services.uploads.opened(upload, limits=limits, stays_packed=stays_packed)
    with _discarding_unusable(task, upload), opened as file:
        path = join_part(file, cast("str | None", given.get("part")))
        known = None if is_dry_run else _report(task.job.reached)
        since = known or ImportReport(format=str(given["format"]), source=name)
        try:
            report = (
                _previewed(task, path, limits=limits)
                if is_dry_run
                else _taken_in(task, path, since=since, limits=limits)
            )
        except InvalidInputError as error:
            # The requester knows the file by its name, not by the path of this copy.
            message = error.message.replace(str(file), name)
            raise InvalidInputError(message, code=error.code, hint=error.hint) from error
    with task.step() as tx:
        task.finish(tx, {**asdict(replace(report, source=name))})
    if not is_dry_run:
        task.services.uploads.drop(upload)


@contextmanager
def _discarding_unusable(task: JobContext, upload: Upload) -> Generator[None]:
    """Delete an upload that no further attempt could import: it would stay for days."""
    try:
        yield
    except InvalidInputError as error:
        if error.code in _UNUSABLE:
            task.services.uploads.drop(upload)
        raise


_UNUSABLE: Final = frozenset({"invalid", "limit_exceeded"})
"""Codes of errors in the file itself; others, such as `extra_missing`, can be repaired."""


def _previewed(task: JobContext, path: Path, *, limits: ImportLimits) -> ImportReport:
    services, caller, given = task.services, task.caller, task.job.given

    def move(report: ImportReport) -> None:
        with task.step() as tx:
            task.save_progress(tx, report.progress, reached={})

    resume = ResumeOptions(check_may_continue=task.pause, limits=limits)
    if given["format"] == OWN_FORMAT:
        return Merge(services, caller)(path, dry_run=True, on_progress=move, resume=resume)
    source = replace(_source(given, path), is_dry_run=True)
    return Import(services, caller).go_on(source, resume=resume, on_progress=move)


def _taken_in(
    task: JobContext, path: Path, *, since: ImportReport, limits: ImportLimits
) -> ImportReport:
    services, caller, given = task.services, task.caller, task.job.given

    def save(tx: Transaction, report: ImportReport) -> None:
        task.save_progress(tx, report.progress, reached=asdict(report))

    # What was stored and the report of it are committed together.
    resume = ResumeOptions(
        since=since,
        batch_context=task.fenced,
        check_may_continue=task.pause,
        on_commit=save,
        limits=limits,
    )
    if since.format == OWN_FORMAT:
        return Merge(services, caller)(path, resume=resume)
    return Import(services, caller).go_on(_source(given, path), resume=resume)


def _source(given: Mapping[str, object], path: Path) -> ImportSource:
    return ImportSource(
        format=str(given["format"]),
        path=path,
        project=cast("str | None", given.get("project")),
        extract_causes=bool(given.get("extract_causes")),
        projects=cast("Mapping[str, str]", given.get("projects", {})),
    )


def export(task: JobContext) -> None:
    """Export everything into an archive that its requester can download for a day."""
    services, exported = task.services, list[ExportResult]()
    left = archive_of(task.job)
    if left is not None:
        # Left by an attempt that died while uploading.
        services.uploads.drop(left)

    def move(share: float) -> None:
        with task.step() as tx:
            task.save_progress(tx, _UPLOADED * share, reached={})

    def write(path: Path) -> None:
        exported.append(Export(services, task.caller)(path, on_progress=move))

    def on_commit(upload: Upload) -> None:
        # It can be downloaded for a day after the job ends, which is within the time limit.
        due_at = services.clock.now() + task.limit + ARCHIVE_RETENTION
        with task.step() as tx:
            schedule_purge(tx, services, caller=task.caller, upload=upload, due_at=due_at)
            task.save_progress(tx, _UPLOADED, reached={PENDING_ARCHIVE: asdict(upload)})

    upload = services.uploads.made(_ARCHIVE, write, on_start=on_commit)
    try:
        with task.step() as tx:
            task.save_progress(tx, 1.0, reached={"parcel": asdict(upload)})
            counts = {"memories": exported[0].memories, "records": exported[0].records}
            task.finish(tx, {**counts, "bytes": upload.size, "kept_h": ARCHIVE_RETENTION_H})
    except (LeaseLostError, WorkerStoppedError, JobTimeoutError):
        # Delete the unreferenced archive: it may hold memories that were erased since.
        services.uploads.drop(upload)
        raise


def _report(reached: Mapping[str, object]) -> ImportReport | None:
    if not reached:
        return None
    # Versions up to 0.1 counted no relations and omissions, so what they read is the position.
    fields: dict[str, Any] = {"position": reached["read"], **reached}
    fields["refusals"] = tuple(Refusal(**one) for one in fields["refusals"])
    return ImportReport(**fields)
