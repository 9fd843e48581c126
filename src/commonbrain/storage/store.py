"""The store: its transactions, each of one tenant, and the repositories of a transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from sqlalchemy import Connection, bindparam, func, select

from commonbrain.embeddings.interface import EmbeddingSpace, StoredSpace
from commonbrain.model.errors import StoreCorruptError, UnavailableError
from commonbrain.model.memory import FINDABLE_STATES
from commonbrain.model.query import RecallTrace
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.model.timestamps import to_millis
from commonbrain.model.values import dataclass, field, replace
from commonbrain.observability.health import ReplicaReads
from commonbrain.observability.tool_events import EventBatch
from commonbrain.storage.interface import (
    Backup,
    Finding,
    Heartbeat,
    Index,
    MemoryAccess,
    Progress,
    ignore_progress,
)
from commonbrain.storage.repositories.embedding_spaces import SpaceRepository
from commonbrain.storage.repositories.records import drop_old, trace_row, write_events
from commonbrain.storage.repositories.sessions import beat_row
from commonbrain.storage.schema.activity import feedback, recall_traces
from commonbrain.storage.schema.memories import memories
from commonbrain.storage.sql.context import (
    Dialect,
    SqlContext,
    add_tenant,
    end_shared_read,
    serving_space,
    shared,
    shared_read,
)
from commonbrain.storage.sql.schema_version import VERSIONS, only_version

if TYPE_CHECKING:
    from commonbrain.storage.repositories.action_items import AckRepository, BriefingRepository
    from commonbrain.storage.repositories.changes import ChangeRepository
    from commonbrain.storage.repositories.credentials import CredentialRepository
    from commonbrain.storage.repositories.embedding_spaces import MissingEmbeddings
    from commonbrain.storage.repositories.jobs import JobRepository
    from commonbrain.storage.repositories.learning import (
        EvaluationRepository,
        ModelRepository,
        RecallLogRepository,
    )
    from commonbrain.storage.repositories.links import (
        AnnotationRepository,
        GraphRepository,
        LinkRepository,
    )
    from commonbrain.storage.repositories.listing import ListingRepository
    from commonbrain.storage.repositories.memories import MemoryRepository
    from commonbrain.storage.repositories.messages import MessageRepository
    from commonbrain.storage.repositories.records import (
        AuditRepository,
        RecordRepository,
        ToolEventRepository,
    )
    from commonbrain.storage.repositories.reviews import ConflictRepository, ReviewRepository
    from commonbrain.storage.repositories.sessions import ScratchpadRepository, SessionRepository
    from commonbrain.storage.repositories.threads import ThreadRepository
    from commonbrain.storage.repositories.trends import TrendRepository

_REPOSITORIES: Final = "commonbrain.storage.repositories"
_Result = TypeVar("_Result")
_IS_FINDABLE = memories.c.state.in_(sorted(FINDABLE_STATES))
_FINDABLE = (
    select(func.count())
    .select_from(memories)
    .where(memories.c.tenant_id == bindparam("tenant"), _IS_FINDABLE)
)
_NEXT_FINDABLE = (
    select(memories.c.id)
    .where(memories.c.tenant_id == bindparam("tenant"))
    .where(memories.c.id > bindparam("after"), _IS_FINDABLE)
    .order_by(memories.c.id)
    .limit(bindparam("limit"))
)
_REWORDED_AT_ONCE = 200
"""Memories whose words are written in one transaction: others wait a few hundredths of a second."""


_Made = TypeVar("_Made")


class _Repository(Generic[_Made]):
    """A repository of a transaction, imported and made when it is first used."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __set_name__(self, _owner: object, name: str) -> None:
        self._name = name

    def __get__(self, transaction: Transaction, _owner: object) -> _Made:
        module, _, name = self._place.partition(".")
        made = getattr(import_module(f"{_REPOSITORIES}.{module}"), name)(transaction.work)
        transaction.__dict__[self._name] = made
        return made


class Transaction:
    """The repositories of one tenant, read from one snapshot and changed together or not at all."""

    def __init__(self, work: SqlContext) -> None:
        self.work = work

    memories: _Repository[MemoryRepository] = _Repository("memories.MemoryRepository")
    """The memories."""
    listing: _Repository[ListingRepository] = _Repository("listing.ListingRepository")
    """Lists of memories for people."""
    threads: _Repository[ThreadRepository] = _Repository("threads.ThreadRepository")
    """Threads of messages."""
    sessions: _Repository[SessionRepository] = _Repository("sessions.SessionRepository")
    """Sessions of agents."""
    messages: _Repository[MessageRepository] = _Repository("messages.MessageRepository")
    """Messages and their recipients."""
    links: _Repository[LinkRepository] = _Repository("links.LinkRepository")
    """Links between memories."""
    changes: _Repository[ChangeRepository] = _Repository("changes.ChangeRepository")
    """The versions of memories."""
    annotations: _Repository[AnnotationRepository] = _Repository("links.AnnotationRepository")
    """Annotations of memories."""
    records: _Repository[RecordRepository] = _Repository("records.RecordRepository")
    """Receipts, feedback and other records about memories."""
    audit: _Repository[AuditRepository] = _Repository("records.AuditRepository")
    """The audit."""
    graph: _Repository[GraphRepository] = _Repository("links.GraphRepository")
    """Walks over links."""
    reviews: _Repository[ReviewRepository] = _Repository("reviews.ReviewRepository")
    """Reviews of invalidated memories."""
    conflicts: _Repository[ConflictRepository] = _Repository("reviews.ConflictRepository")
    """Conflicts between memories."""
    acks: _Repository[AckRepository] = _Repository("action_items.AckRepository")
    """Acknowledgements of action items."""
    briefing: _Repository[BriefingRepository] = _Repository("action_items.BriefingRepository")
    """The rows of a briefing."""
    scratchpad: _Repository[ScratchpadRepository] = _Repository("sessions.ScratchpadRepository")
    """Notes of sessions."""
    credentials: _Repository[CredentialRepository] = _Repository("credentials.CredentialRepository")
    """The tenant and the audit of access."""
    jobs: _Repository[JobRepository] = _Repository("jobs.JobRepository")
    """Background jobs."""
    events: _Repository[ToolEventRepository] = _Repository("records.ToolEventRepository")
    """Events of calls."""
    trends: _Repository[TrendRepository] = _Repository("trends.TrendRepository")
    """Figures over time."""
    recall_log: _Repository[RecallLogRepository] = _Repository("learning.RecallLogRepository")
    """Traces of recalls."""
    models: _Repository[ModelRepository] = _Repository("learning.ModelRepository")
    """Trained models."""
    evaluations: _Repository[EvaluationRepository] = _Repository("learning.EvaluationRepository")
    """Evaluations of this store."""

    @cached_property
    def index(self) -> Index:
        """Full text and vectors."""
        return self.work.dialect.index(self.work)

    @cached_property
    def missing_embeddings(self) -> MissingEmbeddings:
        """Memories without vectors; counting them needs no index."""
        from commonbrain.storage.repositories.embedding_spaces import MissingEmbeddings  # noqa: PLC0415

        return MissingEmbeddings(work=self.work, space_id=self.work.dialect.space_id)

    def scrub(self, memory_id: int) -> Mapping[str, int]:
        """Remove the text of a memory from every table; its id stays as a forgotten memory.

        Returns:
            The number of rows that were emptied or deleted, for every place searched.

        """
        from commonbrain.storage.repositories.erasure import erase_text  # noqa: PLC0415
        from commonbrain.storage.repositories.memory_rows import forget_decoded  # noqa: PLC0415

        known = self.memories.get([memory_id])
        forget_decoded(memory_id)
        self.index.drop(memory_id)
        kind = known[memory_id].kind
        return {"full text": 1, **erase_text(self.work, memory_id, kind=kind)}


@dataclass(slots=True)
class Schema:
    """Detects that a newer program changed the schema of an open store."""

    version: str
    mark: int | None = None
    serving: StoredSpace | None = None
    """The space that served when the mark was last another; None before the first look."""

    def check(self, connection: Connection, dialect: Dialect) -> None:
        """Read the version only if the schema changed since the last check.

        Raises:
            StoreCorruptError: `store_newer`, this program might break rules that it does not know.

        """
        mark = dialect.schema_mark(connection)
        if mark == self.mark:
            return
        version = only_version(connection.execute(VERSIONS).scalars().all())
        if not self.accepts(version, connection):
            raise StoreCorruptError(
                f"{dialect.location} was upgraded to schema version {version} while it was open "
                f"here; this program supports {self.version}.",
                code="store_newer",
                hint="Nothing was changed. Restart this program with the newer Commonbrain.",
            )
        self.serving = serving_space(connection)
        self.mark = mark

    def accepts(self, version: str, connection: Connection) -> bool:  # noqa: ARG002 engines look
        """Return whether this program may use a schema of another version."""
        return version == self.version


@dataclass(frozen=True, slots=True)
class Store:
    """A relational store of any dialect; safe to use from several threads and processes.

    A transaction is seen whole or not at all. What `begin` committed survives the death of the
    process and is in the next `snapshot` of every process. The index never finds a forgotten
    memory. No tenant sees rows of another.
    """

    dialect: Dialect
    space: EmbeddingSpace
    schema: Schema
    closed: Event = field(default_factory=Event)

    @property
    def location(self) -> str:
        """Path or URL for display, without secrets."""
        return self.dialect.location

    @property
    def moved_to(self) -> str | None:
        """The name of the serving space if it is not this store's; as of the last check."""
        serving = self.schema.serving
        return None if serving is None or serving.id == self.dialect.space_id else serving.name

    @property
    def spaces(self) -> SpaceRepository:
        """The embedding spaces of this store."""
        return SpaceRepository(self.dialect)

    def in_space(self, space: EmbeddingSpace) -> Store:
        """Return this store in another space, created if needed; `close` closes both."""
        self._check_open()
        dialect = self.dialect.in_space(space, self.spaces.add(space).id)
        schema = replace(self.schema, mark=None, serving=None)
        return replace(self, dialect=dialect, space=space, schema=schema)

    @contextmanager
    def begin(self, tenant: str) -> Generator[Transaction]:
        """Open a transaction that may write: commits at the end, rolls back on any exception.

        Raises:
            UnavailableError: `store_down`, the store stayed locked, is full or read-only; nothing
                kept.
            StoreCorruptError: `store_corrupt`, the store is damaged; nothing kept.

        """
        self._check_open()
        end_shared_read(self)
        with (
            self.dialect.map_errors() as under_way,
            self.dialect.writer(tenant) as connection,
            connection.begin(),
        ):
            self.schema.check(connection, self.dialect)
            yield Transaction(
                SqlContext(connection=connection, tenant=tenant, dialect=self.dialect)
            )
            changes = self.dialect.count_changes(connection)
            under_way.is_ending = True
        # It may have been moved between the first look and the commit; after it, it cannot matter.
        self.dialect.acknowledge(changes)

    @contextmanager
    def snapshot(self, tenant: str) -> Generator[Transaction]:
        """Open a transaction that only reads and never waits for a writer.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.
            StoreCorruptError: `store_corrupt`, the store is damaged.

        """
        with (
            self.dialect.map_errors(),
            shared(self, tenant, begin=lambda: self._reading(tenant)) as transaction,
        ):
            yield transaction

    def consistent_reads(self) -> AbstractContextManager[None]:
        """Make all reads of this thread inside see one snapshot, until it writes.

        The first `snapshot` opened inside serves those that follow.
        """
        return shared_read()

    def read(self, tenant: str, ask: Callable[[Transaction], _Result]) -> _Result:
        """Run a read; an engine may repeat it, and run it where it has every acknowledged write.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.
            StoreCorruptError: `store_corrupt`, the store is damaged.

        """
        with self.snapshot(tenant) as tx:
            return ask(tx)

    def is_restarting(self) -> bool:
        """Return whether its server went away and calls wait for it; a file has none."""
        return False

    def replicas(self) -> Sequence[ReplicaReads]:
        """Return the read statistics of each replica in this process; a file has none."""
        return ()

    def tenants(self) -> list[str]:
        """List the tenants by name: the only query across tenants.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.

        """
        with self.dialect.map_errors(), self._reader(None) as connection:
            return sorted(self.dialect.each_tenant(connection))

    def make_tenant(self, name: str, *, at: datetime) -> bool:
        """Create a tenant; return False if it exists. Needs the owner's rights.

        Raises:
            UnavailableError: the store stayed locked, is full or read-only; nothing was created.

        """
        with self.begin(name) as tx:
            return add_tenant(tx.work.connection, name, now=at)

    def examine(self) -> list[Finding]:
        """Check the integrity of the store, and of derived data against the rows."""
        with self.dialect.map_errors(), self._reader(None) as connection:
            return [*self.dialect.examine(connection), self._examine_rows(connection)]

    def note_reads(
        self,
        tenant: str,
        *,
        traces: Sequence[RecallTrace],
        accesses: Sequence[MemoryAccess],
        beats: Sequence[Heartbeat] = (),
        happened: EventBatch | None = None,
        retain_from: datetime | None,
    ) -> int:
        """Store traces, accesses, heartbeats and events, and delete old traces, in one transaction.

        An access adds one to the count of each memory, and to what its session was shown; neither
        it nor a heartbeat moves a time back. A heartbeat creates a missing session and revives one
        that was presumed dead, but not one that ended or rebooted; with an `ending` it ends a live
        one. Events of `happened` are stored once each; their uses mark the recalls that showed the
        memories, these traces included. What is older than a time of retention is deleted; none is
        looked for where that is None.

        Returns:
            The number of new traces; a trace whose id is taken is skipped.

        Raises:
            UnavailableError: the store stayed locked, is full or read-only; nothing was stored.

        """
        self._check_open()
        touched = [(id_, to_millis(one.at)) for one in accesses for id_ in one.ids]
        # Everything that can be is done before the lock is taken.
        given = {
            "tenant": tenant,
            "traces": [trace_row(trace) for trace in traces],
            "accesses": json.dumps(touched),
            "beats": json.dumps([beat_row(beat.session) for beat in beats], ensure_ascii=False),
        }
        with self.begin(tenant) as tx:
            if happened is not None:
                write_events(tx.work, happened)
            new = self.dialect.note_reads(tx.work.connection, given)
            drop_old(tx.work, recall_traces.c.id, feedback.c.trace_id, before=retain_from)
            for use in happened.uses if happened is not None else ():
                tx.recall_log.credit(use)
            for one in accesses:
                if one.shown is not None:
                    tx.sessions.show(one.shown, at=one.at)
            return new

    def compact(self) -> None:
        """Free the space of deleted rows, so that no byte of them stays in the store.

        Raises:
            UnavailableError: `store_down`, other processes use the store; nothing was changed.

        """
        self._check_open()
        # A snapshot of this call would keep the log from being truncated.
        end_shared_read(self)
        with self.dialect.map_errors():
            self.dialect.compact()

    def rebuild_text(self, on_progress: Progress = ignore_progress) -> int:
        """Rebuild the full text from the rows in short transactions; return the number of memories.

        Others can read and write meanwhile. If it is interrupted, run it again to finish.

        Raises:
            UnavailableError: `store_down`, the store stayed locked, is full or read-only.

        """
        with self.begin(LOCAL_TENANT) as tx:
            connection = tx.work.connection
            # Tenants are listed before anything is written, since the list is read with the
            # owner's rights, and Citus lets only one role read what a transaction has written.
            counts = {
                owner: connection.execute(_FINDABLE, {"tenant": owner}).scalar_one()
                for owner in self.dialect.each_tenant(connection)
            }
            self.dialect.clear_text(connection)
        done = 0
        for owner in counts:
            for count in self._reword(owner):
                done += count
                on_progress(min(done / max(sum(counts.values()), 1), 1.0))
        return done

    def backup(
        self, destination: Path, *, replace: bool = False, on_progress: Progress = ignore_progress
    ) -> Backup:
        """Write a snapshot into a file that is verified before it appears.

        Others can read and write meanwhile. On any failure the destination is as it was.

        Raises:
            InvalidInputError: the destination exists without `replace`, or is the store itself.
            UnavailableError: the destination cannot be written, or the store cannot be read.
            StoreCorruptError: the store is damaged; a damaged backup is deleted.

        """
        self._check_open()
        return self.dialect.backup(destination, replace=replace, on_progress=on_progress)

    def check_process(self) -> None:
        """Check that this process opened the store.

        Raises:
            UnavailableError: `store_forked`, its parent did, and the store is a file.

        """
        self.dialect.check_process()

    def close(self) -> None:
        """Close every connection; committed data stays, later calls fail."""
        self.closed.set()
        self.dialect.dispose()

    def _reword(self, tenant: str) -> Generator[int]:
        """Rebuild a tenant's full text batch by batch; yield the memories of each batch."""
        given = {"tenant": tenant, "limit": _REWORDED_AT_ONCE}
        last = -1
        while True:
            with self.begin(tenant) as tx:
                query = given | {"after": last}
                ids = tx.work.connection.execute(_NEXT_FINDABLE, query).scalars().all()
                for memory in tx.memories.get(ids).values():
                    tx.index.reword(memory)
            if not ids:
                return
            last = ids[-1]
            yield len(ids)

    def _examine_rows(self, connection: Connection) -> Finding:
        """Check that every memory has the detail of its kind."""
        from commonbrain.storage.repositories.memories import bodiless  # noqa: PLC0415

        missing = 0
        for tenant in self.dialect.each_tenant(connection):
            rows = bodiless(tenant).order_by(None).subquery()
            missing += connection.execute(select(func.count()).select_from(rows)).scalar_one()
        return Finding(check="details", is_sound=missing == 0, detail=f"{missing} missing")

    @contextmanager
    def _reading(self, tenant: str) -> Generator[Transaction]:
        with self.dialect.map_errors(), self._reader(tenant) as connection:
            yield self._snapshot_of(connection, tenant)

    def _snapshot_of(self, connection: Connection, tenant: str) -> Transaction:
        work = SqlContext(
            connection=connection, tenant=tenant, dialect=self.dialect, is_snapshot=True
        )
        return Transaction(work)

    @contextmanager
    def _reader(self, tenant: str | None) -> Generator[Connection]:
        self._check_open()
        with self.dialect.reader(tenant) as connection, connection.begin():
            self.schema.check(connection, self.dialect)
            yield connection

    def _check_open(self) -> None:
        if self.closed.is_set():
            raise UnavailableError(f"The store {self.location} was closed.", hint="Open it again.")
