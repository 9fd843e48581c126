"""A store in Postgres whose tenants are those of one test: other tests use the same database.

Isolation between tenants is the store's own promise, which `tests.security` and
`test_postgres_confinement` of the server test.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from commonbrain_server.postgres.engine import Postgres
from commonbrain_server.postgres.store import PostgresStore
from sqlalchemy import Connection

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.query import RecallTrace
from commonbrain.observability.tool_events import EventBatch
from commonbrain.storage.interface import Heartbeat, MemoryAccess
from commonbrain.storage.store import Store, Transaction

_Result = TypeVar("_Result")


@dataclass(slots=True, kw_only=True)
class SharedPostgres(Postgres):
    """A database that is shared: lists the tenants of one test, and leaves its connections open."""

    shared: Postgres
    mark: str
    """How the names of the test's tenants end there."""

    def __post_init__(self) -> None:
        """Take the connections of the other one."""
        self.engine = self.shared.engine
        self.location = self.shared.location

    def dispose(self) -> None:
        """Do nothing: other tests use the connections."""

    def tenants(self, connection: Connection) -> Sequence[str]:
        """List the tenants of the test."""
        return [name for name in Postgres.tenants(self, connection) if name.endswith(self.mark)]


@dataclass(frozen=True, slots=True)
class TenantStore(PostgresStore):
    """A store that adds a mark to every name of a tenant, and takes it off where it lists them."""

    mark: str = ""

    @contextmanager
    def begin(self, tenant: str) -> Generator[Transaction]:
        """Open a transaction of the test's tenant of this name."""
        with PostgresStore.begin(self, self._marked(tenant)) as tx:
            yield tx

    @contextmanager
    def snapshot(self, tenant: str) -> Generator[Transaction]:
        """Read the test's tenant of this name."""
        with PostgresStore.snapshot(self, self._marked(tenant)) as tx:
            yield tx

    def read(self, tenant: str, ask: Callable[[Transaction], _Result]) -> _Result:
        """Read the test's tenant of this name, on a replica too."""
        return PostgresStore.read(self, self._marked(tenant), ask)

    def tenants(self) -> list[str]:
        """List the tenants of the test."""
        return sorted(name.removesuffix(self.mark) for name in PostgresStore.tenants(self))

    def make_tenant(self, name: str, *, at: datetime) -> bool:
        """Create a tenant of the test."""
        return PostgresStore.make_tenant(self, self._marked(name), at=at)

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
        """Note reads of the test's tenant of this name."""
        return PostgresStore.note_reads(
            self,
            self._marked(tenant),
            traces=traces,
            accesses=accesses,
            beats=beats,
            happened=happened,
            retain_from=retain_from,
        )

    def in_space(self, space: EmbeddingSpace) -> Store:
        """Refuse: spaces are of the whole database, so such a test needs one of its own."""
        raise NotImplementedError

    def _marked(self, tenant: str) -> str:
        # Methods of a store call each other, and those of `Store` name tenants as they are there.
        return tenant if tenant.endswith(self.mark) else f"{tenant}{self.mark}"


def with_own_tenants(store: Store, mark: str) -> TenantStore:
    """Give a store on the same connections, whose tenants are those of one test."""
    shared = store.dialect
    assert isinstance(shared, Postgres)
    dialect = SharedPostgres(
        url=shared.url,
        space=shared.space,
        space_id=shared.space_id,
        lock_timeout_s=shared.lock_timeout_s,
        is_distributed=shared.is_distributed,
        replicas=shared.replicas,
        shared=shared,
        mark=mark,
    )
    return TenantStore(dialect, store.space, type(store.schema)(store.schema.version), mark=mark)
