"""The job that drops artifacts: it is there before they are, or with what says they are over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.learning.transitions import model_name, replaced_by
from commonbrain.model.jobs import JobState
from commonbrain.model.limits import ARTIFACTS_KEPT_DAYS, DISCARDS_AT_ONCE, MODELS_AT_ONCE
from commonbrain.model.model_card import ModelCard, ModelRole
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
    """See to it that a parcel does not stay for ever, whatever becomes of it."""
    given = {"parcel": asdict(upload)}
    enqueue(tx, services, caller=caller, kind=DISCARD, given=given, due_at=due_at)


def purge_upload(task: JobContext) -> None:
    """Drop a parcel part by part; there may be nothing left of it."""
    upload = read_upload(task.job.given["parcel"])
    for done, part in enumerate(upload.parts, 1):
        task.pause()
        with task.services.store.snapshot(task.caller.tenant) as tx:
            # Who learns from what was learnt from before may have made the same model again.
            is_held = tx.models.has_artifact(part)
        if not is_held:
            task.services.staging.drop(replace(upload, parts=(part,)))
        with task.step() as tx:
            task.save_progress(tx, done / len(upload.parts), reached={})
    with task.step() as tx:
        task.finish(tx, {"bytes": upload.size})


def retry_discards(tx: Transaction, services: Services) -> int:
    """Give those that were given up their attempts again, a page of them; count them."""
    given_up = JobFilter(state=JobState.DEAD, kind=DISCARD)
    dead = tx.jobs.listed(given_up, before=None, limit=DISCARDS_AT_ONCE)
    for job in dead:
        now = services.clock.now()
        enqueue(tx, services, caller=job.caller, kind=DISCARD, given=job.given, due_at=now)
    return len(dead)


ACTION: Final = "artifact_dropped"
"""What the audit of access says was done to a model; its digest follows there."""
_RETENTION: Final = timedelta(days=ARTIFACTS_KEPT_DAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedArtifacts:
    """The models on one page of cards whose artifacts have no use any more."""

    cards: Sequence[ModelCard]
    next_id: int | None
    """Before which card the next page begins; None after the last."""


def find_unused_artifacts(tx: Transaction, *, before: int | None, now: datetime) -> UnusedArtifacts:
    """Look through a page of cards, the newest first."""
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
    """Count all models whose artifacts have no use any more."""
    page = find_unused_artifacts(tx, before=None, now=now)
    count = len(page.cards)
    while page.next_id is not None:
        page = find_unused_artifacts(tx, before=page.next_id, now=now)
        count += len(page.cards)
    return count


def purge_artifacts(
    tx: Transaction, services: Services, *, cards: Sequence[ModelCard], caller: Caller
) -> int:
    """Take their artifacts from models, and have them dropped; count the models.

    The bytes are dropped by a job of its own, so that a bucket which is down holds up nothing, and
    no model can be brought back whose bytes are about to go.
    """
    purged = list(_purged(tx, cards, caller=caller, now=services.clock.now()))
    # Who learns twice from the same makes the same: another model may live on these bytes.
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
    """Give the models that may have to serve again for one that does."""
    serving = [card for role in ModelRole for card in tx.models.serving(role)]
    replaced = (replaced_by(tx, card) for card in serving)
    parents = (card.parent for card in serving if card.parent is not None)
    return frozenset({*parents, *(card.id for card in replaced if card is not None)})
