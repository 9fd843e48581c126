"""Statements in the driver's form: compiled once, with lists and many rows as parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import repeat
from typing import Any, Final, TypeVar, cast

from sqlalchemy import (
    JSON,
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Exists,
    FromClause,
    Insert,
    Select,
    SelectBase,
    String,
    Table,
    TableValuedAlias,
    TypeDecorator,
    UpdateBase,
    and_,
    bindparam,
    delete,
    exc,
    insert,
    select,
)
from sqlalchemy.engine.interfaces import Dialect as Driver
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from commonbrain.model.values import dataclass
from commonbrain.storage.schema.types import EnumText, Instant, JsonText, reading

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


def json_of(value: Iterable[int] | None) -> str | None:
    """Write ids as a JSON list, which is how Python shows one of integers."""
    return None if value is None else str([*value])


@dataclass(frozen=True, slots=True, kw_only=True)
class ListForm:
    """How an engine takes a list as one parameter."""

    type_of: Callable[[type[BigInteger | String]], TypeEngine[Any]]
    """Makes the type of a list from that of its members."""
    write_ids: Callable[[Iterable[int] | None], str | None]
    """Formats numbers, which is faster than an encoder."""


_JSON: Final = ListForm(type_of=lambda _: JSON(), write_ids=json_of)
LIST_FORMS: Final[dict[str, ListForm]] = {}
"""The forms of other engines, by the name of their dialect; each adds its own."""


class ListParam(TypeDecorator[Any]):
    """A list in one parameter: JSON, unless the engine has another form."""

    impl = JSON
    cache_ok = True

    def __init__(self, of: type[BigInteger | String]) -> None:
        super().__init__()
        self.of = of

    def load_dialect_impl(self, dialect: Driver) -> TypeEngine[Any]:
        """Choose the type that the engine can unnest."""
        return dialect.type_descriptor(LIST_FORMS.get(dialect.name, _JSON).type_of(self.of))

    def bind_processor(self, dialect: Driver) -> Any:  # noqa: ANN401 of the library's own
        """Format numbers, which is faster than an encoder; other values stay."""
        if self.of is not BigInteger:
            return super().bind_processor(dialect)
        return LIST_FORMS.get(dialect.name, _JSON).write_ids


class unnest(FunctionElement[Any]):  # noqa: N801 a function of SQL
    """The members of a list, one row each."""

    name = "members"
    inherit_cache = True


@compiles(unnest)
def _unfold_json(element: unnest, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"json_each({compiler.process(element.clauses, **more)})"


def members_of(name: str, of: type[BigInteger | String] = BigInteger) -> TableValuedAlias:
    """Return the members of a list parameter as a table with the column `value`."""
    given: BindParameter[Any] = bindparam(name, type_=ListParam(of))
    return unnest(given).table_valued("value")


class greatest(FunctionElement[int]):  # noqa: N801 a function of SQL
    """The greater of two numbers."""

    name = "greater"
    inherit_cache = True
    type = BigInteger()


@compiles(greatest)
def _scalar_max(element: greatest, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"max({compiler.process(element.clauses, **more)})"


def id_list_param(name: str, of: type[BigInteger | String] = BigInteger) -> Select[Any]:
    """Select the ids, or words, of a list parameter.

    One parameter each would need thousands of names and a new statement for every number of them; a
    list costs a tenth of that.
    """
    return select(members_of(name, of).c.value)


LISTED: Final = id_list_param("ids")


def in_ids(column: Column[Any]) -> ColumnElement[bool]:
    """Return which rows of the tenant have one of the ids in a column; both are parameters."""
    return and_(column.table.c.tenant_id == bindparam("tenant"), column.in_(LISTED))


def exists_in(table: FromClause, *conditions: ColumnElement[bool], of: FromClause) -> Exists:
    """Return whether a table has a row that meets conditions, of the tenant of a row of another."""
    return select(1).where(table.c.tenant_id == of.c.tenant_id, *conditions).exists()


def run_bulk(
    connection: Connection,
    table: Table,
    *,
    shared: Mapping[str, Any],
    each: Mapping[str, Sequence[Any]],
    is_insert: bool,
) -> None:
    """Insert or delete rows that share values, and differ by column in others.

    Shared values are bound once and the rest by column; one mapping per row costs far more.
    """
    count = len(next(iter(each.values())))
    if not count:
        return
    dialect = shared_driver(connection.dialect)
    statement, order = _compiled_bulk(table, (*shared, *each), dialect=dialect, is_insert=is_insert)
    alike = {name: _written(table, name, dialect=dialect)(value) for name, value in shared.items()}
    columns = [
        _bound(each[name], _written(table, name, dialect=dialect))
        if name in each
        else repeat(alike[name], count)
        for name in order
    ]
    connection.exec_driver_sql(statement, list(zip(*columns, strict=True)))


@lru_cache
def _compiled_bulk(
    table: Table, names: tuple[str, ...], *, dialect: Driver, is_insert: bool
) -> tuple[str, tuple[str, ...]]:
    """Compile a statement for the driver, with the order of its parameters."""
    if is_insert:
        made = insert(table).compile(dialect=dialect, column_keys=list(names))
    else:
        here = [table.c[name] == bindparam(name) for name in names]
        made = delete(table).where(*here).compile(dialect=dialect)
    return made.string, tuple(made.positiontup or ())


def _bound(values: Sequence[Any], write: Callable[[Any], Any]) -> Sequence[Any]:
    """Convert values for the driver; few differ, and each is converted once."""
    if write is _as_it_is:
        return values
    written = {value: write(value) for value in set(values)}
    return [written[value] for value in values]


@lru_cache
def _written(table: Table, name: str, *, dialect: Driver) -> Callable[[Any], Any]:
    """Return the converter of a column's values for the driver."""
    return table.c[name].type.dialect_impl(dialect).bind_processor(dialect) or _as_it_is


def _as_it_is(value: Any) -> Any:  # noqa: ANN401 columns hold anything
    return value
