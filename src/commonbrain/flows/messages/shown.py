"""What a reader is shown: messages, pages of them, threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from commonbrain.domain import ids
from commonbrain.domain.kinds import MessageDetail, MessagePriority
from commonbrain.domain.memory import Memory, Thread
from commonbrain.domain.message import UNREAD_COUNTED_MAX, Reader
from commonbrain.domain.scope import EVERYBODY, Caller, is_visible
from commonbrain.ports.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Who acknowledged a message, when, and in which words."""

    agent: str
    at: datetime
    answer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One message as a reader is shown it; a list leaves its body out."""

    id: str
    thread: str | None
    sender: str
    to: tuple[str, ...]
    """Names, or `*` for everybody."""
    subject: str | None
    headline: str
    body: str | None
    at: datetime
    priority: MessagePriority
    project: str | None
    reply_to: str | None
    is_unread: bool
    acks: tuple[Ack, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some messages, and the cursor of the next page where there is one."""

    messages: tuple[Letter, ...]
    unread: str | None = None
    """How many wait to be read, counted up to 1,000; None where that was not asked."""
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadLine:
    """One thread in a list, as far as the reader may see it."""

    id: str
    subject: str
    messages: str
    """Counted up to 1,000."""
    unread: int
    participants: tuple[str, ...]
    last_at: datetime
    last: str
    """The headline of its newest message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPage:
    """Some threads, latest first."""

    threads: tuple[ThreadLine, ...]
    cursor: str | None = None


def letters(
    tx: Transaction, caller: Caller, *, messages: Sequence[Memory], reader: Reader, whole: bool
) -> tuple[Letter, ...]:
    """Show the messages that a caller may see, in their order; `whole` with their bodies."""
    seen = [one for one in messages if is_visible(caller, one)]
    known = [one.id for one in seen]
    unread = tx.mail.unread_among(reader, known)
    acks = tx.mail.acks(known)
    details = {one.id: one.detail for one in seen if isinstance(one.detail, MessageDetail)}
    threads = {one.thread_id for one in details.values() if one.thread_id is not None}
    subjects = tx.threads.subjects(sorted(threads))
    return tuple(
        Letter(
            id=ids.show(ids.MEMORY, one.id),
            thread=None if detail.thread_id is None else ids.show(ids.THREAD, detail.thread_id),
            sender=detail.sender or one.agent,
            to=detail.recipients or (EVERYBODY,),
            subject=detail.subject or subjects.get(detail.thread_id or 0),
            headline=one.headline,
            body=one.body if whole else None,
            at=one.occurred_at,
            priority=detail.priority,
            project=one.project,
            reply_to=None if detail.parent_id is None else ids.show(ids.MEMORY, detail.parent_id),
            is_unread=one.id in unread,
            acks=tuple(
                Ack(agent=got.agent, at=got.acked_at, answer=got.answer)
                for got in acks.get(one.id, ())
                if got.acked_at is not None
            ),
        )
        for one in seen
        if (detail := details.get(one.id)) is not None
    )


def line_of(tx: Transaction, caller: Caller, *, thread: Thread, reader: Reader) -> ThreadLine:
    """Sum up a thread by those of its messages that the caller may see."""
    bound = UNREAD_COUNTED_MAX + 1
    found = tx.threads.messages(thread.id, caller, now=reader.now, below=ids.LAST, limit=bound)
    [newest] = tx.memories.get(found[:1]).values()
    return ThreadLine(
        id=ids.show(ids.THREAD, thread.id),
        subject=thread.subject,
        messages=f"{UNREAD_COUNTED_MAX}+" if len(found) == bound else str(len(found)),
        unread=len(tx.mail.unread_among(reader, found)),
        participants=tuple(sorted(tx.threads.participants(found))),
        last_at=newest.occurred_at,
        last=newest.headline,
    )
