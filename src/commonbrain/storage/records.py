"""The shelf of what happened: audit, events for workers, replies that were given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from commonbrain.model.ids import LAST
from commonbrain.model.links import Link, LinkType
from commonbrain.model.query import Entry, Feedback, FeedbackEvent
from commonbrain.model.revision import BeliefPeriod, Change
from commonbrain.model.trust import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccess:
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


class RecordRepository(Protocol):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """What somebody noted beside a memory, under an authority of their own."""

    id: int = 0
    """Drawn by the shelf."""
    memory_id: int
    text: str
    agent: str
    trust: Trust
    at: datetime


class LinkRepository(Protocol):
    """The shelf of links between memories."""

    def put(self, link: Link) -> Link:
        """Make a link, or strengthen the one that is there; give it as it is now."""
        ...

    def replace(self, link: Link) -> None:
        """Set a link to exactly this, whether it was there or not."""
        ...

    def drop(self, from_id: int, to_id: int, *, type_: LinkType) -> Link | None:
        """Take a link away and give it back; None when there was none."""
        ...

    def touching(
        self, ids: Sequence[int], *, types: Sequence[LinkType] = (), limit: int | None = None
    ) -> list[Link]:
        """List the links from or to any of these memories, strongest first; no types means all."""
        ...


class ChangeRepository(Protocol):
    """The shelf of before-images: what undo, restore and questions about the past read."""

    def add(self, change: Change) -> None:
        """Append one change; its id is drawn here."""
        ...

    def add_alike(self, change: Change, ids: Sequence[int]) -> None:
        """Append the same change of many memories, in their order; it may hold no `detail`."""
        ...

    def of(self, ids: Sequence[int]) -> list[Change]:
        """List what was done to memories, oldest first."""
        ...

    def latest(self, ids: Sequence[int]) -> dict[int, int]:
        """Give the id of the latest change of each memory; unchanged ones are absent."""
        ...

    def versions(self, ids: Sequence[int]) -> dict[int, int]:
        """Count the changes of each memory but those beside it; unchanged ones are absent."""
        ...

    def merge(self, change: Change) -> bool:
        """Take in a change of another store under its own id; False when it is known."""
        ...

    def by(
        self,
        *,
        agent: str | None,
        session: str | None,
        since: datetime | None,
        until: datetime | None,
        limit: int,
    ) -> list[Change]:
        """List what an agent or session did in a time, newest first; None leaves a side open.

        What merely followed from a deed is none, and is left out.
        """
        ...

    def believed(self, ids: Sequence[int]) -> dict[int, list[BeliefPeriod]]:
        """Give the ended spans in which memories were believed, oldest first."""
        ...


class AnnotationRepository(Protocol):
    """The shelf of what was noted beside memories."""

    def add(self, annotation: Annotation) -> int:
        """Append one; give its id."""
        ...

    def drop(self, annotation_id: int) -> None:
        """Take one away."""
        ...

    def merge(self, annotation: Annotation) -> bool:
        """Take in an annotation of another store under its own id; False when it is known."""
        ...

    def of(self, ids: Sequence[int]) -> dict[int, list[Annotation]]:
        """Give the annotations of memories, oldest first; memories without any are absent."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Which recalls are read; what is left out does not matter."""

    since: datetime | None = None
    until: datetime | None = None
    """Asked before."""
    is_marked: bool = False
    """Only those with a mark."""
    ranker: int | None = None
    """Only those that this model ordered."""
    is_by_weights: bool = False
    """Only those with a question that no model ordered."""
    share: float = 1.0
    """Only so many of them, 0..1, drawn by their ids: every reader draws the same."""
    agent: str | None = None
    """Only this one's."""
    session: str | None = None


class RecallLogRepository(Protocol):
    """The shelf of the ledger of one tenant."""

    def mark(self, told: Sequence[Feedback]) -> int:
        """Keep marks, each once; a mark on a trace that is not there is passed over. Count."""
        ...

    def showing(self, use: FeedbackEvent) -> Mapping[int, int]:
        """Give the latest trace of the session that packed each, of those within `MARKED_WITHIN`.

        Absent where none did, and for a fetch where that trace had told the whole of it.
        """
        ...

    def credit(self, use: FeedbackEvent) -> Sequence[int]:
        """Mark what was used on the traces that showed it; give what none that is here did."""
        ...

    def entries(self, wanted: EntryFilter, *, after: int = 0, limit: int) -> list[Entry]:
        """List recalls above an id with their marks, the oldest first."""
        ...

    def latest(
        self, wanted: EntryFilter, *, before: int = LAST, limit: int, is_brief: bool = False
    ) -> list[Entry]:
        """List recalls below an id, the newest first; the brief without what was considered."""
        ...
