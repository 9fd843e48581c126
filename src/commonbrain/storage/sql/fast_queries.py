"""Fast queries: statements compiled once and then passed to the driver directly.

SQLAlchemy takes 0.05 ms to look up a compiled statement, bind its parameters and wrap its result,
and more for every row; SQLite runs most small ones in 0.01 ms. One recall runs fifteen of them, and
writing one memory ten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, SelectBase, UpdateBase, exc
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Insert
from sqlalchemy.types import TypeEngine

from commonbrain.storage.schema.types import EnumText, Instant, JsonText

Row = tuple[Any, ...]
_Result = TypeVar("_Result")
_Turn = Callable[[Any], Any] | None
"""Converts a value to the driver's form, or back; None if no conversion is needed."""
_CACHED_STATEMENTS: Final = 1024


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

    def _done(self, connection: Connection, act: Callable[[Any], _Result]) -> _Result:
        """Run the driver's call; errors are raised as SQLAlchemy's."""
        failure: Any = connection.dialect.loaded_dbapi.Error
        cursor: Any = connection.connection.cursor()
        try:
            return act(cursor)
        except failure as error:
            raise exc.DBAPIError.instance(
                self.text, None, error, failure, hide_parameters=True, dialect=connection.dialect
            ) from error
        finally:
            cursor.close()


@lru_cache(_CACHED_STATEMENTS)
def compiled(
    statement: SelectBase | UpdateBase, dialect: Dialect, *, names: tuple[str, ...]
) -> Compiled:
    """Compile a statement whose parameters of these names are passed each time."""
    # An insert has values for the named columns, and no parameters for the others.
    columns = list(names) if isinstance(statement, Insert) else None
    made = statement.compile(dialect=dialect, column_keys=columns)
    assert isinstance(made, SQLCompiler)  # noqa: S101 whatever selects or writes is compiled by one
    whole = made.construct_expanded_state(dict.fromkeys(names))
    order = whole.positiontup or ()
    own = {name: bound.type.dialect_impl(dialect) for name, bound in made.binds.items()}
    writes = {name: type_.bind_processor(dialect) for name, type_ in own.items()}
    writes |= whole.processors
    return Compiled(
        text=whole.statement,
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
    return _reading_turned(rows, _reads(question, dialect)) if rows else rows


def _reading_turned(
    rows: list[Row], reads: Sequence[tuple[int, Callable[[Any], Any]]]
) -> list[Row]:
    """Convert values column by column, which is faster than row by row."""
    if not reads:
        return rows
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for place, read in reads:
        columns[place] = list(map(read, columns[place]))
    return list(zip(*columns, strict=True))


@lru_cache(_CACHED_READERS)
def _reads(question: SelectBase, dialect: Dialect) -> Sequence[tuple[int, Callable[[Any], Any]]]:
    """Return the converters of the columns that need one."""
    reads = [_reader(one.type, dialect) for one in question.selected_columns]
    return [(place, read) for place, read in enumerate(reads) if read is not None]


def _reader(of: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """Return the converter of a type, without the calls around it."""
    if isinstance(of, Instant | EnumText | JsonText):
        return of.read
    return of.dialect_impl(dialect).result_processor(dialect, _FLOAT8)
