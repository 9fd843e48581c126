"""What every change leaves behind in its own transaction: audit, event and before-image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final, cast

from commonbrain.domain.action_items import is_owed
from commonbrain.domain.cascade import CONCERNED, Fall, Review
from commonbrain.domain.links import link_of
from commonbrain.domain.memory import FINDABLE_STATES, Memory
from commonbrain.domain.revision import Action, Change, difference, ended_belief
from commonbrain.domain.scope import Caller
from commonbrain.domain.trust import Trust
from commonbrain.ports.history import Annotation
from commonbrain.ports.models import Vectors
from commonbrain.ports.records import AuditEntry
from commonbrain.ports.store import Transaction

CHAIN_MAX: Final = 1000
"""Revisions followed in one chain; far beyond any that a person makes."""
_TOPICS: Final = {
    Action.CREATE: "memory.created",
    Action.FORGET: "memory.forgotten",
    Action.SUPERSEDE: "memory.superseded",
    Action.RESTORE: "memory.restored",
    Action.ERASE: "memory.erased",
    Action.PRUNE: "memory.forgotten",
}
"""What workers are told; every other change is the topic of none."""


_BEARING: Final = ("state", "trust", "expires_at", "project")
"""Fields whose change may unseat what rests on a memory, or seat it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Who does what, when and why: what every record of a change repeats."""

    action: Action
    caller: Caller
    at: datetime
    reason: str | None = None


def record_birth(tx: Transaction, memory: Memory, *, deed: Deed) -> None:
    """Record that a memory came to be."""
    _record(tx, memory, deed=deed, change=_change(memory, deed))


def amend(
    tx: Transaction,
    before: Memory,
    *,
    after: Memory,
    deed: Deed,
    vectors: Vectors | None = None,
) -> None:
    """Bring a memory from one state to another: its row, its place in the index, the records.

    `vectors` are for one that becomes findable again; without them it is found by words alone.
    """
    old, new = difference(before, after)
    tx.memories.update(before, after)
    follow(tx, before, after=after, vectors=vectors)
    if any(name in new for name in _BEARING) or is_owed(before.detail) != is_owed(after.detail):
        tx.reviews.touch([after.id], at=deed.at)
    believed = ended_belief(before, after, at=deed.at)
    change = replace(_change(before, deed), before=old, after=new, believed=believed)
    _record(tx, after, deed=deed, change=change)


def record_beside(
    tx: Transaction,
    memory: Memory,
    *,
    deed: Deed,
    before: Mapping[str, object],
    after: Mapping[str, object],
) -> None:
    """Record what was done beside a memory: the images hold a `link` or an `annotation`."""
    for image in (before, after):
        touch_ends(tx, image.get("link"), at=deed.at)
    change = replace(_change(memory, deed), before=before, after=after)
    _record(tx, memory, deed=deed, change=change)


def touch_ends(tx: Transaction, image: object, *, at: datetime) -> None:
    """List both ends of a link that may unseat something, if that is what an image holds."""
    if image:
        link = link_of(cast("Mapping[str, Any]", image))
        if link.type in CONCERNED:
            tx.reviews.touch([link.from_id, link.to_id], at=at)


def follow(tx: Transaction, before: Memory, *, after: Memory, vectors: Vectors | None) -> None:
    """Bring the index after a change of a memory: put, dropped, or its words written anew."""
    was_findable, is_findable = (one.state in FINDABLE_STATES for one in (before, after))
    if is_findable and not was_findable:
        tx.index.put(after, vectors)
    elif was_findable and not is_findable:
        tx.index.drop(after.id)
    elif is_findable and before.keywords != after.keywords:
        tx.index.reword(after)


def _change(memory: Memory, deed: Deed) -> Change:
    return Change(
        memory_id=memory.id,
        action=deed.action,
        agent=deed.caller.agent,
        session=deed.caller.session,
        reason=deed.reason,
        at=deed.at,
    )


def _record(tx: Transaction, memory: Memory, *, deed: Deed, change: Change) -> None:
    entry = AuditEntry(
        action=deed.action,
        memory_id=memory.id,
        agent=deed.caller.agent,
        session=deed.caller.session,
        reason=deed.reason,
        content=memory.text,
        at=deed.at,
    )
    tx.records.audit(entry)
    tx.changes.add(change)
    topic = _TOPICS.get(deed.action)
    if topic is not None:
        tx.records.publish(topic, memory.id, at=deed.at)


def annotation_image(annotation: Annotation) -> dict[str, object]:
    """Write an annotation as the JSON values that a before-image holds."""
    return {**asdict(annotation), "at": annotation.at.isoformat()}


def settled_image(reviews: Sequence[Review]) -> dict[str, object]:
    """Write reviews that were settled together as the JSON values that an image holds."""
    first = reviews[0]
    return {
        "causes": [str(one.cause_id) for one in reviews],
        "at": first.settled_at.isoformat() if first.settled_at else None,
        "by": first.settled_by,
        "reason": first.reason,
    }


def settled_of(image: object, memory_id: int) -> list[Review]:
    """Read settled reviews back from an image, as if each cause were the next step."""
    told = cast("Mapping[str, Any]", image)
    at = datetime.fromisoformat(told["at"])
    return [
        Review(
            memory_id=memory_id,
            cause_id=int(cause),
            fall=Fall.FORGOTTEN,
            via_id=int(cause),
            depth=1,
            at=at,
            settled_at=at,
            settled_by=told["by"],
            reason=told["reason"],
        )
        for cause in told["causes"]
    ]


def annotation_of(image: Mapping[str, Any]) -> Annotation:
    """Read an annotation back from a before-image."""
    read: dict[str, Any] = {
        "at": datetime.fromisoformat(image["at"]),
        "trust": Trust(image["trust"]),
    }
    return Annotation(**{**image, **read})


def later(tx: Transaction, memory: Memory) -> Iterator[Memory]:
    """Follow a chain of revisions to its head, the head last."""
    one = memory
    for _ in range(CHAIN_MAX):
        if one.superseded_by is None:
            return
        one = tx.memories.get([one.superseded_by])[one.superseded_by]
        yield one


def earlier(tx: Transaction, memory: Memory) -> Iterator[Memory]:
    """Follow a chain of revisions to its beginning, the oldest last."""
    one = memory
    for _ in range(CHAIN_MAX):
        before = tx.memories.predecessor(one.id)
        if before is None:
            return
        one = tx.memories.get([before])[before]
        yield one
