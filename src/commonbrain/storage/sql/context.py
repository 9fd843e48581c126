"""The context of one transaction: statements, translated driver errors, a shared snapshot."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from sqlalchemy import (
    Connection,
    Engine,
    Insert,
    SelectBase,
    Table,
    UpdateBase,
    exc,
    func,
    insert,
    select,
)
from sqlalchemy.engine.interfaces import Dialect as Driver
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from commonbrain.embeddings.interface import (
    UNKNOWN_SPACE,
    EmbeddingSpace,
    SpaceState,
    StoredSpace,
)
from commonbrain.model import ids
from commonbrain.model.values import dataclass, field
from commonbrain.storage.interface import Backup, Finding, Index, Progress, SpaceMismatch
from commonbrain.storage.schema.memories import spaces, tenants
from commonbrain.storage.schema.types import (
    EnumText,
    Instant,
    JsonText,
    reading,
)
from commonbrain.storage.sql.driver_errors import StatementInProgress
from commonbrain.storage.sql.presence import OptionalRows, present_rows

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


Row = tuple[Any, ...]
_Decoded = TypeVar("_Decoded")
_Turn = Callable[[Any], Any] | None
"""Converts a value to the driver's form, or back; None if no conversion is needed."""
_ReadColumn = Callable[[Sequence[Any]], Iterable[Any]]
# SQLAlchemy takes 0.05 ms to look up a compiled statement, bind its parameters and wrap its result,
# and more for every row; SQLite runs most small ones in 0.01 ms. One recall runs fifteen of them,
# and writing one memory ten. So statements are compiled once and passed to the driver directly.
_CACHED_STATEMENTS: Final = 1024
_LIMITS: Final = re.compile(r"\b(LIMIT|OFFSET) \?")
"""Limits that are parameters: SQLite looks at their values, and plans anew each time it is run."""


CURSOR_OPTIONS: Final[dict[str, Mapping[str, Any]]] = {}
"""How cursors are opened, by the driver's name; an engine adds what its driver needs."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement in the driver's form."""

    text: str
    fixed: Sequence[Any]
    """Its parameters by position; None for those passed each time."""
    given: Sequence[tuple[int, str, _Turn]]

    def rows(self, connection: Connection, given: Mapping[str, Any]) -> list[Row]:
        """Run a query; all rows are fetched at once."""
        values = self._values(given)

        def ask(cursor: Any) -> list[Row]:  # noqa: ANN401 a driver's own
            cursor.execute(self.text, values)
            return cursor.fetchall()

        return self._done(connection, ask)

    def change(self, connection: Connection, given: Mapping[str, Any]) -> int:
        """Run an update; return the number of changed rows."""
        values = self._values(given)
        return self._done(connection, lambda cursor: cursor.execute(self.text, values).rowcount)

    def change_by_each(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run an update once for each of these rows."""
        values = [self._values(row) for row in rows]
        if len(values) == 1:
            # For several rows, the Postgres driver starts and ends a pipeline, which costs more for
            # one.
            self._done(connection, lambda cursor: cursor.execute(self.text, values[0]))
        else:
            self._done(connection, lambda cursor: cursor.executemany(self.text, values))

    def _values(self, given: Mapping[str, Any]) -> list[Any]:
        values = list(self.fixed)
        for place, name, write in self.given:
            values[place] = given[name] if write is None else write(given[name])
        return values

    def _done(self, connection: Connection, act: Callable[[Any], _Decoded]) -> _Decoded:
        """Run the driver's call; errors are raised as SQLAlchemy's."""
        failure: Any = connection.dialect.loaded_dbapi.Error
        options = CURSOR_OPTIONS.get(connection.dialect.driver, {})
        cursor: Any = connection.connection.cursor(**options)
        try:
            return act(cursor)
        except failure as error:
            raise exc.DBAPIError.instance(
                self.text, None, error, failure, hide_parameters=True, dialect=connection.dialect
            ) from error
        finally:
            cursor.close()


_DRIVERS: Final[dict[tuple[object, ...], Driver]] = {}
"""The first driver of each kind."""


def shared_driver(dialect: Driver) -> Driver:
    """Return one driver for all stores of a kind, so that they share what is compiled for it."""
    compiler = dialect.statement_compiler
    kind = (type(dialect), compiler, dialect.server_version_info, dialect.paramstyle)
    return _DRIVERS.setdefault(kind, dialect)


def compiled(
    statement: SelectBase | UpdateBase, dialect: Driver, *, names: tuple[str, ...]
) -> Compiled:
    """Compile a statement whose parameters of these names are passed each time."""
    return _compiled(statement, shared_driver(dialect), names=names)


@lru_cache(_CACHED_STATEMENTS)
def _compiled(
    statement: SelectBase | UpdateBase, dialect: Driver, *, names: tuple[str, ...]
) -> Compiled:
    # An insert has values for the named columns, and no parameters for the others.
    columns = list(names) if isinstance(statement, Insert) else None
    made = statement.compile(dialect=dialect, column_keys=columns)
    assert isinstance(made, SQLCompiler)  # noqa: S101 whatever selects or writes is compiled by one
    whole = made.construct_expanded_state(dict.fromkeys(names))
    order = whole.positiontup or ()
    own = {name: bound.type.dialect_impl(dialect) for name, bound in made.binds.items()}
    writes = {name: type_.bind_processor(dialect) for name, type_ in own.items()}
    writes |= whole.processors
    statement_text = whole.statement
    if dialect.name == "sqlite":
        statement_text = _LIMITS.sub(r"\1 (SELECT ?)", statement_text)
    return Compiled(
        text=statement_text,
        fixed=[_turned(whole.parameters[name], writes.get(name)) for name in order],
        given=[(at, name, writes.get(name)) for at, name in enumerate(order) if name in names],
    )


def _turned(value: Any, turn: _Turn) -> Any:  # noqa: ANN401 columns hold anything
    return value if turn is None else turn(value)


_CACHED_READERS: Final = 1024
_FLOAT8: Final = 701
"""The Postgres type of floating-point numbers, the only ones whose conversion SQLAlchemy chooses.
"""


def rows_of(connection: Connection, question: SelectBase, *, given: Mapping[str, Any]) -> list[Row]:
    """Run a query; all rows are fetched at once.

    Its parameters have the same names each time. A list of ids is passed in one of them, see
    `LISTED`.

    Raises:
        exc.DBAPIError: as SQLAlchemy would raise.

    """
    dialect = connection.dialect
    rows = compiled(question, dialect, names=tuple(given)).rows(connection, given)
    return read_rows(rows, question, dialect=dialect)


def _reading_turned(rows: list[Row], reads: Sequence[tuple[int, _ReadColumn]]) -> list[Row]:
    """Convert values column by column, which is faster than row by row."""
    if not reads:
        return rows
    columns: list[Iterable[Any]] = list(zip(*rows, strict=True))
    with reading():
        for place, read in reads:
            columns[place] = read(cast("Sequence[Any]", columns[place]))
        return list(zip(*columns, strict=True))


def read_rows(rows: list[Row], question: SelectBase, *, dialect: Driver) -> list[Row]:
    """Convert the values of rows of `SqlContext.raw_rows`."""
    return _reading_turned(rows, _reads(question, shared_driver(dialect))) if rows else rows


@lru_cache(_CACHED_READERS)
def _reads(question: SelectBase, dialect: Driver) -> Sequence[tuple[int, _ReadColumn]]:
    """Return the converters of the columns that need one."""
    reads = [_reader(one.type, dialect) for one in question.selected_columns]
    return [(place, read) for place, read in enumerate(reads) if read is not None]


def _reader(of: TypeEngine[Any], dialect: Driver) -> _ReadColumn | None:
    """Return the converter of a column of a type, without the calls around it."""
    if isinstance(of, Instant | JsonText):
        return of.read_all
    is_enum = isinstance(of, EnumText)
    read = of.read if is_enum else of.dialect_impl(dialect).result_processor(dialect, _FLOAT8)
    return None if read is None else partial(map, read)


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
        """Write traces and accesses, given as JSON lists, in few steps; count new traces."""
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

    def rows(
        self, question: SelectBase, given: Mapping[str, Any], *, of: OptionalRows | None = None
    ) -> list[Row]:
        """Run a frequent query for this tenant; nothing is found if it has no such rows."""
        if of is not None and not self.may_have(of):
            return []
        return rows_of(self.connection, question, given={"tenant": self.tenant, **given})

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


T = TypeVar("T")


@dataclass(slots=True)
class _SharedSnapshot:
    """The snapshot of a call; nothing before its first read."""

    whose: tuple[int, str] | None = None
    """The store and tenant that it reads."""
    transaction: Any = None
    stack: ExitStack = field(default_factory=ExitStack)

    def end(self) -> None:
        """Release the snapshot; the next read starts another."""
        self.whose, self.transaction = None, None
        self.stack.close()


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
        unless_well.callback(snapshot.end)
        yield snapshot.transaction
        unless_well.pop_all()
