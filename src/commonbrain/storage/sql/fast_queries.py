"""Statements in the words of the driver: compiled once, then given to it directly.

SQLAlchemy takes 0.05 ms to find a statement that it has compiled, to bind its parameters and to
wrap its result, and more for every row; SQLite does most of the small ones in 0.01 ms. One recall
asks fifteen of them, and one memory is written by ten.
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
_Told = TypeVar("_Told")
_Turn = Callable[[Any], Any] | None
"""What turns a value of ours into one of the driver's, or back; None leaves it as it is."""
_KEPT_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement as the driver takes it."""

    text: str
    fixed: Sequence[Any]
    """Its parameters by their places; those that are given each time are None."""
    given: Sequence[tuple[int, str, _Turn]]

    def rows(self, connection: Connection, given: Mapping[str, Any]) -> list[Row]:
        """Ask the driver; every answer is read at once."""
        values = self._values(given)

        def ask(cursor: Any) -> list[Row]:  # noqa: ANN401 a driver's own
            cursor.execute(self.text, values)
            return cursor.fetchall()

        return self._done(connection, ask)

    def change(self, connection: Connection, given: Mapping[str, Any]) -> int:
        """Tell the driver; give the number of rows that it changed."""
        values = self._values(given)
        return self._done(connection, lambda cursor: cursor.execute(self.text, values).rowcount)

    def change_by_each(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Tell the driver once for each of these."""
        values = [self._values(row) for row in rows]
        if len(values) == 1:
            # Postgres' driver begins and ends a pipeline for many, which costs more than one.
            self._done(connection, lambda cursor: cursor.execute(self.text, values[0]))
        else:
            self._done(connection, lambda cursor: cursor.executemany(self.text, values))

    def _values(self, given: Mapping[str, Any]) -> list[Any]:
        values = list(self.fixed)
        for place, name, write in self.given:
            values[place] = given[name] if write is None else write(given[name])
        return values

    def _done(self, connection: Connection, act: Callable[[Any], _Told]) -> _Told:
        """Let the driver do it; what it raises is told as SQLAlchemy tells it."""
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


@lru_cache(_KEPT_MAX)
def compiled(
    statement: SelectBase | UpdateBase, dialect: Dialect, *, names: tuple[str, ...]
) -> Compiled:
    """Compile a statement whose parameters of these names are given each time."""
    # An insert puts something into the columns that are named, and no parameter into the others.
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


_READING_KEPT_MAX: Final = 1024
_FLOAT8: Final = 701
"""What Postgres calls a number that is not whole: of those alone SQLAlchemy asks how they come."""


def rows_of(connection: Connection, question: SelectBase, *, given: Mapping[str, Any]) -> list[Row]:
    """Ask a question; every answer is read at once.

    Its parameters have the same names each time. A list of ids goes into one of them, see `LISTED`.

    Raises:
        exc.DBAPIError: whatever SQLAlchemy would raise.

    """
    dialect = connection.dialect
    rows = compiled(question, dialect, names=tuple(given)).rows(connection, given)
    return _reading_turned(rows, _reads(question, dialect)) if rows else rows


def _reading_turned(
    rows: list[Row], reads: Sequence[tuple[int, Callable[[Any], Any]]]
) -> list[Row]:
    """Turn values column by column, which is faster than row by row."""
    if not reads:
        return rows
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for place, read in reads:
        columns[place] = list(map(read, columns[place]))
    return list(zip(*columns, strict=True))


@lru_cache(_READING_KEPT_MAX)
def _reads(question: SelectBase, dialect: Dialect) -> Sequence[tuple[int, Callable[[Any], Any]]]:
    """Give what turns the values of a column into ours, for the columns that need it."""
    reads = [_reader(one.type, dialect) for one in question.selected_columns]
    return [(place, read) for place, read in enumerate(reads) if read is not None]


def _reader(of: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """Give what reads values of a type: ours themselves, without the calls around them."""
    if isinstance(of, Instant | EnumText | JsonText):
        return of.read
    return of.dialect_impl(dialect).result_processor(dialect, _FLOAT8)
