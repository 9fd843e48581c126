"""What the house needs of a store: shelves inside one transaction of one tenant.

Laws that `testing.StoreContract` holds every engine to: a transaction is seen whole or not at all;
what a `begin` committed survives the death of the process and is in the next `snapshot` of every
other process; a forgotten memory is on no shelf of the index; no tenant sees another's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import Trace
from commonbrain.model.retention import Retention
from commonbrain.observability.health import ReplicaReads
from commonbrain.observability.tool_events import EventBatch, ToolEventRepository
from commonbrain.storage.administration import (
    CredentialRepository,
    EvaluationRepository,
    JobRepository,
    ModelRepository,
    SpaceRepository,
)
from commonbrain.storage.coordination import (
    AckRepository,
    BriefingRepository,
    Heartbeat,
    MessageRepository,
    ScratchpadRepository,
    SessionRepository,
    ThreadRepository,
)
from commonbrain.storage.index import Hit, Index
from commonbrain.storage.knowledge import ConflictRepository, GraphRepository, ReviewRepository
from commonbrain.storage.maintenance import Backup, Finding, Progress, ignore_progress
from commonbrain.storage.query_scope import QueryScope
from commonbrain.storage.records import (
    AnnotationRepository,
    ChangeRepository,
    LinkRepository,
    MemoryAccess,
    RecallLogRepository,
    RecordRepository,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBy:
    """What upkeep looks for: memories whose time is over, tasks long due, what is too old."""

    now: datetime
    tasks_before: datetime
    """Tasks that are not done and were due before it."""
    rules: Sequence[Retention] = ()


class MaintenanceQueries(Protocol):
    """Memories as upkeep goes through them: by ascending ids, page by page."""

    def due(self, wanted: DueBy, *, after: int, limit: int) -> list[int]:
        """List ids above one id, ascending, of current memories that may be due for something."""
        ...

    def bodiless(self, *, after: int, limit: int) -> list[int]:
        """List ids above one id, ascending, of rows whose body is lost; there should be none."""
        ...


Answer = TypeVar("Answer")


class MemoryRepository(MaintenanceQueries, Protocol):
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

    def texts(self, ids: Sequence[int]) -> dict[int, str]:
        """Give what memories say in full, and nothing else of them."""
        ...

    def by_hash(
        self, kind: Kind, semantic_hash: str, *, source_ref: str | None = None
    ) -> list[Memory]:
        """Find the current ones of a kind, and of a source, that say the same, oldest first."""
        ...

    def skilled(self, name: str) -> list[int]:
        """Find the current rules whose trigger has this name."""
        ...

    def newest(self, look: QueryScope, *, limit: int) -> list[Hit]:
        """List what the look allows, latest occurrence first."""
        ...

    def any(self, look: QueryScope) -> bool:
        """Say whether the look allows anything at all."""
        ...

    def update(self, before: Memory, after: Memory) -> None:
        """Write what differs between two states of one memory; its text never does."""
        ...

    def turn(self, ids: Sequence[int], state: State) -> None:
        """Bring memories into one state and leave everything else of them."""
        ...

    def skills(self, look: QueryScope) -> Mapping[int, Mapping[str, object]]:
        """Give the triggers of the rules that the look allows and that have one, by id."""
        ...

    def people(self, names: Sequence[str]) -> set[str]:
        """Say which of these case-folded names are of somebody who said something here."""
        ...

    def naming(self, references: Sequence[str], look: QueryScope, *, limit: int) -> list[int]:
        """List what the look allows that names one of these references, the newest first."""
        ...

    def predecessor(self, memory_id: int) -> int | None:
        """Give the memory whose place this one took; None when it is a first."""
        ...

    def page(self, *, after: int, limit: int) -> list[int]:
        """List ids of memories of any state above one id, ascending."""
        ...

    def counts(self) -> Mapping[tuple[Kind, State], int]:
        """Count the tenant's memories by kind and state."""
        ...


class Transaction(Protocol):
    """The shelves of one tenant, seen at one moment and changed together or not at all."""

    @property
    def memories(self) -> MemoryRepository:
        """The rows."""
        ...

    @property
    def index(self) -> Index:
        """What is derived from them."""
        ...

    @property
    def threads(self) -> ThreadRepository:
        """The threads of messages."""
        ...

    @property
    def sessions(self) -> SessionRepository:
        """Who is at work."""
        ...

    @property
    def mail(self) -> MessageRepository:
        """To whom messages went."""
        ...

    @property
    def links(self) -> LinkRepository:
        """The edges between memories."""
        ...

    @property
    def changes(self) -> ChangeRepository:
        """What was done to memories, with what was before."""
        ...

    @property
    def annotations(self) -> AnnotationRepository:
        """What was noted beside memories."""
        ...

    @property
    def records(self) -> RecordRepository:
        """What happened."""
        ...

    @property
    def graph(self) -> GraphRepository:
        """Walks over the links."""
        ...

    @property
    def reviews(self) -> ReviewRepository:
        """What needs review."""
        ...

    @property
    def disputes(self) -> ConflictRepository:
        """What disagrees, and is not settled."""
        ...

    @property
    def duties(self) -> AckRepository:
        """What was decided on action items."""
        ...

    @property
    def board(self) -> BriefingRepository:
        """What binds and what is owed."""
        ...

    @property
    def notes(self) -> ScratchpadRepository:
        """What sessions keep at hand."""
        ...

    @property
    def credentials(self) -> CredentialRepository:
        """Who may call."""
        ...

    @property
    def jobs(self) -> JobRepository:
        """What is to be done outside of any call."""
        ...

    @property
    def events(self) -> ToolEventRepository:
        """Who called what."""
        ...

    @property
    def ledger(self) -> RecallLogRepository:
        """What recalls considered and packed, and what became of it."""
        ...

    @property
    def registry(self) -> ModelRepository:
        """The models."""
        ...

    @property
    def evaluations(self) -> EvaluationRepository:
        """What was measured."""
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
    def space(self) -> EmbeddingSpace:
        """The vector space its vectors live in."""
        ...

    @property
    def moved_to(self) -> str | None:
        """The space that serves now, where it is another than `space`; else None."""
        ...

    @property
    def spaces(self) -> SpaceRepository:
        """The spaces that it is kept in."""
        ...

    def beside(self, space: EmbeddingSpace) -> Store:
        """Give the store as it is in another space, made where there is none; closed with this."""
        ...

    def begin(self, tenant: str) -> AbstractContextManager[Transaction]:
        """Open a transaction that may write: commits at the end, rolls back on any exception.

        Raises:
            UnavailableError: `store_down`, the store stayed locked, is full or read-only; nothing
                kept.
            StoreCorruptError: `store_corrupt`, the store is damaged; nothing kept.

        """
        ...

    def one_moment(self) -> AbstractContextManager[None]:
        """Let all that is read inside, by this thread, be of one moment, until it writes.

        The first snapshot that is opened inside stays open for those that follow it.
        """
        ...

    def snapshot(self, tenant: str) -> AbstractContextManager[Transaction]:
        """Open a transaction that only reads and never waits for a writer.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.
            StoreCorruptError: `store_corrupt`, the store is damaged.

        """
        ...

    def read(self, tenant: str, ask: Callable[[Transaction], Answer]) -> Answer:
        """Ask what only reads, perhaps of a replica; asked twice where a replica fails under way.

        Whatever anybody was told is kept before this is asked is seen, by whichever process.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.
            StoreCorruptError: `store_corrupt`, the store is damaged.

        """
        ...

    def replicas(self) -> Sequence[ReplicaReads]:
        """Tell how the replicas fared in this process; none where there are none."""
        ...

    def note_reads(
        self,
        tenant: str,
        *,
        traces: Sequence[Trace],
        accesses: Sequence[MemoryAccess],
        beats: Sequence[Heartbeat] = (),
        happened: EventBatch | None = None,
        keep_from: datetime,
    ) -> int:
        """Keep recall traces, count accesses and signs of life, drop old traces; all together.

        An access counts once more for each memory, and never moves its last access back, nor does
        a beat. A beat makes its session where it is missing, and revives one that was taken for
        over, not one that was ended or rebooted; with an `ending` it ends a live one. Events that
        `happened` are kept, each once however often it is told, and older ones dropped. What
        was used is marked on recalls that are there then, these traces included.

        Returns:
            How many of the traces are new: one whose id is taken is passed over.

        Raises:
            UnavailableError: the store stayed locked, is full or read-only; nothing was kept.

        """
        ...

    def tenants(self) -> list[str]:
        """List the tenants by name: the one look across them, which tells nothing else of them.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.

        """
        ...

    def make_tenant(self, name: str, *, at: datetime) -> bool:
        """Make a tenant; say whether there was none of that name. Only the owner may.

        Raises:
            UnavailableError: the store stayed locked, is full or read-only; nothing was made.

        """
        ...

    def examine(self) -> list[Finding]:
        """Check that the store is whole and that what is derived agrees with the rows."""
        ...

    def compact(self) -> None:
        """Give back the room of what was deleted, so that no byte of it stays in the store.

        Raises:
            UnavailableError: `store_down`, others are at work in it; nothing was changed.

        """
        ...

    def rebuild_text(self, on_progress: Progress = ignore_progress) -> int:
        """Write the full text anew from the rows, in short transactions; count the memories.

        Others read and write meanwhile. When it is interrupted, running it again finishes it.

        Raises:
            UnavailableError: `store_down`, the store stayed locked, is full or read-only.

        """
        ...

    def backup(
        self, destination: Path, *, replace: bool = False, on_progress: Progress = ignore_progress
    ) -> Backup:
        """Write everything, as of one moment, into a file that is verified before it appears.

        Others read and write meanwhile. Whatever goes wrong, the destination is as it was.

        Raises:
            InvalidInputError: the destination exists and is not to be replaced, or is the store
                itself.
            UnavailableError: the destination cannot be written, or the store cannot be read.
            StoreCorruptError: the store is damaged; a damaged backup is not left behind.

        """
        ...

    def close(self) -> None:
        """Let go of the store; what was committed stays."""
        ...


class IdTaken(Exception):
    """A freshly drawn id exists already: draw another and try again."""
