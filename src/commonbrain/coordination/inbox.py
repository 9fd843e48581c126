"""The inbox: a summary of unread messages for boot, and pages of messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.errors import NotFoundError
from commonbrain.model.kinds import MessageDetail, MessagePriority
from commonbrain.model.limits import MESSAGES_PAGE_MAX
from commonbrain.model.memory import Memory
from commonbrain.model.messages import (
    TOP,
    UNREAD_COUNTED_MAX,
    Mailbox,
    Reader,
    Thread,
    ThreadStatus,
)
from commonbrain.model.paging import Key
from commonbrain.model.scope import EVERYBODY, Caller, Scope, is_visible
from commonbrain.security.guard import note_shown
from commonbrain.storage.interface import Beginning

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

PRIVATE: Final = "private"
"""Begins the readers of a message that only they can recall."""
_TOP_MAX: Final = 50
_READERS_NAMED: Final = 3
_URGENT, _UNREAD, _READ = range(3)
"""The sections of an inbox, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadSummary:
    """The number of unread messages, and up to 50 urgent ones: of people first, then the newest.

    Up to 101 are counted, since each is looked up to leave out those that are over; up to 1,000 are
    read for the urgent ones of people.
    """

    count: int = 0
    urgent: tuple[Memory, ...] = ()


def unread_of(
    tx: Transaction, caller: Caller, *, project: str | None, now: datetime
) -> UnreadSummary:
    """Return the summary of a caller's unread messages in a project."""
    reader = Reader(agent=caller.agent, project=project, now=now)
    top = tx.messages.unread(reader, below=TOP, limit=_TOP_MAX)
    # A small inbox is counted by reading it; only a full one needs another query.
    is_all = len(top) < _TOP_MAX
    count = len(top) if is_all else tx.messages.count_unread(reader, limit=MESSAGES_PAGE_MAX + 1)
    if not is_all and top[-1].is_urgent:
        # Behind a flood of models, that of a person is still among the first.
        top = tx.messages.unread(reader, below=TOP, limit=UNREAD_COUNTED_MAX)
    urgent = [one.message_id for one in top if one.is_urgent]
    shown = [one for one in tx.memories.get(urgent).values() if is_visible(caller, one)]
    shown.sort(key=lambda one: (one.authority.rank, -one.id))
    return UnreadSummary(count=count, urgent=tuple(shown[:_TOP_MAX]))


def count_by_thread(count: int) -> str:
    """Format a count with an upper bound."""
    return f"{UNREAD_COUNTED_MAX}+" if count > UNREAD_COUNTED_MAX else str(count)


def inbox_rows(
    tx: Transaction, reader: Reader, *, after: Key | None, limit: int, with_read: bool
) -> list[tuple[int, int]]:
    """List messages as section and id: urgent first, then other unread ones, then read ones."""
    section, last = map(int, after or (_URGENT, ids.LAST))
    rows: list[tuple[int, int]] = []
    if section != _READ:
        below = Mailbox(is_urgent=section == _URGENT, message_id=last)
        unread = tx.messages.unread(reader, below=below, limit=limit)
        rows = [(_URGENT if one.is_urgent else _UNREAD, one.message_id) for one in unread]
    if with_read and len(rows) < limit:
        below_id = last if section == _READ else ids.LAST
        read = tx.messages.read(reader, below=below_id, limit=limit - len(rows))
        rows += ((_READ, id_) for id_ in read)
    return rows


def newest_unread(tx: Transaction, reader: Reader) -> int:
    """Return the id of the newest unread message; 0 if there is none."""
    sections = (TOP, Mailbox(is_urgent=False, message_id=ids.LAST))
    first = (tx.messages.unread(reader, below=below, limit=1) for below in sections)
    return max((one.message_id for rows in first for one in rows), default=0)


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
    """A page of messages."""

    messages: tuple[MessageView, ...]
    unread: str | None = None
    """The number of unread messages, counted up to 1,000; None if not requested."""
    next: str | None = None
    """The cursor of the next page; None on the last one."""
    more: int = 0
    """Messages after this page; 1,000 means 1,000 or more."""


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
    next: str | None = None
    """The cursor of the next page; None on the last one."""
    more: int = 0
    """Threads after this page; 1,000 means 1,000 or more."""


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
    known_subjects = tx.threads.subjects(sorted(threads), caller, now=reader.now)
    note_shown(one.message_id for one in known_subjects.values())
    subjects: dict[int | None, str] = {id_: one.text for id_, one in known_subjects.items()}
    return tuple(
        MessageView(
            id=ids.show(ids.MEMORY, one.id),
            thread=None if detail.thread_id is None else ids.show(ids.THREAD, detail.thread_id),
            sender=detail.sender or one.agent,
            to=detail.recipients or (EVERYBODY,),
            readers=_readers(caller, one, to=detail.recipients),
            subject=detail.subject or subjects.get(detail.thread_id),
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
    return f"{PRIVATE} to {' and '.join(['you', *names])}"


def summarize_thread(
    tx: Transaction, caller: Caller, *, thread: Thread, reader: Reader
) -> ThreadSummary:
    """Summarize a thread by the messages that the caller may see.

    The subject is that of the thread if the caller sees its first message, and that of the oldest
    message that the caller sees otherwise. Author and tags are shown to those who could ever see
    the first one.

    Raises:
        NotFoundError: the caller sees none of its messages.

    """
    beginning = known_beginning(tx, caller, thread_id=thread.id, now=reader.now)
    message_ids = tx.threads.messages(
        thread.id, caller, now=reader.now, below=ids.LAST, limit=UNREAD_COUNTED_MAX + 1
    )
    known = tx.memories.get(list({message_ids[0], beginning.message_id}))
    newest, oldest = known[message_ids[0]], known[beginning.message_id]
    own = _as_known_from(beginning, oldest=oldest, thread=thread)
    note_shown([newest.id, oldest.id])
    return ThreadSummary(
        id=ids.show(ids.THREAD, thread.id),
        subject=own.subject,
        status=own.status,
        by=own.agent or oldest.speaker or oldest.agent,
        tags=own.tags,
        messages=count_by_thread(len(message_ids)),
        unread=len(tx.messages.unread_among(reader, message_ids)),
        participants=tuple(sorted(tx.threads.participants(message_ids))),
        last_at=newest.occurred_at,
        last=newest.headline,
    )


def known_beginning(tx: Transaction, caller: Caller, *, thread_id: int, now: datetime) -> Beginning:
    """Return the oldest message of a thread that the caller sees.

    Raises:
        NotFoundError: there is no such thread, or the caller sees none of it; the error is the
            same.

    """
    beginning = tx.threads.beginning(thread_id, caller, now=now)
    if beginning is None:
        raise NotFoundError(
            f"No thread {ids.show(ids.THREAD, thread_id)}.", hint="List the threads."
        )
    return beginning


def _as_known_from(beginning: Beginning, *, oldest: Memory, thread: Thread) -> Thread:
    """Describe a thread by the oldest message that is shown, for who cannot see the first one."""
    if beginning.is_first:
        return thread
    detail = oldest.detail if isinstance(oldest.detail, MessageDetail) else MessageDetail()
    known = replace(thread, subject=detail.subject or oldest.headline)
    return known if beginning.was_addressed else replace(known, agent=detail.sender, tags=())
