"""Records of a change, written in its transaction: audit, event and before-image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.embeddings.interface import Vectors
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import TaskDetail
from commonbrain.model.links import link_of
from commonbrain.model.memory import FINDABLE_STATES, Memory
from commonbrain.model.query import FeedbackEvent
from commonbrain.model.revision import Action, Revision, difference, ended_belief
from commonbrain.model.scope import Caller, Trust
from commonbrain.model.support import CONCERNED, InvalidationReason, Review
from commonbrain.model.tasks import holder_of, is_leased, needs_ack
from commonbrain.model.timestamps import show_instant
from commonbrain.model.values import asdict, dataclass, replace
from commonbrain.services import Services
from commonbrain.storage.interface import Annotation, AuditEntry

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

CHAIN_MAX: Final = 1000
"""Limit of revisions followed in one chain, far above any real chain."""
_TOPICS: Final = {
    Action.CREATE: "memory.created",
    Action.FORGET: "memory.forgotten",
    Action.SUPERSEDE: "memory.superseded",
    Action.RESTORE: "memory.restored",
    Action.ERASE: "memory.erased",
    Action.PRUNE: "memory.forgotten",
}
"""Topics of outbox events; other changes publish none."""
_SUPPORT_FIELDS: Final = ("state", "trust", "expires_at", "project")
"""Fields whose change may invalidate the dependants of a memory, or validate them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeContext:
    """The action, caller, time and reason that every record of a change repeats."""

    action: Action
    caller: Caller
    at: datetime
    reason: str | None = None


def record_created(tx: Transaction, memory: Memory, *, change_context: ChangeContext) -> None:
    """Record the creation of a memory."""
    _record(tx, memory, change_context=change_context, change=_change(memory, change_context))


def record_update(
    tx: Transaction,
    before: Memory,
    *,
    after: Memory,
    change_context: ChangeContext,
    vectors: Vectors | None = None,
) -> None:
    """Update the row of a memory, its index entries and the records.

    `vectors` are for a memory that becomes findable again; without them only words find it.
    """
    old, new = difference(before, after)
    tx.memories.update(before, after)
    follow_changes(tx, before, after=after, vectors=vectors)
    if any(name in new for name in _SUPPORT_FIELDS) or needs_ack(before.detail) != needs_ack(
        after.detail
    ):
        tx.reviews.touch([after.id], at=change_context.at)
    believed = ended_belief(before, after, at=change_context.at)
    change = replace(_change(before, change_context), before=old, after=new, believed=believed)
    _record(tx, after, change_context=change_context, change=change)


def record_related_change(
    tx: Transaction,
    memory: Memory,
    *,
    change_context: ChangeContext,
    before: Mapping[str, object],
    after: Mapping[str, object],
) -> None:
    """Record a change of a link or annotation; the images hold a `link` or an `annotation`."""
    for image in (before, after):
        touch_linked(tx, image.get("link"), at=change_context.at)
    change = replace(_change(memory, change_context), before=before, after=after)
    _record(tx, memory, change_context=change_context, change=change)


def touch_linked(tx: Transaction, image: object, *, at: datetime) -> None:
    """Schedule both ends of a link for propagation if the image holds one that may matter."""
    if image:
        link = link_of(cast("Mapping[str, Any]", image))
        if link.type in CONCERNED:
            tx.reviews.touch([link.from_id, link.to_id], at=at)


def follow_changes(
    tx: Transaction, before: Memory, *, after: Memory, vectors: Vectors | None
) -> None:
    """Update the index after a change: insert, delete, or index the words again."""
    was_findable, is_findable = (one.state in FINDABLE_STATES for one in (before, after))
    if is_findable and not was_findable:
        tx.index.put(after, vectors)
    elif was_findable and not is_findable:
        tx.index.drop(after.id)
    elif is_findable and before.keywords != after.keywords:
        tx.index.reword(after)


def _change(memory: Memory, change_context: ChangeContext) -> Revision:
    return Revision(
        memory_id=memory.id,
        action=change_context.action,
        agent=change_context.caller.agent,
        session=change_context.caller.session,
        authority=change_context.caller.authority,
        reason=change_context.reason,
        at=change_context.at,
    )


def _record(
    tx: Transaction, memory: Memory, *, change_context: ChangeContext, change: Revision
) -> None:
    entry = AuditEntry(
        action=change_context.action,
        memory_id=memory.id,
        agent=change_context.caller.agent,
        session=change_context.caller.session,
        reason=change_context.reason,
        content=memory.text,
        at=change_context.at,
        request_id=change_context.caller.request_id,
    )
    tx.records.audit(entry)
    tx.changes.add(change)
    topic = _TOPICS.get(change_context.action)
    if topic is not None:
        tx.records.publish(topic, memory.id, at=change_context.at)


def annotation_image(annotation: Annotation) -> dict[str, object]:
    """Serialise an annotation for a before-image."""
    return {**asdict(annotation), "at": annotation.at.isoformat()}


def settled_image(reviews: Sequence[Review]) -> dict[str, object]:
    """Serialise reviews that were settled together for a before-image."""
    first = reviews[0]
    return {
        "causes": [str(one.cause_id) for one in reviews],
        "at": first.settled_at.isoformat() if first.settled_at else None,
        "by": first.settled_by,
        "reason": first.reason,
    }


def settled_of(image: object, memory_id: int) -> list[Review]:
    """Read settled reviews from an image, each with its cause one step away."""
    values = cast("Mapping[str, Any]", image)
    at = datetime.fromisoformat(values["at"])
    return [
        Review(
            memory_id=memory_id,
            cause_id=int(cause),
            fall=InvalidationReason.FORGOTTEN,
            via_id=int(cause),
            depth=1,
            at=at,
            settled_at=at,
            settled_by=values["by"],
            reason=values["reason"],
        )
        for cause in values["causes"]
    ]


def annotation_of(image: Mapping[str, Any]) -> Annotation:
    """Read an annotation from a before-image."""
    read: dict[str, Any] = {
        "at": datetime.fromisoformat(image["at"]),
        "trust": Trust(image["trust"]),
    }
    return Annotation(**{**image, **read})


def successors(tx: Transaction, memory: Memory) -> Iterator[Memory]:
    """Follow a chain of revisions to its head, the head last."""
    one = memory
    for _ in range(CHAIN_MAX):
        if one.superseded_by is None:
            return
        one = tx.memories.get([one.superseded_by])[one.superseded_by]
        yield one


def predecessors(tx: Transaction, memory: Memory) -> Iterator[Memory]:
    """Follow a chain of revisions to its beginning, the oldest last."""
    one = memory
    for _ in range(CHAIN_MAX):
        before = tx.memories.predecessor(one.id)
        if before is None:
            return
        one = tx.memories.get([before])[before]
        yield one


def record_feedback(tx: Transaction, services: Services, *, use: FeedbackEvent) -> None:
    """Mark used memories on the latest recall of the session that showed them, if any.

    A recall that is not yet stored is marked once it is.
    """
    if not use.ids:
        return
    coming = services.journal.showing(use)
    there = tuple(id_ for id_ in use.ids if id_ not in coming)
    late = (*coming, *tx.recall_log.credit(replace(use, ids=there)))
    if late:
        services.journal.use(replace(use, ids=late))


def version_of(tx: Transaction, memory_id: int) -> int:
    """Count the changes to a memory, its creation first; links and annotations do not count."""
    return tx.changes.versions([memory_id]).get(memory_id, 0)


def check_version(tx: Transaction, memory_id: int, *, version: int | None) -> None:
    """Check that a change is based on the current version; None skips the check.

    Raises:
        RejectedError: `version_conflict` names the current version.

    """
    current = version_of(tx, memory_id) if version is not None else None
    if current != version:
        id_ = ids.show(ids.MEMORY, memory_id)
        raise RejectedError(
            f"{id_} is at version {current}; this change is based on version {version}.",
            code="version_conflict",
            hint=f"Get {id_} again and decide again; its history shows who changed it.",
        )


def check_lease(tx: Transaction, caller: Caller, *, memory: Memory, now: datetime) -> None:
    """Check that no other session has claimed a task; a model's claim does not bind a person.

    Raises:
        RejectedError: `lease_held` names the holder and until when.

    """
    detail = memory.detail
    if not isinstance(detail, TaskDetail) or not is_held(tx, detail, now=now):
        return
    if detail.lease_holder == holder_of(caller) or detail.lease_until is None:
        return
    claims = (one for one in tx.changes.of([memory.id]) if one.action is Action.CLAIM)
    if any(not one.authority.covers(caller.authority) for one in list(claims)[-1:]):
        return
    id_ = ids.show(ids.MEMORY, memory.id)
    raise RejectedError(
        f"{id_} is claimed by {detail.lease_holder} until {show_instant(detail.lease_until)}.",
        code="lease_held",
        hint="Wait, take another task, or send the holder a message. An admin can release it.",
    )


def is_held(tx: Transaction, detail: TaskDetail, *, now: datetime) -> bool:
    """Check whether a task has an unexpired lease whose session has not ended."""
    holder = detail.lease_holder
    return holder is not None and is_leased(detail, now=now) and not tx.acks.has_ended(holder)
