"""A store in Postgres: reads that replicas may answer, and schemas that older programs may use."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar, cast

from sqlalchemy import Connection, exc, text

from commonbrain.model.errors import UnavailableError
from commonbrain.model.values import dataclass, replace
from commonbrain.observability.health import ReplicaReads
from commonbrain.storage.store import Schema, Store, Transaction
from commonbrain_server.postgres.cancellation import Abandoned
from commonbrain_server.postgres.engine import Postgres

_Result = TypeVar("_Result")
_READABLE_FROM: Final = text("SELECT obj_description('alembic_version'::regclass)")


@dataclass(slots=True)
class PostgresSchema(Schema):
    """The schema of a database, whose programs are replaced one by one after an upgrade."""

    def accepts(self, version: str, connection: Connection) -> bool:
        """Return whether the upgrade left the schema usable for this program."""
        if version == self.version:
            return True
        oldest = connection.execute(_READABLE_FROM).scalar()
        return oldest is not None and oldest <= self.version


@dataclass(frozen=True, slots=True)
class PostgresStore(Store):
    """A store in Postgres. What was acknowledged to any process is in the next read of each."""

    @property
    def postgres(self) -> Postgres:
        """The engine."""
        return cast("Postgres", self.dialect)

    def read(self, tenant: str, ask: Callable[[Transaction], _Result]) -> _Result:
        """Run a read, on a replica if one is recent enough; repeat it on the primary if that fails.

        It is repeated once if the connection is lost, as when the server restarts.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.
            StoreCorruptError: `store_corrupt`, the store is damaged.

        """
        try:
            return self._read(tenant, ask)
        except UnavailableError as error:
            cause = error.__cause__
            if not (isinstance(cause, exc.DBAPIError) and cause.connection_invalidated):
                raise
            if isinstance(cause.orig, Abandoned):
                raise
        return self._read(tenant, ask)

    def _read(self, tenant: str, ask: Callable[[Transaction], _Result]) -> _Result:
        replicas = self.postgres.replicas
        if not replicas.all:
            return Store.read(self, tenant, ask)
        self._check_open()

        def query(connection: Connection) -> _Result:
            self.schema.check(connection, self.dialect)
            return ask(self._snapshot_of(connection, tenant))

        with self.dialect.map_errors():
            result = replicas.ask(self.dialect.engine, tenant, ask=query)
        return Store.read(self, tenant, ask) if result is None else result[0]

    def is_restarting(self) -> bool:
        """Return whether calls wait for the server, see `Postgres.is_restarting`."""
        return self.postgres.is_restarting()

    def replicas(self) -> Sequence[ReplicaReads]:
        """Return the read statistics of each replica in this process."""
        return [replica.reads for replica in self.postgres.replicas.all]

    def _snapshot_of(self, connection: Connection, tenant: str) -> Transaction:
        transaction = Store._snapshot_of(self, connection, tenant)  # noqa: SLF001 its own base
        if self.postgres.is_distributed:
            # Citus would plan a query for what a tenant has, a union of many tables, each time.
            return Transaction(replace(transaction.work, is_snapshot=False))
        return transaction
