"""The store: connections, transactions of one tenant, and the only translation of driver errors."""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import TypeVar

from pydantic_core import to_json
from sqlalchemy import Connection, bindparam, func, select, text

from commonbrain.embeddings.interface import EmbeddingSpace, StoredSpace
from commonbrain.model import ids
from commonbrain.model.errors import StoreCorruptError, UnavailableError
from commonbrain.model.memory import FINDABLE_STATES
from commonbrain.model.query import Trace
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.model.timestamps import to_millis
from commonbrain.observability.health import ReplicaReads
from commonbrain.observability.tool_events import EventBatch
from commonbrain.storage.coordination import Heartbeat
from commonbrain.storage.index import Index
from commonbrain.storage.maintenance import Backup, Finding, Progress, ignore_progress
from commonbrain.storage.records import MemoryAccess
from commonbrain.storage.repositories.action_items import SqlAckRepository, SqlBriefingRepository
from commonbrain.storage.repositories.changes import SqlChangeRepository
from commonbrain.storage.repositories.conflicts import SqlConflictRepository
from commonbrain.storage.repositories.credentials import SqlCredentialRepository
from commonbrain.storage.repositories.embedding_spaces import SqlSpaceRepository
from commonbrain.storage.repositories.erasure import erase_text
from commonbrain.storage.repositories.graph import SqlGraphRepository
from commonbrain.storage.repositories.jobs import SqlJobRepository
from commonbrain.storage.repositories.learning import (
    SqlEvaluationRepository,
    SqlModelRepository,
    SqlRecallLogRepository,
)
from commonbrain.storage.repositories.links import SqlAnnotationRepository, SqlLinkRepository
from commonbrain.storage.repositories.memories import SqlMemoryRepository
from commonbrain.storage.repositories.messages import SqlMessageRepository
from commonbrain.storage.repositories.records import (
    SqlRecordRepository,
    SqlToolEventRepository,
    trace_row,
    write_events,
)
from commonbrain.storage.repositories.reviews import SqlReviewRepository
from commonbrain.storage.repositories.sessions import (
    SqlScratchpadRepository,
    SqlSessionRepository,
    beat_row,
)
from commonbrain.storage.repositories.threads import SqlThreadRepository
from commonbrain.storage.schema.memories import DETAILS, memories
from commonbrain.storage.sql.context import Dialect, SqlContext, add_tenant, serving_space
from commonbrain.storage.sql.errors import map_driver_errors
from commonbrain.storage.sql.shared_snapshot import end_shared_read, shared, shared_read

_Told = TypeVar("_Told")
_VERSION = text("SELECT version_num FROM alembic_version")
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


@dataclass(frozen=True, slots=True)
class SqlTransaction:
    """The shelves of one tenant in one transaction."""

    work: SqlContext
    memories: SqlMemoryRepository
    index: Index
    threads: SqlThreadRepository
    sessions: SqlSessionRepository
    mail: SqlMessageRepository
    links: SqlLinkRepository
    changes: SqlChangeRepository
    annotations: SqlAnnotationRepository
    records: SqlRecordRepository
    graph: SqlGraphRepository
    reviews: SqlReviewRepository
    disputes: SqlConflictRepository
    duties: SqlAckRepository
    board: SqlBriefingRepository
    notes: SqlScratchpadRepository
    credentials: SqlCredentialRepository
    jobs: SqlJobRepository
    events: SqlToolEventRepository
    ledger: SqlRecallLogRepository
    registry: SqlModelRepository
    evaluations: SqlEvaluationRepository

    @classmethod
    def of(cls, work: SqlContext) -> "SqlTransaction":
        """Set up the shelves on a transaction in progress."""
        return cls(
            work=work,
            memories=SqlMemoryRepository(work),
            index=work.dialect.index(work),
            threads=SqlThreadRepository(work),
            sessions=SqlSessionRepository(work),
            mail=SqlMessageRepository(work),
            links=SqlLinkRepository(work),
            changes=SqlChangeRepository(work),
            annotations=SqlAnnotationRepository(work),
            records=SqlRecordRepository(work),
            graph=SqlGraphRepository(work),
            reviews=SqlReviewRepository(work),
            disputes=SqlConflictRepository(work),
            duties=SqlAckRepository(work),
            board=SqlBriefingRepository(work),
            notes=SqlScratchpadRepository(work),
            credentials=SqlCredentialRepository(work),
            jobs=SqlJobRepository(work),
            events=SqlToolEventRepository(work),
            ledger=SqlRecallLogRepository(work),
            registry=SqlModelRepository(work),
            evaluations=SqlEvaluationRepository(work),
        )

    def scrub(self, memory_id: int) -> Mapping[str, int]:
        """Take the text of a memory out of every table; give the rows of each place."""
        known = self.memories.get([memory_id])
        self.index.drop(memory_id)
        kind = known[memory_id].kind
        return {"full text": 1, **erase_text(self.work, memory_id, kind=kind)}


@dataclass(slots=True)
class Schema:
    """Notices when a newer program changed the schema of a store that is open here."""

    version: str
    mark: int | None = None
    serving: StoredSpace | None = None
    """The space that served when the mark was last another; None before the first look."""

    def check(self, connection: Connection, dialect: Dialect) -> None:
        """Look closer only when the schema is not the one last seen.

        Raises:
            StoreCorruptError: `store_newer`, what this program does not know may be a rule it would
                break.

        """
        mark = dialect.schema_mark(connection)
        if mark == self.mark:
            return
        version = connection.execute(_VERSION).scalar_one()
        if version != self.version and not self.reads(connection, dialect):
            raise StoreCorruptError(
                f"{dialect.location} was brought to schema version {version} while it was open "
                f"here; this program knows {self.version}.",
                code="store_newer",
                hint="Nothing was changed. Start this program anew with the newer Commonbrain.",
            )
        self.serving = serving_space(connection)
        self.mark = mark

    def reads(self, connection: Connection, dialect: Dialect) -> bool:
        """Say whether a newer schema is one that this program still understands."""
        oldest = dialect.readable_from(connection)
        return oldest is not None and oldest <= self.version


@dataclass(frozen=True, slots=True)
class SqlStore:
    """A relational store of any dialect; made by `open_sqlite`, which brings its schema up."""

    dialect: Dialect
    space: EmbeddingSpace
    schema: Schema
    closed: Event = field(default_factory=Event)

    @property
    def location(self) -> str:
        """Where it is, for people."""
        return self.dialect.location

    @property
    def moved_to(self) -> str | None:
        """The space that serves, where it is another than this one's; as of the last look."""
        serving = self.schema.serving
        return None if serving is None or serving.id == self.dialect.space_id else serving.name

    @property
    def spaces(self) -> SqlSpaceRepository:
        """The spaces of this store."""
        return SqlSpaceRepository(self.dialect)

    def beside(self, space: EmbeddingSpace) -> "SqlStore":
        """Give the same store as it is in another space, which is made where there is none."""
        self._check_open()
        dialect = self.dialect.beside(space, self.spaces.add(space).id)
        return SqlStore(dialect, space, Schema(self.schema.version), self.closed)

    @contextmanager
    def begin(self, tenant: str) -> Generator[SqlTransaction]:
        """Open a transaction that may write: commits at the end, rolls back on any exception."""
        self._check_open()
        end_shared_read(self)
        with (
            map_driver_errors(self.location) as under_way,
            self.dialect.writer(tenant) as connection,
            connection.begin(),
        ):
            self.schema.check(connection, self.dialect)
            yield SqlTransaction.of(
                SqlContext(connection=connection, tenant=tenant, dialect=self.dialect)
            )
            under_way.is_ending = True
        # It may have been moved between the first look and the commit; after it, it cannot matter.
        self.dialect.check_kept()

    @contextmanager
    def snapshot(self, tenant: str) -> Generator[SqlTransaction]:
        """Open a transaction that only reads and never waits for a writer.

        Inside `one_moment` it is the one that is open already.
        """
        with (
            map_driver_errors(self.location),
            shared(self, tenant, begin=lambda: self._reading(tenant)) as transaction,
        ):
            yield transaction

    def one_moment(self) -> AbstractContextManager[None]:
        """Let all that is read inside, by this thread, be of one moment, until it writes."""
        return shared_read()

    def read(self, tenant: str, ask: Callable[[SqlTransaction], _Told]) -> _Told:
        """Ask what only reads: of a replica that has all that anybody was told is kept, if any.

        What a replica fails to answer is asked again of the primary.
        """
        self._check_open()

        def asked(connection: Connection) -> _Told:
            self.schema.check(connection, self.dialect)
            work = SqlContext(connection=connection, tenant=tenant, dialect=self.dialect)
            return ask(SqlTransaction.of(work))

        with map_driver_errors(self.location):
            told = self.dialect.ask_copy(tenant, asked)
        if told is not None:
            return told[0]
        with self.snapshot(tenant) as tx:
            return ask(tx)

    def replicas(self) -> list[ReplicaReads]:
        """Tell how the replicas fared that reads are answered from."""
        return self.dialect.replica_reads()

    def tenants(self) -> list[str]:
        """List every tenant by name: what a worker goes through, and who owns the store."""
        with map_driver_errors(self.location), self._reader(None) as connection:
            return sorted(self.dialect.each_tenant(connection))

    def make_tenant(self, name: str, *, at: datetime) -> bool:
        """Make a tenant; say whether there was none of that name."""
        with self.begin(name) as tx:
            return add_tenant(tx.work.connection, name, now=at)

    def examine(self) -> list[Finding]:
        """Check that the store is whole and that what is derived agrees with the rows."""
        with map_driver_errors(self.location), self._reader(None) as connection:
            return [*self.dialect.examine(connection), self._examine_rows(connection)]

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
        """Keep traces and events, count accesses and signs of life, drop what is old; together."""
        self._check_open()
        touched = [(id_, to_millis(one.at)) for one in accesses for id_ in one.ids]
        # Everything that can be is done before the lock is taken.
        given = {
            "tenant": tenant,
            # A trace of 40 candidates is long; this takes a fifth of the time of `json`.
            "traces": to_json([trace_row(trace) for trace in traces]).decode(),
            "accesses": json.dumps(touched),
            "beats": json.dumps([beat_row(beat.session) for beat in beats], ensure_ascii=False),
            "before": ids.make_id(keep_from, 0),
        }
        with self.begin(tenant) as tx:
            if happened is not None:
                write_events(tx.work, happened)
            kept = self.dialect.note_reads(tx.work.connection, given)
            for use in happened.uses if happened is not None else ():
                tx.ledger.credit(use)
            return kept

    def compact(self) -> None:
        """Give back the room of what was deleted, so that no byte of it stays in the file."""
        self._check_open()
        with map_driver_errors(self.location):
            self.dialect.compact()

    def rebuild_text(self, on_progress: Progress = ignore_progress) -> int:
        """Write the full text anew from the rows, in short transactions; count the memories.

        A batch is replaced at once, so that nothing stops being found meanwhile.
        """
        with self.begin(LOCAL_TENANT) as tx:
            connection = tx.work.connection
            self.dialect.clear_text(connection)
            counts = {
                owner: connection.execute(_FINDABLE, {"tenant": owner}).scalar_one()
                for owner in self.dialect.each_tenant(connection)
            }
        done = 0
        for owner in counts:
            for count in self._reword(owner):
                done += count
                on_progress(min(done / max(sum(counts.values()), 1), 1.0))
        return done

    def backup(
        self, destination: Path, *, replace: bool = False, on_progress: Progress = ignore_progress
    ) -> Backup:
        """Write everything, as of one moment, into a file that is verified before it appears."""
        self._check_open()
        return self.dialect.backup(destination, replace=replace, on_progress=on_progress)

    def close(self) -> None:
        """Let go of every connection; whoever asks afterwards is told."""
        self.closed.set()
        self.dialect.dispose()

    def _reword(self, tenant: str) -> Generator[int]:
        """Write a tenant's full text batch by batch; tell how many memories each had."""
        given = {"tenant": tenant, "limit": _REWORDED_AT_ONCE}
        last = -1
        while True:
            with self.begin(tenant) as tx:
                asked = given | {"after": last}
                ids = tx.work.connection.execute(_NEXT_FINDABLE, asked).scalars().all()
                for memory in tx.memories.get(ids).values():
                    tx.index.reword(memory)
            if not ids:
                return
            last = ids[-1]
            yield len(ids)

    def _examine_rows(self, connection: Connection) -> Finding:
        """Check that every memory has the detail of its kind."""
        missing = sum(_bodiless(connection, one) for one in self.dialect.each_tenant(connection))
        return Finding(check="details", is_sound=missing == 0, detail=f"{missing} missing")

    @contextmanager
    def _reading(self, tenant: str) -> Generator[SqlTransaction]:
        with map_driver_errors(self.location), self._reader(tenant) as connection:
            yield SqlTransaction.of(
                SqlContext(connection=connection, tenant=tenant, dialect=self.dialect)
            )

    @contextmanager
    def _reader(self, tenant: str | None) -> Generator[Connection]:
        self._check_open()
        with self.dialect.reader(tenant) as connection, connection.begin():
            self.schema.check(connection, self.dialect)
            yield connection

    def _check_open(self) -> None:
        if self.closed.is_set():
            raise UnavailableError(f"The store {self.location} was closed.", hint="Open it again.")


def _bodiless(connection: Connection, tenant: str) -> int:
    """Count the memories of a tenant that lack the detail of their kind."""
    missing = 0
    for kind, table in DETAILS.items():
        here = select(1).where(
            table.c.tenant_id == memories.c.tenant_id,
            table.c.memory_id == memories.c.id,
        )
        of_kind = memories.c.tenant_id == tenant, memories.c.kind == kind
        without = select(func.count()).select_from(memories).where(*of_kind, ~here.exists())
        missing += connection.execute(without).scalar_one()
    return missing
