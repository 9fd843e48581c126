"""Small reads that are asked all the time: compiled once, then asked of the driver itself.

SQLAlchemy takes 0.05 ms to find a statement that it has compiled and to wrap its result, and more
for every row; SQLite answers most of these in 0.01 ms, and one recall asks fifteen of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, SelectBase, exc
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

Row = tuple[Any, ...]
_Turn = Callable[[Any], Any] | None
"""What turns a value of ours into one of the driver's, or back; None leaves it as it is."""
_KEPT_MAX: Final = 1024


def rows_of(connection: Connection, question: SelectBase, *, given: Mapping[str, Any]) -> list[Row]:
    """Ask a question; every answer is read at once.

    Its parameters have the same names each time. A list of ids goes into one of them, see `LISTED`.

    Raises:
        exc.DBAPIError: whatever SQLAlchemy would raise.

    """
    return _compiled(question, connection.dialect, names=tuple(given)).rows(connection, given)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A statement in the words of the driver."""

    text: str
    fixed: Sequence[Any]
    """Its parameters by their places; those that are given each time are None."""
    given: Sequence[tuple[int, str, _Turn]]
    read: Sequence[tuple[int, Callable[[Any], Any]]]
    """What turns the values of a column, for columns that need it."""

    def rows(self, connection: Connection, given: Mapping[str, Any]) -> list[Row]:
        """Ask the driver."""
        values = list(self.fixed)
        for place, name, write in self.given:
            values[place] = given[name] if write is None else write(given[name])
        base: Any = connection.dialect.loaded_dbapi.Error
        cursor: Any = connection.connection.cursor()
        try:
            cursor.execute(self.text, values)
            rows: list[Row] = cursor.fetchall()
        except base as error:
            raise exc.DBAPIError.instance(
                self.text, None, error, base, hide_parameters=True, dialect=connection.dialect
            ) from error
        finally:
            cursor.close()
        return self._turned(rows)

    def _turned(self, rows: list[Row]) -> list[Row]:
        """Turn values column by column, which is faster than row by row."""
        if not (rows and self.read):
            return rows
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        for place, read in self.read:
            columns[place] = list(map(read, columns[place]))
        return list(zip(*columns, strict=True))


@lru_cache(_KEPT_MAX)
def _compiled(question: SelectBase, dialect: Dialect, *, names: tuple[str, ...]) -> _Compiled:
    made = question.compile(dialect=dialect)
    assert isinstance(made, SQLCompiler)  # noqa: S101 whatever selects is compiled by one
    whole = made.construct_expanded_state(dict.fromkeys(names))
    order = whole.positiontup or ()
    own = {name: bound.type.dialect_impl(dialect) for name, bound in made.binds.items()}
    writes = {name: type_.bind_processor(dialect) for name, type_ in own.items()}
    writes |= whole.processors
    types = [one.type.dialect_impl(dialect) for one in question.selected_columns]
    reads = [type_.result_processor(dialect, None) for type_ in types]
    return _Compiled(
        text=whole.statement,
        fixed=[_turned(whole.parameters[name], writes.get(name)) for name in order],
        given=[(at, name, writes.get(name)) for at, name in enumerate(order) if name in names],
        read=[(place, read) for place, read in enumerate(reads) if read is not None],
    )


def _turned(value: Any, turn: _Turn) -> Any:  # noqa: ANN401 columns hold anything
    return value if turn is None else turn(value)
