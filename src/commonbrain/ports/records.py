"""The shelf of what happened: audit, events for workers, replies that were given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Memories that somebody was shown, and when."""

    tenant: str
    ids: tuple[int, ...]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line of the append-only audit: who did what to which memory, and its keyed digest."""

    action: str
    memory_id: int
    agent: str
    session: str | None
    reason: str | None
    content: str
    """Never stored: the store keeps an HMAC of it under the tenant's key."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a call with an idempotency key was answered: `digest` tells its content apart."""

    agent: str
    key: str
    digest: str
    body: Mapping[str, object]
    """The answer as plain JSON values."""
    memory_ids: tuple[int, ...]
    """What the answer speaks of, so that erasing one of them erases the answer."""
    at: datetime


class Records(Protocol):
    """The shelf of what happened: audit, events for workers, recall traces."""

    def audit(self, entry: AuditEntry) -> None:
        """Append one line that is never changed."""
        ...

    def audit_alike(self, entry: AuditEntry, contents: Mapping[int, str]) -> None:
        """Append the same line of many memories, each with the digest of its own content."""
        ...

    def publish(self, topic: str, memory_id: int, *, at: datetime) -> None:
        """Put an event into the outbox, to be read by workers after the commit."""
        ...

    def drop_events(self, *, before: datetime, limit: int) -> int:
        """Drop events that were published before a moment; count them."""
        ...

    def reply(self, agent: str, key: str) -> Reply | None:
        """Find what a call of this agent with this idempotency key was answered."""
        ...

    def keep_reply(self, reply: Reply) -> None:
        """Keep an answer under its idempotency key."""
        ...

    def drop_replies(self, *, before: datetime) -> None:
        """Drop every answer that was kept before a moment."""
        ...
