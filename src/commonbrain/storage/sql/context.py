"""The context of one transaction: its engine, translated driver errors, a shared snapshot."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from sqlalchemy import (
    Connection,
    Engine,
    Executable,
    Insert,
    Integer,
    SelectBase,
    String,
    Table,
    UpdateBase,
    and_,
    bindparam,
    exc,
    func,
    insert,
    literal_column,
    null,
    select,
    union_all,
)

from commonbrain.embeddings.interface import (
    UNKNOWN_SPACE,
    EmbeddingSpace,
    SpaceState,
    StoredSpace,
)
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, StoreCorruptError, UnavailableError
from commonbrain.model.kinds import Kind
from commonbrain.model.values import dataclass, field
from commonbrain.storage.interface import Backup, Finding, Index, Progress, SpaceMismatch
from commonbrain.storage.schema.memories import (
    DETAILS,
    EntityType,
    annotations,
    entities,
    falls,
    links,
    memories,
    reviews,
    spaces,
    tenants,
)
from commonbrain.storage.schema.types import UnreadableValueError
from commonbrain.storage.sql.statements import Row, compiled, rows_of, run_bulk

if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, CompoundSelect


class OptionalRows(StrEnum):
    """Rows that a recall or boot asks for and that a tenant may have none of."""

    ANNOTATIONS = "annotations"
    ENTITIES = "entities"
    EXPIRIES = "expiries"
    LINKS = "links"
    MESSAGES = "messages"
    PINNED = "pinned"
    REVIEWS = "reviews"
    RULES = "rules"
    SKILLS = "skills"
    TASKS = "tasks"
    TOPICS = "topics"


_RULES: Final = DETAILS[Kind.RULE]
# A column of the index that finds such rows, the one after the columns that the conditions fix, and
# the conditions. In order of that column, the first row comes from the index: without an order,
# Postgres scans the table, with the rows of every tenant, if it expects to find one early.
_FOUND_BY: Final[Mapping[OptionalRows, tuple[Column[Any], tuple[ColumnElement[bool], ...]]]] = {
    OptionalRows.ANNOTATIONS: (annotations.c.id, ()),
    OptionalRows.ENTITIES: (entities.c.memory_id, ()),
    OptionalRows.EXPIRIES: (falls.c.memory_id, ()),
    OptionalRows.LINKS: (links.c.from_id, ()),
    OptionalRows.MESSAGES: (DETAILS[Kind.MESSAGE].c.memory_id, ()),
    # The same condition as in the index of pinned memories, and below of triggers.
    OptionalRows.PINNED: (memories.c.id, (literal_column("memories.pinned"),)),
    OptionalRows.REVIEWS: (reviews.c.memory_id, ()),
    OptionalRows.RULES: (_RULES.c.memory_id, ()),
    OptionalRows.SKILLS: (_RULES.c.memory_id, (_RULES.c.skill.is_not(null()),)),
    OptionalRows.TASKS: (DETAILS[Kind.TASK].c.memory_id, ()),
    OptionalRows.TOPICS: (entities.c.name, (entities.c.type == EntityType.TOPIC,)),
}


@cache
def present_rows() -> CompoundSelect[str]:
    """Build the query for the names of those that a tenant has; each costs an index lookup."""
    firsts = (
        select(literal_column(f"'{rows}'", String()).label("name"))
        .where(column.table.c.tenant_id == bindparam("tenant"), *conditions)
        .order_by(column)
        # As a parameter, SQLite would plan anew each time.
        .limit(literal_column("1", Integer()))
        .subquery()
        for rows, (column, conditions) in _FOUND_BY.items()
    )
    # SQLite allows an order and a limit in a subquery alone.
    return union_all(*(select(first.c.name) for first in firsts))


_FULL: Final = "SQLITE_FULL"
"""The error of SQLite for a full disk."""


@dataclass(slots=True)
class StatementInProgress:
    """The progress of a transaction."""

    is_ending: bool = False
    """Set when only the commit is left, whose reply may be lost."""


class ReportDamage(Protocol):
    """Makes the error for a damaged store, of the cause."""

    def __call__(self, cause: str, *, is_derived: bool = False) -> StoreCorruptError:
        """Return the error; what is derived from the rows can be repaired in place."""
        ...


def corrupt_error(location: str, cause: str, *, is_derived: bool = False) -> StoreCorruptError:  # noqa: ARG001
    """Return the error for a damaged store whose backups are not known."""
    return StoreCorruptError(
        f"The store {location} cannot be read: {cause}.",
        hint="Nothing was changed. `brain doctor` says what can be repaired; the rest comes from a "
        "backup.",
    )


@contextmanager
def map_driver_errors(
    location: str,
    report_damage: ReportDamage | None = None,
    *,
    find_damage: Callable[[], str | None] = lambda: None,
) -> Generator[StatementInProgress]:
    """Translate driver errors.

    Args:
        location: where the store is, for messages.
        report_damage: makes the error for a damaged store.
        find_damage: looks for the damage that may be behind a violated constraint.

    Raises:
        UnavailableError: locked for too long, full, read-only, or not accessible; rolled back. If
            the connection was lost during the commit, the outcome is unknown, and the message says
            so.
        StoreCorruptError: damaged, or not a database; rolled back.

    """
    under_way = StatementInProgress()
    report = report_damage or partial(corrupt_error, location)
    try:
        yield under_way
    except CommonbrainError:
        raise
    except exc.IntegrityError as error:
        damage = find_damage()
        if damage is None:
            # A violated constraint is a bug of this program, not of the store.
            raise
        raise report(damage) from error
    except (UnreadableValueError, UnicodeDecodeError) as error:
        # The driver cannot decode SQLite's message where that quotes a damaged schema.
        is_value = isinstance(error, UnreadableValueError)
        raise report(str(error) if is_value else "its schema is damaged") from error
    except (exc.OperationalError, exc.TimeoutError) as error:
        damage = damage_in(str(getattr(error, "orig", "")))
        if damage is not None:
            raise report(damage) from error
        if getattr(getattr(error, "orig", None), "sqlite_errorname", None) == _FULL:
            raise full_error(location, error) from error
        is_lost = isinstance(error, exc.DBAPIError) and error.connection_invalidated
        raise unavailable_error(
            location, error, may_be_done=is_lost and under_way.is_ending
        ) from error
    except exc.DatabaseError as error:
        if type(error) is not exc.DatabaseError:
            # A bug: an invalid statement, a missing driver feature, or an internal error.
            raise
        is_derived = getattr(error.orig, "sqlite_errorname", None) == _DERIVED
        raise report(cause_of(error), is_derived=is_derived) from error


_DERIVED: Final = "SQLITE_CORRUPT_VTAB"
"""The error of SQLite for a damaged full text."""


def unavailable_error(
    location: str, error: exc.SQLAlchemyError, *, may_be_done: bool = False
) -> UnavailableError:
    """Return the error for a store that did not run a statement, or was lost during a commit."""
    if may_be_done:
        return UnavailableError(
            f"The connection to {location} was lost during the commit: it may have succeeded.",
            hint="Check whether it was done, or retry with the same idempotency key.",
        )
    return UnavailableError(
        f"The store {location} did not answer: {cause_of(error)}.",
        hint="Nothing was changed. Check that it is writable and not full, then try again.",
    )


def full_error(location: str, error: exc.SQLAlchemyError) -> UnavailableError:
    """Return the error for a store whose disk is full."""
    return UnavailableError(
        f"The store {location} is full: {cause_of(error)}.",
        code="store_full",
        hint="Nothing was changed, and reading still works. Free space on the "
        "disk of the store; writing then works again.",
    )


_UNDECODED: Final = "Could not decode to UTF-8"
"""How Python's driver begins its error for a text of invalid UTF-8, which it quotes."""
_FOREIGN_SCHEMA: Final = ("unsupported file format", "no such table", "no such column")
"""How SQLite begins its errors for a schema that is not the one that was written."""


def damage_in(message: str) -> str | None:
    """Return which damage SQLite reports as a failed operation; None if it is none."""
    if message.startswith(_UNDECODED):
        return "a text is not valid UTF-8"
    return message if message.startswith(_FOREIGN_SCHEMA) else None


def cause_of(error: exc.SQLAlchemyError) -> str:
    """Return the driver's message, without the statement and its parameters."""
    if not isinstance(error, exc.DBAPIError):
        return str(error).rstrip(".")
    diagnostics = getattr(error.orig, "diag", None)
    return str((diagnostics and diagnostics.message_primary) or error.orig).rstrip(".")


class Dialect(Protocol):
    """What differs between engines; everything else is shared."""

    engine: Engine
    """Provides connections."""
    space_id: int
    """The row of the embedding space in this store; set on opening."""

    @property
    def location(self) -> str:
        """Where the store is, for display."""
        ...

    def map_errors(self) -> AbstractContextManager[StatementInProgress]:
        """Translate the errors of the driver, see `map_driver_errors`."""
        ...

    def insert_or_skip(self, into: Table) -> Insert:
        """Build an insert that does nothing if the primary key exists."""
        ...

    def stored_table(self, table: Table) -> Table:
        """Return a table as this engine stores it; values are the same."""
        ...

    def index(self, work: SqlContext) -> Index:
        """Return the index of full text and vectors."""
        ...

    def writer(self, tenant: str) -> Connection:
        """Open a connection whose transaction holds the write lock from its beginning."""
        ...

    def note_reads(self, connection: Connection, given: dict[str, Any]) -> int:
        """Write traces, given as rows, and accesses and heartbeats, given as JSON lists.

        Count new traces.
        """
        ...

    def compact(self) -> None:
        """Rewrite the store without deleted data, outside any transaction."""
        ...

    def reader(self, tenant: str | None) -> Connection:
        """Open a connection for reading, of one tenant or of each in turn."""
        ...

    def dispose(self) -> None:
        """Close every connection."""
        ...

    def each_tenant(self, connection: Connection, *, to_write: bool = False) -> Iterator[str]:
        """Yield each tenant; statements in between are limited to that tenant.

        To write, within a writing transaction, each tenant's write lock is taken.
        """
        ...

    def check_process(self) -> None:
        """Raise if the store cannot be used because a parent process opened it."""
        ...

    def check_location(self) -> None:
        """Raise if a commit went to a place where it will not be found."""
        ...

    def count_changes(self, connection: Connection) -> int:
        """Return a number that no later commit has less of, for `acknowledge`."""
        ...

    def acknowledge(self, changes: int) -> None:
        """Check as `check_location` does, and note the number, which was committed."""
        ...

    def schema_mark(self, connection: Connection) -> int:
        """Return a number that changes with every change of the schema."""
        ...

    def mark_switch(self, connection: Connection) -> None:
        """Change the schema mark, so that every process notices that another space serves."""
        ...

    def is_indexed(self, connection: Connection, space_id: int) -> bool:
        """Return whether vectors of a space have a search index."""
        ...

    def in_space(self, space: EmbeddingSpace, space_id: int) -> Dialect:
        """Return the dialect of the same store in another embedding space.

        Connections are shared.
        """
        ...

    def examine(self, connection: Connection) -> list[Finding]:
        """Check what only this engine has."""
        ...

    def clear_text(self, connection: Connection) -> None:
        """Remove full-text entries without a memory."""
        ...

    def backup(self, destination: Path, *, replace: bool, on_progress: Progress) -> Backup:
        """Write a consistent snapshot into a file."""
        ...


@dataclass(slots=True, kw_only=True)
class SqlContext:
    """A connection in a transaction of one tenant, and its changes of vectors."""

    connection: Connection
    tenant: str
    dialect: Dialect
    followed: set[str | None] = field(default_factory=set["str | None"])
    """Fields, None for whole memories, whose in-memory vectors are up to date."""
    changed: set[int] = field(default_factory=set[int])
    """Memories whose vectors this transaction has changed."""
    highest: dict[Table, int] = field(default_factory=dict["Table", int])
    """The highest id of a table, where known: no other transaction can raise it."""
    is_snapshot: bool = False
    """Whether it only reads, so that what a tenant has stays the same and need be asked once."""
    _present: frozenset[str] | None = None

    def row_of(self, value: Any) -> dict[str, Any]:  # noqa: ANN401 a dataclass
        """Return the row of a flat value of the tenant; `asdict` would copy each field deeply."""
        names = value.__dataclass_fields__
        return {"tenant_id": self.tenant} | {one: getattr(value, one) for one in names}

    def append(
        self, table: Table, row: Mapping[str, Any], *, at: datetime, drawn: int | None = None
    ) -> int:
        """Insert a row with an id generated here, and return the id; for rows without a public id.

        Many rows of an import share a millisecond, so a generated id may be taken. If the caller
        generated one, the next free id is used instead, which keeps the order.
        """
        id_ = drawn
        while True:
            if id_ is None:
                id_ = ids.make_id(at, secrets.randbits(ids.RANDOM_BITS))
            if self.add(table, {"tenant_id": self.tenant, **row, "id": id_}):
                return id_
            id_ = None if drawn is None else id_ + 1

    def here(
        self,
        table: Table,
        *conditions: ColumnElement[bool],
        **values: Any,  # noqa: ANN401 columns hold anything
    ) -> ColumnElement[bool]:
        """Return which rows are the tenant's, meet the conditions and have these values."""
        equal = (table.c[name] == value for name, value in values.items())
        return and_(table.c.tenant_id == self.tenant, *conditions, *equal)

    def rows(
        self, question: SelectBase, given: Mapping[str, Any], *, of: OptionalRows | None = None
    ) -> list[Row]:
        """Run a frequent query for this tenant; nothing is found if it has no such rows."""
        if of is not None and not self.may_have(of):
            return []
        return rows_of(self.connection, question, given={"tenant": self.tenant, **given})

    def scalars(self, question: Executable, given: Mapping[str, Any]) -> list[Any]:
        """Run a query for this tenant; return the first column."""
        return [*self.connection.execute(question, {"tenant": self.tenant, **given}).scalars()]

    def may_have(self, rows: OptionalRows) -> bool:
        """Return whether the tenant may have such rows; a snapshot asks once for all of them."""
        if not self.is_snapshot:
            return True
        if self._present is None:
            names = rows_of(self.connection, present_rows(), given={"tenant": self.tenant})
            self._present = frozenset(name for (name,) in names)
        return rows in self._present

    def raw_rows(self, question: SelectBase, given: Mapping[str, Any]) -> list[Row]:
        """Run a frequent query for this tenant; the values are the driver's, see `read_rows`."""
        given = {"tenant": self.tenant, **given}
        return compiled(question, self.connection.dialect, names=tuple(given)).rows(
            self.connection, given
        )

    def add(self, table: Table, row: Mapping[str, Any]) -> bool:
        """Insert a row unless its primary key exists; return whether it was inserted."""
        return self.change(self.dialect.insert_or_skip(table), row) > 0

    def change(self, statement: UpdateBase, given: Mapping[str, Any]) -> int:
        """Run a frequent update; return the number of changed rows."""
        names = tuple(given)
        return compiled(statement, self.connection.dialect, names=names).change(
            self.connection, given
        )

    def change_by_each(self, statement: UpdateBase, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run an update once for each of these rows, which have the same names."""
        if rows:
            names = tuple(rows[0])
            compiled(statement, self.connection.dialect, names=names).change_by_each(
                self.connection, rows
            )

    def bulk_insert(
        self, into: Table, *, shared: Mapping[str, Any], each: Mapping[str, Sequence[Any]]
    ) -> None:
        """Insert rows of the tenant that have `shared` values in common and differ in `each`."""
        # SQLite takes twice as long for rows with explicit NULLs.
        alike = {name: value for name, value in shared.items() if value is not None}
        filled = {name: values for name, values in each.items() if values.count(None) < len(values)}
        alike["tenant_id"] = self.tenant
        run_bulk(self.connection, into, shared=alike, each=filled, is_insert=True)

    def bulk_delete(self, table: Table, *, each: Mapping[str, Sequence[Any]]) -> None:
        """Delete the rows of the tenant with these values in these columns."""
        shared = {"tenant_id": self.tenant}
        run_bulk(self.connection, table, shared=shared, each=each, is_insert=False)


_AUDIT_KEY_BYTES: Final = 32
"""As long as the digest that it keys (RFC 2104)."""


_OPENED: Final = frozenset({SpaceState.CURRENT, SpaceState.RETIRED})
"""A program that missed a move continues in the space that it knows, and says so."""


def count_up_to(connection: Connection, question: Any, *, at_most: int) -> int:  # noqa: ANN401
    """Count the rows of a query up to a number, which bounds the time that it takes."""
    some = question.limit(at_most).subquery()
    return connection.execute(select(func.count()).select_from(some)).scalar_one()


def known_spaces(connection: Connection) -> list[StoredSpace]:
    """List the spaces of the store, including dropped ones, oldest first."""
    rows = connection.execute(select(spaces).order_by(spaces.c.id)).mappings()
    return [StoredSpace(**row) for row in rows]


def known_space(connection: Connection, space: EmbeddingSpace) -> int | None:
    """Return the id of a space in which the store can be opened; None if it has none yet.

    Raises:
        SpaceMismatch: the store's vectors belong to another space.

    """
    known = known_spaces(connection)
    for one in known:
        is_same = (one.name, one.dimensions) == (space.name, space.dimensions)
        if is_same and one.state in _OPENED:
            return one.id
    if not known and space is not UNKNOWN_SPACE:
        return None
    serving = [one.name for one in known if one.state is SpaceState.CURRENT]
    raise SpaceMismatch(", ".join(serving), made=space.name)


def serving_space(connection: Connection) -> StoredSpace | None:
    """Return the serving space; None if the store has none yet."""
    serves = select(spaces).where(spaces.c.state == SpaceState.CURRENT)
    row = connection.execute(serves).mappings().first()
    return None if row is None else StoredSpace(**row)


def register(connection: Connection, tenant: str, *, space: EmbeddingSpace, now: datetime) -> int:
    """Create the rows of tenant and space if missing; return the space's id."""
    add_tenant(connection, tenant, now=now)
    space_id = known_space(connection, space)
    if space_id is not None:
        return space_id
    row = {"name": space.name, "dimensions": space.dimensions}
    added = connection.execute(insert(spaces).values(row).returning(spaces.c.id))
    return added.scalar_one()


def add_tenant(connection: Connection, tenant: str, *, now: datetime) -> bool:
    """Create a tenant's row unless it exists; return whether it was created."""
    if connection.execute(select(tenants.c.id).where(tenants.c.id == tenant)).first() is not None:
        return False
    key = secrets.token_bytes(_AUDIT_KEY_BYTES)
    row = {"id": tenant, "created_at": now, "audit_key": key}
    connection.execute(insert(tenants).values(row))
    return True


@dataclass(frozen=True, slots=True)
class Repository:
    """Some tables of one tenant, in a transaction."""

    work: SqlContext


T = TypeVar("T")


@dataclass(slots=True)
class _SharedSnapshot:
    """The snapshot of a call; nothing before its first read."""

    whose: tuple[int, str] | None = None
    """The store and tenant that it reads."""
    transaction: Any = None
    stack: ExitStack = field(default_factory=ExitStack)

    def end(self, *raised: Any) -> None:  # noqa: ANN401 as `__exit__` has them
        """Release the snapshot, by a rollback after an error; the next read starts another."""
        self.whose, self.transaction = None, None
        self.stack.__exit__(*(raised or (None, None, None)))


_NOW: Final[ContextVar[_SharedSnapshot | None]] = ContextVar("moment", default=None)


@contextmanager
def shared_read() -> Generator[None]:
    """Share one snapshot between all reads in this thread, of one tenant and until it writes."""
    snapshot = _SharedSnapshot()
    token = _NOW.set(snapshot)
    try:
        with snapshot.stack:
            yield
    finally:
        _NOW.reset(token)


def end_shared_read(store: object) -> None:
    """Start a new snapshot after a write, so that reads see what was written."""
    snapshot = _NOW.get()
    if snapshot is not None and snapshot.whose is not None and snapshot.whose[0] == id(store):
        snapshot.end()


@contextmanager
def shared(
    store: object, tenant: str, *, begin: Callable[[], AbstractContextManager[T]]
) -> Generator[T]:
    """Return the snapshot of the call, starting it if necessary; a separate one outside a call."""
    snapshot, whose = _NOW.get(), (id(store), tenant)
    if snapshot is None or (snapshot.whose is not None and snapshot.whose != whose):
        with begin() as alone:
            yield alone
        return
    if snapshot.whose is None:
        snapshot.transaction = snapshot.stack.enter_context(begin())
        snapshot.whose = whose
    with ExitStack() as unless_well:
        # After an error the connection may be unusable.
        unless_well.push(snapshot.end)
        yield snapshot.transaction
        unless_well.pop_all()
