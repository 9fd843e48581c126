"""Purge artifacts: delete uploads and the files of retired models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.model.jobs import JobState
from commonbrain.model.limits import ARTIFACT_RETENTION_DAYS, DISCARDS_AT_ONCE, MODELS_AT_ONCE
from commonbrain.model.model_card import ModelCard, model_name
from commonbrain.model.scope import Caller
from commonbrain.services import Services
from commonbrain.storage.interface import AccessEntry, JobFilter
from commonbrain.storage.job_queue import DISCARD, JobContext, enqueue
from commonbrain.storage.uploads import Upload
from commonbrain.transfer.export import read_upload

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
            task.services.staging.drop(replace(upload, parts=(part,)))
        with task.step() as tx:
            task.save_progress(tx, done / len(upload.parts), reached={})
    with task.step() as tx:
        task.finish(tx, {"bytes": upload.size})


def retry_discards(tx: Transaction, services: Services) -> int:
    """Reset the attempts of failed deletions, one page; return their number."""
    given_up = JobFilter(state=JobState.DEAD, kind=DISCARD)
    dead = tx.jobs.listed(given_up, before=None, limit=DISCARDS_AT_ONCE)
    for job in dead:
        now = services.clock.now()
        enqueue(tx, services, caller=job.caller, kind=DISCARD, given=job.given, due_at=now)
    return len(dead)


ACTION: Final = "artifact_dropped"
"""The action in the access audit; the digest of the model's artifact follows."""
_RETENTION: Final = timedelta(days=ARTIFACT_RETENTION_DAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedArtifacts:
    """The models on one page of cards whose artifacts are no longer needed."""

    cards: Sequence[ModelCard]
    next_id: int | None
    """The card before which the next page begins; None at the end."""


def find_unused_artifacts(tx: Transaction, *, before: int | None, now: datetime) -> UnusedArtifacts:
    """Check a page of cards, newest first."""
    page, protected = tx.models.listed(before=before, limit=MODELS_AT_ONCE), _protected_ids(tx)
    unused = [
        card
        for card in page
        if card.is_over
        and card.digest
        and card.moved_at < now - _RETENTION
        and card.id not in protected
    ]
    return UnusedArtifacts(
        cards=unused, next_id=page[-1].id if len(page) == MODELS_AT_ONCE else None
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
