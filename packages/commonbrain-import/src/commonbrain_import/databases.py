"""Databases as sources: tables read row by row.

Nothing is written to a source. Only named columns are read, so that vectors stay where they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Final, Protocol

from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import Content, ImportItem, Meter, Unreadable, shorten_name
from commonbrain.transfer.snapshots import connect_sqlite
from commonbrain_import.rows import Row, fitted

_PARTS_SHOWN_MAX: Final = 20
ROWS_AT_ONCE: Final = 500
"""Rows that a server sends at a time; each is some KB."""


class Tables(Protocol):
    """The tables of a database."""

    @property
    def columns(self) -> Mapping[str, Sequence[str]]:
        """The columns of every table."""
        ...

    def count(self, table: str, where: str | None = None) -> int:
        """Count the rows of a table, or those with a value in a column other than 0 and false."""
        ...

    def count_unread(self, names: Iterable[str]) -> int:
        """Count the rows of tables with these names in schemas that are not read."""
        ...

    def rows(self, table: str, columns: Sequence[str], *, order: str) -> Iterator[Row | Unreadable]:
        """Yield the rows of a table in the order of a column, with the columns that it has.

        What cannot be read ends the table with an `Unreadable`. A missing table has no rows.
        """
        ...


@dataclass(slots=True, kw_only=True)
class TableMeter(Meter):
    """How many rows of tables have been read; it reads them."""

    unreadable: set[Unreadable] = field(default_factory=set[Unreadable])
    """What was reported; a table may be read several times."""

    def read(
        self,
        tables: Tables,
        table: str,
        *,
        columns: Sequence[str],
        make: Callable[[Row], Iterable[Content]],
        order: str = "id",
    ) -> Iterator[ImportItem]:
        """Yield what `make` makes of the rows of a table, and what cannot be read."""
        for row in tables.rows(table, columns, order=order):
            self.done += 1
            if not isinstance(row, Unreadable):
                yield from map(self.piece, fitted(make(row)))
            elif row not in self.unreadable:
                self.unreadable.add(row)
                yield self.piece(row)


def omissions(
    tables: Tables,
    named: Mapping[str, tuple[str, str | None]],
    *,
    known: Mapping[str, Collection[str]] | None = None,
) -> Mapping[str, int]:
    """Count what is not carried over: by its name, a table and perhaps a column with a value.

    With the columns that are known, also what a later version may add: the values of further ones,
    and the rows of other tables, except those of indexes.
    """
    counted, further = set(named.values()), dict[str, tuple[str, str | None]]()
    for table, columns in tables.columns.items() if known is not None else ():
        if known and table in known:
            unread = [one for one in columns if one not in known[table]]
            further |= {shorten_name(f"{one} of {table}"): (table, one) for one in unread}
        elif "_fts" not in table and not table.startswith("sqlite_"):
            further[shorten_name(f"rows of the table {table}")] = (table, None)
    uncounted = {what: place for what, place in further.items() if place not in counted}
    return {
        what: tables.count(table, column)
        for what, (table, column) in {**named, **uncounted}.items()
        if table in tables.columns and (column is None or column in tables.columns[table])
    }


def readable(
    tables: Tables, table: str, *, columns: Sequence[str], order: str = "id"
) -> Iterator[Row]:
    """Yield rows that are read once more; what cannot be read is reported with the others."""
    read = tables.rows(table, columns, order=order)
    return (row for row in read if not isinstance(row, Unreadable))


def row_count(tables: Tables, names: Iterable[str]) -> int:
    """Count the rows of these tables together."""
    return sum(tables.count(table) for table in names if table in tables.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteTables:
    """The tables of an open SQLite database."""

    connection: sqlite3.Connection
    columns: Mapping[str, Sequence[str]]

    def count(self, table: str, where: str | None = None) -> int:
        """Count the rows; 0 if the table is damaged."""
        statement = f"SELECT count(*) FROM {_quoted(table)}"  # noqa: S608 quoted
        if where:
            statement += f" WHERE {_quoted(where)} IS NOT NULL AND {_quoted(where)} <> 0"
        try:
            return int(self.connection.execute(statement).fetchone()[0])
        except sqlite3.DatabaseError:
            return 0

    def count_unread(self, names: Iterable[str]) -> int:
        """Return 0: a file has one schema."""
        del names
        return 0

    def where(self, table: str, columns: Sequence[str], **values: object) -> list[Row]:
        """Return the rows that have these values, with the columns of these that there are."""
        known = self.columns.get(table, ())
        there = [column for column in columns if column in known]
        if not there or not values.keys() <= set(known):
            return []
        names, conditions = (", ".join(map(_quoted, there)), " = ? AND ".join(map(_quoted, values)))
        statement = f"SELECT {names} FROM {_quoted(table)} WHERE {conditions} = ?"  # noqa: S608 quoted
        rows = self.connection.execute(statement, tuple(values.values()))
        return [dict(zip(there, one, strict=True)) for one in rows]

    def rows(self, table: str, columns: Sequence[str], *, order: str) -> Iterator[Row | Unreadable]:
        """Yield the rows of a table, see `Tables`."""
        there = [column for column in columns if column in self.columns.get(table, ())]
        if not there:
            return
        names = ", ".join(map(_quoted, there))
        ordered = order if order == "rowid" else _quoted(order)
        statement = f"SELECT {names} FROM {_quoted(table)} ORDER BY {ordered}"  # noqa: S608 quoted
        done = 0
        try:
            for values in self.connection.execute(statement):
                yield dict(zip(there, values, strict=True))
                done += 1
        except sqlite3.DatabaseError as error:
            reason = f"From here on the table cannot be read: {error}."
            yield Unreadable(where=f"{table}, after row {done}", reason=reason)


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


@contextmanager
def open_sqlite(path: Path, *, hint: str) -> Generator[SqliteTables]:
    """Open a SQLite database that other programs may be writing to, as of now.

    Raises:
        InvalidInputError: it is missing, no SQLite database, or damaged where it is read.
        UnavailableError: `io_error`, it had to be copied and the disk is full.

    """
    with connect_sqlite(path, hint=hint) as connection:
        try:
            yield SqliteTables(connection=connection, columns=_columns(connection))
        # The second for a message that quotes a damaged schema.
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise InvalidInputError(
                f"{path} cannot be read to its end: {error}.", hint=hint
            ) from error


def _columns(connection: sqlite3.Connection) -> dict[str, Sequence[str]]:
    listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    columns: dict[str, Sequence[str]] = {}
    for (table,) in listed.fetchall():
        # A virtual table may need a newer SQLite than this one; it is an index of other tables.
        with suppress(sqlite3.DatabaseError):
            described = connection.execute(f"PRAGMA table_info({_quoted(str(table))})")
            columns[str(table)] = tuple(str(row[1]) for row in described)
    return columns


def check_part(
    known: Collection[str], source: str, *, part: str | None, called: str, format_: str
) -> str:
    """Return the part of a source to read, whose parts must stay apart; the only one by default.

    Raises:
        InvalidInputError: the source has no such part, or several and none is named.

    """
    parts = sorted(known)[:_PARTS_SHOWN_MAX]
    if part is not None and part not in known:
        raise InvalidInputError(
            f"{source} has no {called} {part[:40]!r}.", hint=f"It has {', '.join(parts) or 'none'}."
        )
    if part is None and len(known) > 1:
        commands = "; ".join(
            f"brain --tenant {quote(one)} import {format_} {quote(f'{source}#{one}')}"
            for one in parts
        )
        raise InvalidInputError(
            f"{source} holds {len(known)} {called}s, whose memories must stay apart.",
            hint=f"Import each for a tenant, which brain tenant create makes: {commands}.",
        )
    return part or next(iter(known), "")
