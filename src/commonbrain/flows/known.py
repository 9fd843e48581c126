"""Whether a store has what an export tells of already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from commonbrain.domain.action_items import Ack
from commonbrain.domain.cascade import Review
from commonbrain.domain.links import Link, link_of
from commonbrain.domain.memory import Thread
from commonbrain.domain.message import Receipt
from commonbrain.domain.revision import Change
from commonbrain.ports.archive import Kept, Record
from commonbrain.ports.history import Annotation
from commonbrain.ports.store import Transaction


def is_known(tx: Transaction, record: Record) -> bool:
    """Say whether a record is here, in whatever state."""
    match record:
        case Kept(memory=memory):
            return bool(tx.memories.get([memory.id]))
        case Thread(id=id_):
            return any(thread.id == id_ for thread in tx.threads.page(after=id_ - 1, limit=1))
        case _:
            return _is_known_beside(tx, record)


def _is_known_beside(
    tx: Transaction, record: Link | Annotation | Receipt | Change | Review | Ack
) -> bool:
    match record:
        case Annotation(memory_id=memory_id, id=id_):
            return any(note.id == id_ for note in tx.annotations.of([memory_id]).get(memory_id, ()))
        case Receipt(message_id=message_id, agent=agent):
            delivered = tx.mail.of([message_id]).get(message_id, ())
            return any(one.agent == agent for one in delivered)
        case Link() | Ack():
            there = same_link(tx, record) if isinstance(record, Link) else same_ack(tx, record)
            return there is not None or (isinstance(record, Link) and was_dropped(tx, record))
        case Change(memory_id=memory_id, id=id_):
            return any(change.id == id_ for change in tx.changes.of([memory_id]))
        case Review(memory_id=memory_id):
            return record in tx.reviews.of([memory_id]).get(memory_id, ())


def same_link(tx: Transaction, link: Link) -> Link | None:
    """Give the link of the same ends and type."""
    key = link.from_id, link.to_id
    there = tx.links.touching([link.from_id], types=[link.type])
    return next((one for one in there if (one.from_id, one.to_id) == key), None)


def same_ack(tx: Transaction, ack: Ack) -> Ack | None:
    """Give the answer that the same session gave."""
    there = tx.duties.of([ack.memory_id]).get(ack.memory_id, ())
    return next((one for one in there if one.whose == ack.whose), None)


def was_dropped(tx: Transaction, link: Link) -> bool:
    """Say whether the last that was done to a link here took it away, after it was observed."""
    key = link.from_id, link.to_id, link.type
    last: Change | None = None
    for change in tx.changes.of([link.from_id, link.to_id]):
        image = change.after.get("link") or change.before.get("link")
        if isinstance(image, Mapping):
            told = link_of(cast("Mapping[str, Any]", image))
            is_later = last is None or change.id > last.id
            last = change if is_later and (told.from_id, told.to_id, told.type) == key else last
    return last is not None and "link" not in last.after and last.at >= link.observed_at
