"""Messages between agents: threads, deliveries, receipts and positions in an inbox."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from commonbrain.model import ids
from commonbrain.model.kinds import MessageDetail, MessagePriority
from commonbrain.model.memory import Memory
from commonbrain.model.scope import EVERYBODY, Authority

ARRIVES_BEFORE: Final = timedelta(days=7)
"""A new agent receives the broadcasts of this time before its first session."""
UNREAD_COUNTED_MAX: Final = 1000
"""Unread messages are counted up to this number."""


class ThreadStatus(StrEnum):
    """Whether a thread goes on."""

    OPEN = "open"
    CLOSED = "closed"
    """It is resolved; the next message opens it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A conversation of messages; its key is unique in the tenant."""

    id: int
    key: str
    subject: str
    project: str | None = None
    created_at: datetime
    agent: str | None = None
    """Who began it; unknown for threads of earlier versions."""
    status: ThreadStatus = ThreadStatus.OPEN
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The status of one message for one agent; `EVERYBODY` stands for all that have not read it."""

    message_id: int
    agent: str
    sender: str
    project: str | None = None
    is_urgent: bool = False
    read_at: datetime | None = None
    acked_at: datetime | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The reader of an inbox: its project for broadcasts, and the time."""

    agent: str
    project: str | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """A position in an inbox: urgent messages first, newer ones first."""

    is_urgent: bool
    message_id: int


TOP: Final = Mailbox(is_urgent=True, message_id=ids.LAST)
"""Above everything."""


def deliveries(
    memory: Memory, *, to: Sequence[str], read_at: datetime | None = None
) -> list[Receipt]:
    """Return the recipients of a message, or the readers of a shared memory as having read it."""
    detail = memory.detail
    priority = detail.priority if isinstance(detail, MessageDetail) else None
    return [
        Receipt(
            message_id=memory.id,
            agent=agent,
            sender=memory.agent,
            project=memory.project if agent == EVERYBODY else None,
            is_urgent=priority is MessagePriority.URGENT,
            read_at=read_at,
        )
        for agent in to
    ]


def floor_of(first_session: datetime) -> int:
    """Return the id before which broadcasts are too old for an agent."""
    return ids.make_id(first_session - ARRIVES_BEFORE, 0)


def merged(known: Receipt, other: Receipt) -> Receipt:
    """Merge the receipts of two stores: read wins, and the earlier time."""
    read = [at for at in (known.read_at, other.read_at) if at is not None]
    acked = sorted((one.acked_at, one.answer) for one in (known, other) if one.acked_at is not None)
    at, answer = acked[0] if acked else (None, None)
    return Receipt(
        message_id=known.message_id,
        agent=known.agent,
        sender=known.sender,
        project=known.project,
        is_urgent=known.is_urgent,
        read_at=min(read, default=None),
        acked_at=at,
        answer=answer,
    )


def author_of(memory: Memory) -> str:
    """Return who is shown as the author; a model that names a speaker is named as well."""
    name = memory.speaker or memory.agent
    is_claimed = memory.authority in {Authority.MODEL, Authority.WEB} and name != memory.agent
    return f"{memory.agent} for {name}" if is_claimed else name
