"""The inbox: a summary of unread messages for boot, and pages of messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import MessageDetail, MessagePriority
from commonbrain.model.memory import Memory, Thread, ThreadStatus
from commonbrain.model.messages import TOP, UNREAD_COUNTED_MAX, Mailbox, Reader
from commonbrain.model.scope import EVERYBODY, Caller, Scope, is_visible

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_TOP_MAX: Final = 50
_READERS_NAMED: Final = 3
_CURSOR_PREFIXES: Final = {"urgent": True, "unread": False}
"""Cursor prefixes for the sections of unread messages."""
_READ: Final = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadSummary:
    """The number of unread messages, counted up to 1,000, and the newest urgent ones, up to 50."""

    count: int = 0
    urgent: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxPage:
    """A page of the inbox: unread messages, then read ones, and the cursor of the next page."""

    unread: tuple[int, ...]
    read: tuple[int, ...] = ()
    cursor: str | None = None


def unread_of(
    tx: Transaction, caller: Caller, *, project: str | None, now: datetime
) -> UnreadSummary:
    """Return the summary of a caller's unread messages in a project."""
    reader = Reader(agent=caller.agent, project=project, now=now)
    top = tx.messages.unread(reader, below=TOP, limit=_TOP_MAX)
    # A small inbox is counted by reading it; only a full one needs another query.
    is_all = len(top) < _TOP_MAX
    count = len(top) if is_all else tx.messages.count_unread(reader, limit=UNREAD_COUNTED_MAX + 1)
    urgent = [one.message_id for one in top if one.is_urgent]
    memories = tx.memories.get(urgent)
    shown = [
        memories[id_] for id_ in urgent if id_ in memories and is_visible(caller, memories[id_])
    ]
    return UnreadSummary(count=count, urgent=tuple(shown))


def count_by_thread(count: int) -> str:
    """Format a count with an upper bound."""
    return f"{UNREAD_COUNTED_MAX}+" if count > UNREAD_COUNTED_MAX else str(count)


def page_of(
    tx: Transaction, reader: Reader, *, cursor: str | None, limit: int, with_read: bool
) -> InboxPage:
    """Return a page of the inbox: urgent first, newest first, read messages last."""
    prefix, id_ = _position(cursor)
    pending: list[Mailbox] = []
    if prefix != _READ:
        below = Mailbox(is_urgent=_CURSOR_PREFIXES[prefix], message_id=id_)
        pending = tx.messages.unread(reader, below=below, limit=limit + 1)
    shown = pending[:limit]
    unread = tuple(place.message_id for place in shown)
    if len(pending) > limit or not with_read:
        is_more = len(pending) > limit
        return InboxPage(unread=unread, cursor=_after(shown) if is_more else None)
    capacity = limit - len(shown)
    below_id = id_ if prefix == _READ else ids.LAST
    rest = tx.messages.read(reader, below=below_id, limit=capacity + 1)
    read = tuple(rest[:capacity])
    if len(rest) <= capacity:
        return InboxPage(unread=unread, read=read)
    ends = f"{_READ}:{ids.show(ids.MEMORY, read[-1])}" if read else _after(shown)
    return InboxPage(unread=unread, read=read, cursor=ends)


def _after(shown: Sequence[Mailbox]) -> str:
    last = shown[-1]
    prefix = next(
        prefix for prefix, is_urgent in _CURSOR_PREFIXES.items() if is_urgent is last.is_urgent
    )
    return f"{prefix}:{ids.show(ids.MEMORY, last.message_id)}"


def _position(cursor: str | None) -> tuple[str, int]:
    """Parse a cursor.

    Raises:
        InvalidInputError: it is not a cursor of an inbox.

    """
    if cursor is None:
        return "urgent", ids.LAST
    prefix, _, id_ = cursor.partition(":")
    if prefix not in {*_CURSOR_PREFIXES, _READ}:
        raise InvalidInputError(
            f"{cursor[:40]!r} is not a cursor.", hint="Use the cursor of the previous page."
        )
    return prefix, ids.parse(ids.MEMORY, id_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Who acknowledged a message, when, and the note."""

    agent: str
    at: datetime
    answer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """One message as shown to a reader; lists omit the body."""

    id: str
    thread: str | None
    sender: str
    to: tuple[str, ...]
    """Names, or `*` for everyone."""
    readers: str
    """Who can read it: the team, or the participants."""
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
class MessagePage:
    """A page of messages, and the cursor of the next page, if any."""

    messages: tuple[MessageView, ...]
    unread: str | None = None
    """The number of unread messages, counted up to 1,000; None if not requested."""
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSummary:
    """A thread in a list, as far as the reader may see it."""

    id: str
    subject: str
    status: ThreadStatus
    by: str
    """Who began it."""
    tags: tuple[str, ...]
    messages: str
    """Counted up to 1,000."""
    unread: int
    participants: tuple[str, ...]
    last_at: datetime
    last: str
    """The headline of its newest message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPage:
    """A page of threads, latest first."""

    threads: tuple[ThreadSummary, ...]
    cursor: str | None = None


def to_message_views(
    tx: Transaction, caller: Caller, *, messages: Sequence[Memory], reader: Reader, whole: bool
) -> tuple[MessageView, ...]:
    """Convert the messages that a caller may see, in order; `whole` includes their bodies."""
    seen = [one for one in messages if is_visible(caller, one)]
    known = [one.id for one in seen]
    unread = tx.messages.unread_among(reader, known)
    acks = tx.messages.acks(known)
    details = {one.id: one.detail for one in seen if isinstance(one.detail, MessageDetail)}
    threads = {one.thread_id for one in details.values() if one.thread_id is not None}
    subjects = tx.threads.subjects(sorted(threads))
    return tuple(
        MessageView(
            id=ids.show(ids.MEMORY, one.id),
            thread=None if detail.thread_id is None else ids.show(ids.THREAD, detail.thread_id),
            sender=detail.sender or one.agent,
            to=detail.recipients or (EVERYBODY,),
            readers=_readers(caller, one, to=detail.recipients),
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


def _readers(caller: Caller, message: Memory, *, to: Sequence[str]) -> str:
    """Say who can read a message, as its reader sees it."""
    if message.scope is not Scope.PRIVATE:
        return "team" if message.scope is Scope.TEAM else "everyone"
    others = [one for one in dict.fromkeys((message.agent, *to)) if one != caller.agent]
    more = len(others) - _READERS_NAMED
    names = others[:_READERS_NAMED] + ([f"{more} more"] if more > 0 else [])
    return f"private to {' and '.join(['you', *names])}"


def summarize_thread(
    tx: Transaction, caller: Caller, *, thread: Thread, reader: Reader
) -> ThreadSummary:
    """Summarize a thread by the messages that the caller may see."""
    bound = UNREAD_COUNTED_MAX + 1
    message_ids = tx.threads.messages(
        thread.id, caller, now=reader.now, below=ids.LAST, limit=bound
    )
    known = tx.memories.get(list({message_ids[0], message_ids[-1]}))
    newest, oldest = known[message_ids[0]], known[message_ids[-1]]
    return ThreadSummary(
        id=ids.show(ids.THREAD, thread.id),
        subject=thread.subject,
        status=thread.status,
        by=thread.agent or oldest.speaker or oldest.agent,
        tags=thread.tags,
        messages=f"{UNREAD_COUNTED_MAX}+" if len(message_ids) == bound else str(len(message_ids)),
        unread=len(tx.messages.unread_among(reader, message_ids)),
        participants=tuple(sorted(tx.threads.participants(message_ids))),
        last_at=newest.occurred_at,
        last=newest.headline,
    )
