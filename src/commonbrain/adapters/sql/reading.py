"""Small reads that are asked all the time, in the words of the driver; see `compiled`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, SelectBase
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.types import TypeEngine

from commonbrain.adapters.sql.columns import Instant, Told, Word
from commonbrain.adapters.sql.compiled import Row, compiled

_KEPT_MAX: Final = 1024
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
    return _turned(rows, _reads(question, dialect)) if rows else rows


def _turned(rows: list[Row], reads: Sequence[tuple[int, Callable[[Any], Any]]]) -> list[Row]:
    """Turn values column by column, which is faster than row by row."""
    if not reads:
        return rows
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    for place, read in reads:
        columns[place] = list(map(read, columns[place]))
    return list(zip(*columns, strict=True))


@lru_cache(_KEPT_MAX)
def _reads(question: SelectBase, dialect: Dialect) -> Sequence[tuple[int, Callable[[Any], Any]]]:
    """Give what turns the values of a column into ours, for the columns that need it."""
    reads = [_reader(one.type, dialect) for one in question.selected_columns]
    return [(place, read) for place, read in enumerate(reads) if read is not None]


def _reader(of: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    """Give what reads values of a type: ours themselves, without the calls around them."""
    if isinstance(of, Instant | Word | Told):
        return of.read
    return of.dialect_impl(dialect).result_processor(dialect, _FLOAT8)
