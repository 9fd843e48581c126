"""Open a store in Postgres, which never changes its schema, and upgrade one."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import not_
from typing import Final

from pydantic import SecretStr
from sqlalchemy import URL, Connection, Engine, exc, make_url, text
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from commonbrain.clock import Clock
from commonbrain.config import Settings
from commonbrain.embeddings.interface import EmbeddingSpace, SpaceState, StoredSpace
from commonbrain.model.errors import InvalidInputError, RejectedError, UnavailableError
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.setting_types import StoreLocation
from commonbrain.storage.engines import StoreEngine
from commonbrain.storage.sql.context import known_space, known_spaces, register
from commonbrain.storage.sql.schema_version import (
    MIGRATIONS,
    READABLE_FROM,
    SCHEMA_VERSION,
    version_of,
)
from commonbrain.storage.store import Store
from commonbrain_server.postgres.citus import BEFORE_MIGRATIONS, CITUS, Distribution, distribution
from commonbrain_server.postgres.engine import Postgres, location_of, make_engine
from commonbrain_server.postgres.errors import map_postgres_errors
from commonbrain_server.postgres.replicas import cluster_of
from commonbrain_server.postgres.roles import (
    UPGRADE,
    confine,
    grant,
    granted,
    missing_functions,
    role_of,
    unconfined,
)
from commonbrain_server.postgres.schema import POSTGRES
from commonbrain_server.postgres.store import PostgresSchema, PostgresStore
from commonbrain_server.postgres.vectors import (
    EF_CONSTRUCTION,
    HNSW_M,
    code_of,
    vector_index_name,
)

_TURN: Final = text("SELECT pg_advisory_xact_lock(hashtextextended('commonbrain upgrade', 0))")
# For a session: indexes are created outside transactions. The colon keeps it apart from the locks
# of tenants. It is tried again, not waited for: an index is complete only when each older snapshot
# has ended, and a waiting statement has one.
_INDEX_TURN: Final = text(
    "SELECT pg_try_advisory_lock(hashtextextended('commonbrain: vector indexes', 0))"
)
_INDEX_POLL_S: Final = 0.1
_LOCK_TIMEOUT: Final = "55P03"
"""Postgres' code of a wait for a lock that took too long."""
_VECTOR: Final = text("SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'vector')")
_HAS_TENANT: Final = text("SELECT 1 FROM tenants WHERE id = :tenant")
# Whether an index is complete, and whether it was built with the present options as well.
_BUILT: Final = text(
    "SELECT i.indisvalid, i.indisvalid AND c.reloptions @> CAST(:options AS text[]) "
    "FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "WHERE i.indexrelid = to_regclass(:name)"
)
_OPTIONS: Final = (f"m={HNSW_M}", f"ef_construction={EF_CONSTRUCTION}")
# Tables of vectors: partitions, or the tables themselves without partitions.
_HOLDERS: Final = text(
    "SELECT c.relname FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid "
    "WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace "
    "AND coalesce(i.inhparent, c.oid) IN ('vectors'::regclass, 'field_vectors'::regclass) "
    "ORDER BY c.oid"
)
# One index per partition and space, created concurrently; only vectors of one space are compared.
NEAREST: Final = (
    "CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw "
    "(({code}) bit_hamming_ops) WITH ({options}) WHERE space_id = {space}"
)
# Stores of older programs: such a pending list is searched ever more slowly.
_LISTING: Final = text(
    "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam "
    "WHERE a.amname = 'gin' AND c.relkind = 'i' "
    "AND c.relnamespace = current_schema()::regnamespace "
    "AND NOT 'fastupdate=off' = ANY (coalesce(c.reloptions, '{}')) ORDER BY c.oid"
)
_EMPTY: Final = text("SELECT gin_clean_pending_list(CAST(:name AS regclass))")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeResult:
    """A store on a server that was upgraded to this program's schema."""

    store: str
    schema_version: str
    roles: tuple[str, ...]
    """Roles that may open it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributeResult:
    """The statements that distribute a store by tenant over many machines, in order."""

    store: str
    flat: tuple[str, ...]
    """Statements of plain Postgres, in one transaction."""
    spread: tuple[str, ...]
    """Statements for Citus, each in a transaction of its own."""
    was_complete: bool
    """Whether only functions had to be sent to every machine again."""


def open_postgres(
    url: str,
    *,
    space: EmbeddingSpace,
    clock: Clock,
    lock_timeout_s: float,
    replicas: Sequence[str] = (),
) -> Store:
    """Open a database as a store, under a role that sees one tenant at a time.

    Args:
        url: the database, with that role.
        space: the embedding space of its vectors.
        clock: provides the creation time of the first tenant, if there is none.
        lock_timeout_s: how long to wait for other writers.
        replicas: replicas that may answer reads; they need not be available.

    Raises:
        InvalidInputError: a URL is malformed.
        RejectedError: `role_unconfined`, row-level security does not apply to the role;
            `replica_foreign`, a replica is a copy of another database; `replicas_of_distributed`,
            the store is distributed.
        UnavailableError: it cannot be reached, or its schema is older (`store_older`).
        StoreCorruptError: it is not a store (`store_foreign`), of a newer version (`store_newer`),
            or its vectors are in another space (`space_mismatch`).

    """
    dialect = Postgres(url=parsed(url), space=space, lock_timeout_s=lock_timeout_s)
    with ExitStack() as unless_opened, map_postgres_errors(dialect.location) as progress:
        unless_opened.callback(dialect.dispose)
        _check(dialect)
        progress.is_distributed = dialect.is_distributed
        _add_replicas(dialect, replicas)
        dialect.space_id = _settle(dialect, space=space, clock=clock)
        unless_opened.pop_all()
    return PostgresStore(dialect, space, PostgresSchema(SCHEMA_VERSION))


def upgrade_postgres(
    url: str, *, space: EmbeddingSpace, clock: Clock, lock_timeout_s: float, role: str | None = None
) -> UpgradeResult:
    """Upgrade a database to this version's schema while it is in use, and grant access to a role.

    Args:
        url: the database, with its owner's role.
        space: the embedding space of its vectors, for which indexes are created.
        clock: provides the creation time of the first tenant.
        lock_timeout_s: how long to wait for a lock; until the schema is upgraded, nothing has
            changed after that.
        role: a further role that may open the store.

    Raises:
        InvalidInputError: the URL is malformed.
        UnavailableError: it cannot be reached, or a lock was not free in time; `store_in_use`, only
            the indexes are not finished: another program builds them, or held a lock for too long.
        StoreCorruptError: it is not a store, or of a newer version; it is unchanged.

    """
    given = parsed(url)
    location = location_of(given)
    engine = make_engine(given, lock_timeout_s=lock_timeout_s, statement_s=0)
    with map_postgres_errors(location) as progress:
        try:
            with engine.begin() as connection:
                progress.is_distributed = connection.execute(CITUS).scalar_one()
                roles = _bring_up(connection, location, role=role)
                register(connection, LOCAL_TENANT, space=space, now=clock.now())
                plan = distribution(connection)
                if plan.is_begun:
                    flatten(connection, plan)
            if plan.is_begun:
                _spread(engine, plan)
            _index(engine, lock_timeout_s=lock_timeout_s)
        finally:
            engine.dispose()
    return UpgradeResult(store=location, schema_version=SCHEMA_VERSION, roles=roles)


def preview_distribution(url: str, *, lock_timeout_s: float) -> DistributeResult:
    """Return what would distribute a store of this version by tenant; change nothing.

    Raises:
        InvalidInputError: the URL is malformed.
        UnavailableError: it cannot be reached, or its schema is older (`store_older`).
        StoreCorruptError: it is not a store, or of a newer version.

    """
    with _owned(url, lock_timeout_s=lock_timeout_s) as engine, engine.connect() as connection:
        return _distribute_result(engine, distribution(connection))


def distribute_postgres(url: str, *, lock_timeout_s: float) -> DistributeResult:
    """Distribute a store by tenant while no program uses it; return what was done.

    Args:
        url: the database, with its owner's role.
        lock_timeout_s: how long to wait for locks.

    Raises:
        InvalidInputError: the URL is malformed.
        RejectedError: `citus_missing`, Citus is not installed; nothing has changed.
        UnavailableError: it cannot be reached, its schema is older, or its indexes are not
            finished (`store_in_use`, as for an upgrade); finished steps remain.
        StoreCorruptError: it is not a store, or of a newer version.

    """
    with _owned(url, lock_timeout_s=lock_timeout_s) as engine:
        with engine.begin() as connection:
            if not connection.execute(CITUS).scalar_one():
                raise RejectedError(
                    f"{location_of(engine.url)} has no extension citus, which is what distributes.",
                    code="citus_missing",
                    hint="Load it in shared_preload_libraries of every machine, CREATE EXTENSION "
                    "citus, add the workers, and run this again; --dry-run shows what it does.",
                )
            plan = distribution(connection)
            flatten(connection, plan)
        _spread(engine, plan)
        _index(engine, lock_timeout_s=lock_timeout_s)
        return _distribute_result(engine, plan)


class PostgresEngine:
    """Stores in Postgres, by their URL; it is the row `postgresql` of `commonbrain.engines`."""

    def open(
        self, at: StoreLocation, settings: Settings, *, space: EmbeddingSpace, clock: Clock
    ) -> Store:
        """Open a database, see `open_postgres`; replicas belong to the store of the settings."""
        replicas = settings.store_replicas if at == settings.store else ()
        return open_postgres(
            _url_of(at),
            space=space,
            clock=clock,
            lock_timeout_s=settings.lock_timeout_s,
            replicas=[replica.get_secret_value() for replica in replicas],
        )


def _url_of(at: StoreLocation) -> str:
    assert isinstance(at, SecretStr)  # noqa: S101 it is found by the scheme of a URL
    return at.get_secret_value()


def _spread(engine: Engine, plan: Distribution) -> None:
    """Distribute tables, and repeat what every server needs after an upgrade."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in plan.spread:
            connection.exec_driver_sql(statement)


def flatten(connection: Connection, plan: Distribution) -> None:
    """Convert partitioned tables to plain ones with the same security and grants."""
    for statement in plan.flat:
        # As it is: a percent sign in it is not a parameter.
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def _distribute_result(engine: Engine, plan: Distribution) -> DistributeResult:
    return DistributeResult(
        store=location_of(engine.url),
        flat=tuple(plan.flat),
        spread=tuple(plan.spread),
        was_complete=plan.is_complete,
    )


@contextmanager
def _owned(url: str, *, lock_timeout_s: float) -> Generator[Engine]:
    """Connect to a store of this version as its owner."""
    given = parsed(url)
    engine = make_engine(given, lock_timeout_s=lock_timeout_s, statement_s=0)
    location = location_of(given)
    with map_postgres_errors(location) as progress:
        try:
            with engine.connect() as connection:
                progress.is_distributed = connection.execute(CITUS).scalar_one()
                _check_version(connection, location)
            yield engine
        finally:
            engine.dispose()


def parsed(url: str) -> URL:
    """Parse a URL.

    Raises:
        InvalidInputError: it is malformed; the message does not repeat it, because it may contain a
            password.

    """
    try:
        return make_url(url)
    except (exc.ArgumentError, ValueError):
        raise InvalidInputError(
            "The store's URL cannot be read.",
            hint="It is postgresql://ROLE:PASSWORD@HOST:PORT/DATABASE; other characters than "
            "letters, digits and -._~ in the password are written as %XX.",
        ) from None


def _check(dialect: Postgres) -> None:
    """Reject a store of another version, or a role that sees more than one tenant."""
    with dialect.engine.connect() as connection, connection.begin():
        version = version_of(connection, dialect.location)
        is_read = version is not None and PostgresSchema(SCHEMA_VERSION).accepts(
            version, connection
        )
        if not is_read or (version or "") < SCHEMA_VERSION:
            _check_version(connection, dialect.location)
        if missing_functions(connection):
            # The schema may be equal: functions change more often than tables.
            MIGRATIONS.check_upgradable(version, dialect.location)
            raise _older(dialect.location, "functions of an older program", needs="its own")
        if connection.execute(CITUS).scalar_one():
            dialect.use_citus()
        role = role_of(connection)
        if not role.is_confined:
            raise unconfined(dialect.location, role)


def _check_version(connection: Connection, location: str) -> None:
    """Reject a store of another version."""
    version = version_of(connection, location)
    MIGRATIONS.check_upgradable(version, location)
    if version is None or version < SCHEMA_VERSION:
        has = "no store yet" if version is None else f"schema version {version}"
        raise _older(location, has, needs=SCHEMA_VERSION)


def _older(location: str, has: str, *, needs: str) -> UnavailableError:
    return UnavailableError(
        f"{location} has {has}; this program needs {needs}.",
        code="store_older",
        hint=UPGRADE,
    )


def _add_replicas(dialect: Postgres, urls: Sequence[str]) -> None:
    """Connect to the replicas; unavailable ones are retried later."""
    if not urls:
        return
    if dialect.is_distributed:
        # A replica of the coordinator has no rows, and its transactions name the tenant only there.
        raise RejectedError(
            f"{dialect.location} is distributed, and its replicas cannot answer reads.",
            code="replicas_of_distributed",
            hint="Unset COMMONBRAIN_STORE_REPLICAS.",
        )
    with dialect.engine.connect() as connection, connection.begin():
        cluster = cluster_of(connection)
    dialect.add_replicas([parsed(url) for url in urls], cluster=cluster)
    for replica in dialect.replicas.all:
        replica.check()


def _settle(dialect: Postgres, *, space: EmbeddingSpace, clock: Clock) -> int:
    """Return the id of the embedding space; create it, and the first tenant, if missing."""
    with dialect.reader(LOCAL_TENANT) as connection, connection.begin():
        has_tenant = connection.execute(_HAS_TENANT, {"tenant": LOCAL_TENANT}).first() is not None
        space_id = known_space(connection, space)
        if has_tenant and space_id is not None:
            return space_id
    with dialect.writer(LOCAL_TENANT) as connection, connection.begin():
        return register(connection, LOCAL_TENANT, space=space, now=clock.now())


def _bring_up(connection: Connection, location: str, *, role: str | None) -> tuple[str, ...]:
    """Migrate, secure and grant in one transaction; return the roles that may open the store."""
    connection.execute(_TURN)
    if not connection.execute(_VECTOR).scalar_one():
        # Not IF NOT EXISTS: Citus repeats that on workers, where only a superuser may.
        connection.exec_driver_sql("CREATE EXTENSION vector")
    version = version_of(connection, location)
    MIGRATIONS.check_upgradable(version, location)
    if version != SCHEMA_VERSION:
        for setting in BEFORE_MIGRATIONS:
            connection.exec_driver_sql(setting)
        MIGRATIONS.upgrade(connection, POSTGRES, version=version)
        connection.exec_driver_sql(f"COMMENT ON TABLE alembic_version IS '{READABLE_FROM}'")
    confine(connection)
    roles = {*granted(connection), *([role] if role else [])}
    for one in roles:
        grant(connection, one)
    return tuple(sorted(roles))


def _index(engine: Engine, *, lock_timeout_s: float) -> None:
    """Create the vector indexes of each space, and disable pending lists, while others write."""
    location = location_of(engine.url)
    with (
        _lock_timeout_reported(location),
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
    ):
        # So that it is closed at the end, and not pooled: its lock ends with it.
        connection.detach()
        _take_index_turn(connection, lock_timeout_s=lock_timeout_s)
        for name in connection.execute(_LISTING).scalars().all():
            connection.exec_driver_sql(f"ALTER INDEX {name} SET (fastupdate = off)")
            connection.execute(_EMPTY, {"name": name})
        tables = connection.execute(_HOLDERS).scalars().all()
        for space in known_spaces(connection):
            for table in tables:
                _index_part(connection, table, space=space)


@contextmanager
def _lock_timeout_reported(location: str) -> Generator[None]:
    """Report indexes that waited too long for transactions that were open before."""
    try:
        yield
    except exc.OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_TIMEOUT:
            raise
        raise UnavailableError(
            f"The indexes of {location} are not finished: another transaction, such as that of a "
            "backup, held a lock for too long.",
            code="store_in_use",
            hint="Everything else is done. Run this again when that transaction has ended.",
        ) from error


def _take_index_turn(connection: Connection, *, lock_timeout_s: float) -> None:
    """Wait until no other program creates indexes, and keep others from it."""
    ask_again = Retrying(
        retry=retry_if_result(not_),
        wait=wait_fixed(_INDEX_POLL_S),
        stop=stop_after_delay(lock_timeout_s),
        retry_error_callback=lambda _: False,
    )
    if not ask_again(lambda: connection.execute(_INDEX_TURN).scalar_one()):
        raise UnavailableError(
            f"Another program builds the vector indexes of {location_of(connection.engine.url)}.",
            code="store_in_use",
            hint="Everything else is done. Run this again when the other program has ended: it "
            "builds what that one did not.",
        )


def _index_part(connection: Connection, table: str, *, space: StoredSpace) -> None:
    """Create the index of a space over a table, or drop it if it cannot be used."""
    name = vector_index_name(table, space.id)
    # An upgrade was interrupted after it replaced the index.
    _drop(connection, f"{name}_old")
    is_indexable = space.state is not SpaceState.DROPPED
    is_valid, is_current = _built(connection, name)
    if is_valid is not None and not (is_valid and is_indexable):
        # Its space was dropped, or its creation was interrupted.
        _drop(connection, name)
        is_valid = None
    if not is_indexable or is_current:
        _drop(connection, f"{name}_next")
    elif is_valid is None:
        _create(connection, name, table=table, space=space)
    else:
        _replace(connection, name, table=table, space=space)


def _replace(connection: Connection, name: str, *, table: str, space: StoredSpace) -> None:
    """Build an index of an older program again; the older one is searched until then."""
    successor = f"{name}_next"
    _, is_current = _built(connection, successor)
    if not is_current:
        _drop(connection, successor)
        _create(connection, successor, table=table, space=space)
    # Renaming locks only the indexes, and not against readers. Dropping at once would wait for the
    # readers of the table, and later ones for it.
    with connection.engine.begin() as exchange:
        exchange.exec_driver_sql(f"ALTER INDEX {name} RENAME TO {name}_old")
        exchange.exec_driver_sql(f"ALTER INDEX {successor} RENAME TO {name}")
    _drop(connection, f"{name}_old")


def _drop(connection: Connection, name: str) -> None:
    """Drop an index, if it exists, while others read."""
    connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")


def _create(connection: Connection, name: str, *, table: str, space: StoredSpace) -> None:
    code = code_of("vector", dimensions=space.dimensions)
    made = {"name": name, "table": table, "code": code, "space": space.id}
    connection.exec_driver_sql(NEAREST.format(**made, options=", ".join(_OPTIONS)))


def _built(connection: Connection, name: str) -> tuple[bool | None, bool]:
    """Return whether an index is complete, None if it does not exist, and whether it is current."""
    row = connection.execute(_BUILT, {"name": name, "options": [*_OPTIONS]}).one_or_none()
    return (None, False) if row is None else (row[0], bool(row[1]))


ENGINE: Final[StoreEngine] = PostgresEngine()
