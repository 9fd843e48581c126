"""Export: all data of a tenant that cannot be derived, in one consistent file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.model.errors import RejectedError
from commonbrain.model.jobs import Job, JobState
from commonbrain.model.limits import JOBS_PAGE_MAX
from commonbrain.model.scope import Caller, Role
from commonbrain.services import Services
from commonbrain.storage.interface import JobFilter
from commonbrain.storage.job_queue import DISCARD, EXPORT, key_of
from commonbrain.storage.uploads import Upload
from commonbrain.transfer.archive import ArchivedRecord, Record, write_archive

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

PENDING_ARCHIVE: Final = "keeping"
"""Key of the upload that an export is about to store, parts of which may exist."""
_PAGE: Final = 500
"""Memories in memory at once; the file is as long as the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """What an export wrote, and where."""

    path: str
    memories: int
    records: int
    """Includes threads, links, annotations, changes, receipts and acknowledgements."""


@dataclass(frozen=True, slots=True)
class Export:
    """Exports for one caller."""

    services: Services
    caller: Caller

    def __call__(
        self, target: str | Path, *, on_progress: Callable[[float], None] = lambda _: None
    ) -> ExportResult:
        """Write every memory of the tenant to a new file, in every state and scope.

        Private memories of all agents are included: protect the file like the store. The audit,
        traces and vectors are not included.

        Args:
            target: a file that does not exist yet.
            on_progress: called with the progress, 0..1, after every 500 memories.

        Raises:
            RejectedError: `insufficient_role`, the caller is not an admin.
            InvalidInputError: the file exists already.
            UnavailableError: the store or the file cannot be used; no file is left.

        """
        check_may_move(self.caller)
        path = Path(target)
        with self.services.store.snapshot(self.caller.tenant) as tx:
            total = sum(tx.memories.counts().values())
            if self.services.guard is not None:
                self.services.guard.note_copy(
                    self.caller, action="export", subject=path.name, memories=total
                )
            records = write_archive(path, _all(tx, total=total, on_progress=on_progress))
        return ExportResult(path=str(path), memories=total, records=records)


def check_may_move(caller: Caller) -> None:
    """Check that the caller is an admin.

    Raises:
        RejectedError: `insufficient_role`.

    """
    if caller.role is not Role.ADMIN:
        raise RejectedError(
            f"Agent {caller.agent} is a {caller.role}; export and its import are for admins.",
            code="insufficient_role",
            hint="Ask an admin.",
        )


def withdraw_archives(tx: Transaction, *, now: datetime) -> list[Upload]:
    """Withdraw all archives of export jobs, which contain erased text; running jobs start again.

    They can no longer be fetched. Their parts are deleted after this transaction is committed, or
    by a job that is due now if the process dies before.
    """
    parcels: list[Upload] = []
    before: int | None = None
    while page := tx.jobs.listed(JobFilter(kind=EXPORT), before=before, limit=JOBS_PAGE_MAX):
        before = page[-1].id
        for job in page:
            upload = archive_of(job)
            if upload is not None and expedite_discard(tx, upload, now=now):
                parcels.append(upload)
            if upload is not None or job.state is JobState.RUNNING:
                is_running = job.state is JobState.RUNNING
                tx.jobs.move(job, replace(job.given_back(now) if is_running else job, reached={}))
    return parcels


def archive_of(export: Job) -> Upload | None:
    """Return the archive of an export, or what it has begun to store."""
    stored = export.reached.get("parcel", export.reached.get(PENDING_ARCHIVE))
    return None if stored is None else read_upload(stored)


def expedite_discard(tx: Transaction, upload: Upload, *, now: datetime) -> bool:
    """Delete an upload now rather than later; return whether it still existed."""
    key = key_of(DISCARD, {"parcel": asdict(upload)})
    waiting = tx.jobs.keyed(key)
    if waiting is None:
        given_up = JobFilter(state=JobState.DEAD, key=key)
        return bool(tx.jobs.listed(given_up, before=None, limit=1))
    if waiting.state is JobState.QUEUED:
        tx.jobs.move(waiting, replace(waiting, due_at=now))
    return True


def read_upload(job_value: object) -> Upload:
    """Parse an upload from the row of a job."""
    given: dict[str, Any] = {**cast("Mapping[str, Any]", job_value)}
    given["parts"] = tuple(given["parts"])
    return Upload(**given)


def _all(tx: Transaction, *, total: int, on_progress: Callable[[float], None]) -> Iterator[Record]:
    """Yield all records so that each refers to earlier ones only."""
    yield from _threads(tx)
    for done, page in enumerate(_pages(tx), 1):
        latest = tx.changes.latest(page)
        for memory in tx.memories.get(page).values():
            yield ArchivedRecord(memory=memory, changed=latest.get(memory.id, 0))
        on_progress(min(1.0, done * _PAGE / max(total, 1)))
    for page in _pages(tx):
        yield from _related_records(tx, page)
    for page in _pages(tx):
        # They follow from the rest, except confirmations, and may refer to any two memories.
        for those in tx.reviews.of(page).values():
            yield from those


def _threads(tx: Transaction) -> Iterator[Record]:
    after = 0
    while page := tx.threads.page(after=after, limit=_PAGE):
        yield from page
        after = page[-1].id


def _pages(tx: Transaction) -> Iterator[list[int]]:
    after = -1
    while page := tx.memories.page(after=after, limit=_PAGE):
        yield page
        after = page[-1]


def _related_records(tx: Transaction, page: list[int]) -> Iterator[Record]:
    """Yield the records related to some memories; a link belongs to its first memory."""
    here = set(page)
    yield from (link for link in tx.links.touching(page) if link.from_id in here)
    for notes in tx.annotations.of(page).values():
        yield from notes
    yield from tx.changes.of(page)
    for receipts in tx.messages.of(page).values():
        yield from receipts
    for acks in tx.acks.of(page).values():
        yield from acks
