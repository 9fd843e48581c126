"""What the house needs of a store: shelves inside one transaction of one tenant.

Laws that `testing.StoreContract` holds every engine to: a transaction is seen whole or not at all;
what a `begin` committed survives the death of the process and is in the next `snapshot` of every
other process; a forgotten memory is on no shelf of the index; no tenant sees another's rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from commonbrain.domain.kinds import Kind
from commonbrain.domain.links import Link, LinkType
from commonbrain.domain.memory import Memory, State, ThreadRef
from commonbrain.domain.query import Filter, Trace
from commonbrain.domain.revision import Change, Span
from commonbrain.domain.scope import Caller
from commonbrain.domain.space import Space
from commonbrain.domain.trust import Trust
from commonbrain.ports.models import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that an arm found; a higher `score` is better, comparable within one call only."""

    id: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Who looks for what at which moment: what every search of the store is confined to."""

    caller: Caller
    filter: Filter
    now: datetime


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
class Annotation:
    """What somebody noted beside a memory, under an authority of their own."""

    id: int = 0
    """Drawn by the shelf."""
    memory_id: int
    text: str
    agent: str
    trust: Trust
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing a store's self-check looked at."""

    check: str
    is_sound: bool
    detail: str


class Memories(Protocol):
    """The shelf of memories: the rows that are the only truth."""

    def add(self, memory: Memory) -> None:
        """Store a new memory whole.

        Raises:
            IdTaken: another memory has this id; nothing was stored.

        """
        ...

    def get(self, ids: Sequence[int]) -> dict[int, Memory]:
        """Fetch memories of any state by id; unknown ids are absent from the answer."""
        ...

    def by_hash(
        self, kind: Kind, semantic_hash: str, *, source_ref: str | None = None
    ) -> list[Memory]:
        """Find the current memories of a kind that say the same to the letter, oldest first.

        With a `source_ref` only those from there: many utterances say the same.
        """
        ...

    def newest(self, look: Look, *, limit: int) -> list[Hit]:
        """List what the look allows, latest occurrence first."""
        ...

    def any(self, look: Look) -> bool:
        """Say whether the look allows anything at all."""
        ...

    def update(self, before: Memory, after: Memory) -> None:
        """Write what differs between two states of one memory; its text never does."""
        ...

    def replaced_by(self, memory_id: int) -> int | None:
        """Give the id of what this memory replaced; None when it is the first of its chain."""
        ...

    def touch(self, ids: Sequence[int], *, at: datetime) -> None:
        """Count one more access to each memory, last at a moment; unknown ids are passed over."""
        ...

    def skills(self, look: Look) -> Mapping[int, Mapping[str, object]]:
        """Give the triggers of the rules that the look allows and that have one, by id."""
        ...

    def people(self, names: Sequence[str]) -> set[str]:
        """Say which of these case-folded names are of somebody who said something here."""
        ...

    def counts(self) -> Mapping[tuple[Kind, State], int]:
        """Count the tenant's memories by kind and state."""
        ...


class Index(Protocol):
    """The shelf of what can be derived from the rows: full text and vectors."""

    def put(self, memory: Memory, given: Matrix | None) -> None:
        """Make a memory findable by its words, and by its meaning where `(windows, d)` is given."""
        ...

    def reword(self, memory: Memory) -> None:
        """Index the words of a memory anew, whose tags or people changed; its vectors stay."""
        ...

    def drop(self, memory_id: int) -> None:
        """Make a memory unfindable: neither words nor vectors of it remain."""
        ...

    def lexical(self, terms: Sequence[str], look: Look, *, limit: int) -> list[Hit]:
        """Rank by BM25 over stemmed words, best first; any of the terms may match.

        Within one transaction the same terms score a memory the same, whatever the look.
        """
        ...

    def nearest(self, query: Matrix, look: Look, *, limit: int) -> list[Hit]:
        """Rank by cosine to a unit vector `(d,)`, the best window of each memory, best first."""
        ...

    def similarities(self, query: Matrix, ids: Sequence[int]) -> dict[int, float]:
        """Give the cosine of each memory to a unit vector; memories without one are absent."""
        ...

    def pending(self) -> int:
        """Count the findable memories that have no vector yet."""
        ...


class Threads(Protocol):
    """The shelf of threads that messages belong to."""

    def subjects(self, ids: Sequence[int]) -> dict[int, str]:
        """Give the subjects of threads by their ids; unknown ids are absent."""
        ...

    def open(self, thread: ThreadRef, project: str | None, *, new_id: int, now: datetime) -> int:
        """Find a thread by its key or make it under the new id; give its id.

        Raises:
            IdTaken: another thread has the new id; nothing was stored.

        """
        ...


class Links(Protocol):
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


class Changes(Protocol):
    """The shelf of before-images: what undo, restore and questions about the past read."""

    def add(self, change: Change) -> None:
        """Append one change; its id is drawn here."""
        ...

    def of(self, memory_id: int) -> list[Change]:
        """List what was done to one memory, oldest first."""
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
        """List what an agent or session did in a time, newest first; None leaves a side open."""
        ...

    def believed(self, ids: Sequence[int]) -> dict[int, list[Span]]:
        """Give the ended spans in which memories were believed, oldest first."""
        ...


class Annotations(Protocol):
    """The shelf of what was noted beside memories."""

    def add(self, annotation: Annotation) -> int:
        """Append one; give its id."""
        ...

    def drop(self, annotation_id: int) -> None:
        """Take one away."""
        ...

    def of(self, ids: Sequence[int]) -> dict[int, list[Annotation]]:
        """Give the annotations of memories, oldest first; memories without any are absent."""
        ...


class Records(Protocol):
    """The shelf of what happened: audit, events for workers, recall traces."""

    def audit(self, entry: AuditEntry) -> None:
        """Append one line that is never changed."""
        ...

    def publish(self, topic: str, memory_id: int, *, at: datetime) -> None:
        """Put an event into the outbox, to be read by workers after the commit."""
        ...

    def reply(self, agent: str, key: str) -> Reply | None:
        """Find what a call of this agent with this idempotency key was answered."""
        ...

    def keep_reply(self, reply: Reply) -> None:
        """Keep an answer under its idempotency key."""
        ...

    def trace(self, trace: Trace) -> None:
        """Keep what one recall considered and packed.

        Raises:
            IdTaken: another trace has this id; nothing was stored.

        """
        ...


class Transaction(Protocol):
    """The shelves of one tenant, seen at one moment and changed together or not at all."""

    @property
    def memories(self) -> Memories:
        """The rows."""
        ...

    @property
    def index(self) -> Index:
        """What is derived from them."""
        ...

    @property
    def threads(self) -> Threads:
        """The threads of messages."""
        ...

    @property
    def links(self) -> Links:
        """The edges between memories."""
        ...

    @property
    def changes(self) -> Changes:
        """What was done to memories, with what was before."""
        ...

    @property
    def annotations(self) -> Annotations:
        """What was noted beside memories."""
        ...

    @property
    def records(self) -> Records:
        """What happened."""
        ...

    def scrub(self, memory_id: int) -> Mapping[str, int]:
        """Take the text of a memory out of every table; its id stays as a forgotten memory.

        Returns:
            Every place that was looked at, with how many rows of it were emptied or deleted.

        """
        ...


class Store(Protocol):
    """Where memories live; safe to use from several threads and processes at once."""

    @property
    def location(self) -> str:
        """Where it is, for people; never a secret."""
        ...

    @property
    def space(self) -> Space:
        """The vector space its vectors live in."""
        ...

    def begin(self, tenant: str) -> AbstractContextManager[Transaction]:
        """Open a transaction that may write: commits at the end, rolls back on any exception.

        Raises:
            Unavailable: `store_down`, the store stayed locked, is full or read-only; nothing kept.
            Corrupt: `store_corrupt`, the store is damaged; nothing kept.

        """
        ...

    def snapshot(self, tenant: str) -> AbstractContextManager[Transaction]:
        """Open a transaction that only reads and never waits for a writer.

        Raises:
            Unavailable: `store_down`, the store cannot be read.
            Corrupt: `store_corrupt`, the store is damaged.

        """
        ...

    def examine(self) -> list[Finding]:
        """Check that the store is whole and that what is derived agrees with the rows."""
        ...

    def compact(self) -> None:
        """Give back the room of what was deleted, so that no byte of it stays in the store.

        Raises:
            Unavailable: `store_down`, others are at work in it; nothing was changed.

        """
        ...

    def close(self) -> None:
        """Let go of the store; what was committed stays."""
        ...


class IdTaken(Exception):
    """A freshly drawn id exists already: draw another and try again."""
