"""Purge artifacts: delete uploads, archives of exports and the files of retired models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.model import limits
from commonbrain.model.jobs import Job, JobState
from commonbrain.model.model_card import ModelCard, model_name
from commonbrain.model.scope import Caller
from commonbrain.services import Services
from commonbrain.storage.interface import AccessEntry, JobFilter
from commonbrain.storage.job_queue import DISCARD, EXPORT, JobContext, enqueue, key_of
from commonbrain.storage.uploads import Upload

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


def schedule_purge(
    tx: Transaction, services: Services, *, caller: Caller, upload: Upload, due_at: datetime
) -> None:
    """Schedule the deletion of an upload, whatever happens to it."""
    given = {"parcel": asdict(upload)}
    enqueue(tx, services, caller=caller, kind=DISCARD, given=given, due_at=due_at)


def purge_upload(task: JobContext) -> None:
    """Delete an upload part by part; parts may be gone already."""
    upload = read_upload(task.job.given["parcel"])
    for done, part in enumerate(upload.parts, 1):
        task.pause()
        with task.services.store.snapshot(task.caller.tenant) as tx:
            # Training on the same data may have produced the same model again.
            is_held = tx.models.has_artifact(part)
        if not is_held:
            task.services.uploads.drop(replace(upload, parts=(part,)))
        with task.step() as tx:
            task.save_progress(tx, done / len(upload.parts), reached={})
    with task.step() as tx:
        task.finish(tx, {"bytes": upload.size})


def retry_discards(tx: Transaction, services: Services) -> int:
    """Reset the attempts of failed deletions, one page; return their number."""
    given_up = JobFilter(state=JobState.DEAD, kind=DISCARD)
    dead = tx.jobs.listed(given_up, before=None, limit=limits.DISCARDS_AT_ONCE)
    for job in dead:
        now = services.clock.now()
        enqueue(tx, services, caller=job.caller, kind=DISCARD, given=job.given, due_at=now)
    return len(dead)


PENDING_ARCHIVE: Final = "keeping"
"""Key of the upload that an export is about to store, parts of which may exist."""


def withdraw_archives(tx: Transaction, *, now: datetime) -> list[Upload]:
    """Withdraw all archives of export jobs, which contain erased text; running jobs start again.

    They can no longer be fetched. Their parts are deleted after this transaction is committed, or
    by a job that is due now if the process dies before.
    """
    parcels: list[Upload] = []
    before: int | None = None
    while page := tx.jobs.listed(JobFilter(kind=EXPORT), before=before, limit=limits.JOBS_PAGE_MAX):
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


ACTION: Final = "artifact_dropped"
"""The action in the access audit; the digest of the model's artifact follows."""
_RETENTION: Final = timedelta(days=limits.ARTIFACT_RETENTION_DAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedArtifacts:
    """The models on one page of cards whose artifacts are no longer needed."""

    cards: Sequence[ModelCard]
    next_id: int | None
    """The card before which the next page begins; None at the end."""


def find_unused_artifacts(tx: Transaction, *, before: int | None, now: datetime) -> UnusedArtifacts:
    """Check a page of cards, newest first."""
    page, protected = (
        tx.models.listed(before=before, limit=limits.MODELS_AT_ONCE),
        _protected_ids(tx),
    )
    unused = [
        card
        for card in page
        if card.is_over
        and card.digest
        and card.moved_at < now - _RETENTION
        and card.id not in protected
    ]
    return UnusedArtifacts(
        cards=unused, next_id=page[-1].id if len(page) == limits.MODELS_AT_ONCE else None
    )


def count_unused_artifacts(tx: Transaction, *, now: datetime) -> int:
    """Count all models whose artifacts are no longer needed."""
    page = find_unused_artifacts(tx, before=None, now=now)
    count = len(page.cards)
    while page.next_id is not None:
        page = find_unused_artifacts(tx, before=page.next_id, now=now)
        count += len(page.cards)
    return count


def purge_artifacts(
    tx: Transaction, services: Services, *, cards: Sequence[ModelCard], caller: Caller
) -> int:
    """Detach the artifacts of models and schedule their deletion; return the number of models.

    A separate job deletes the bytes, so an unavailable bucket delays nothing, and no model can be
    restored whose bytes are about to be deleted.
    """
    purged = list(_purged(tx, cards, caller=caller, now=services.clock.now()))
    # Training twice on the same data gives the same bytes, which another model may still use.
    digests = {card.digest for card in purged if not tx.models.has_artifact(card.digest)}
    if digests:
        sizes = (card.told.get("bytes") for card in purged if card.digest in digests)
        upload = Upload(
            name="models",
            is_folder=False,
            parts=tuple(sorted(digests)),
            size=sum(size for size in sizes if isinstance(size, int)),
        )
        schedule_purge(tx, services, caller=caller, upload=upload, due_at=services.clock.now())
    return len(purged)


def _purged(
    tx: Transaction, cards: Sequence[ModelCard], *, caller: Caller, now: datetime
) -> Iterator[ModelCard]:
    for card in cards:
        if tx.models.move(card, replace(card, digest="")):
            subject = f"{model_name(card)}: {card.digest}"
            tx.credentials.note(
                AccessEntry(at=now, action=ACTION, agent=caller.agent, subject=subject)
            )
            yield card


def _protected_ids(tx: Transaction) -> frozenset[int]:
    """Return the models that may have to replace the serving one."""
    serving = tx.models.serving()
    replaced = map(tx.models.replaced_by, serving)
    parents = (card.parent for card in serving if card.parent is not None)
    return frozenset({*parents, *(card.id for card in replaced if card is not None)})
