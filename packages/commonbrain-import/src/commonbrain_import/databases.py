"""Databases as sources: tables read row by row, and their values as drafts have them.

Nothing is written to a source. Only named columns are read, so that vectors stay where they are.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final, Protocol, cast
from uuid import UUID

from commonbrain.ingestion.validation import Rejection, validate
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.model.memory import Draft
from commonbrain.model.timestamps import to_utc
from commonbrain.text.classification import severity_of
from commonbrain.transfer.importer import Content, Omitted, Piece, Unreadable
from commonbrain.transfer.importers.chats import parse_time
from commonbrain.transfer.importers.markdown import name
from commonbrain.transfer.importers.sections import split_text
from commonbrain.transfer.snapshots import connect_sqlite

Row = Mapping[str, object]
"""One row: its values by column; a column that the table does not have is missing."""
_SHORTEST: Final = timedelta(milliseconds=1)
"""The shortest time that a memory can be valid, as times are stored in milliseconds."""
_WHOLE_MAX: Final = 2**53
"""The largest whole number up to which a float has each one."""
ROWS_AT_ONCE: Final = 500
"""Rows that a server sends at a time; each is some KB."""


@dataclass(slots=True, kw_only=True)
class Meter:
    """How much of a source has been read."""

    total: int
    done: int = 0

    def piece(self, content: Content, *, is_pinned: bool = False, rating: int = 0) -> Piece:
        """Make a piece that ends here."""
        progress = min(self.done / max(self.total, 1), 1.0)
        return Piece(content=content, progress=progress, is_pinned=is_pinned, rating=rating)


class Tables(Protocol):
    """The tables of a database."""

    @property
    def columns(self) -> Mapping[str, Sequence[str]]:
        """The columns of every table."""
        ...

    def count(self, table: str, where: str | None = None) -> int:
        """Count the rows of a table, or those with a value in a column other than 0 and false."""
        ...

    def rows(self, table: str, columns: Sequence[str], *, order: str) -> Iterator[Row | Unreadable]:
        """Yield the rows of a table in the order of a column, with the columns that it has.

        What cannot be read ends the table with an `Unreadable`. A missing table has no rows.
        """
        ...


def readable(
    tables: Tables, table: str, *, columns: Sequence[str], order: str, meter: Meter
) -> Iterator[Row | Piece]:
    """Yield the rows of a table, and what cannot be read as a piece; move the meter on."""
    for row in tables.rows(table, columns, order=order):
        meter.done += 1
        yield meter.piece(row) if isinstance(row, Unreadable) else row


def omissions(tables: Tables, named: Mapping[str, tuple[str, str | None]]) -> Iterator[Omitted]:
    """Count what is not carried over: by its name, a table and perhaps a column with a value."""
    for what, (table, column) in named.items():
        if table in tables.columns and (column is None or column in tables.columns[table]):
            count = tables.count(table, column)
            if count:
                yield Omitted(what=what, count=count)


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
        InvalidInputError: it is missing, or no SQLite database.
        UnavailableError: `io_error`, it had to be copied and the disk is full.

    """
    with connect_sqlite(path, hint=hint) as connection:
        yield SqliteTables(connection=connection, columns=_columns(connection))


def _columns(connection: sqlite3.Connection) -> dict[str, Sequence[str]]:
    listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    columns: dict[str, Sequence[str]] = {}
    for (table,) in listed.fetchall():
        # A virtual table may need a newer SQLite than this one; it is an index of other tables.
        with suppress(sqlite3.DatabaseError):
            described = connection.execute(f"PRAGMA table_info({_quoted(str(table))})")
            columns[str(table)] = tuple(str(row[1]) for row in described)
    return columns


def text_in(row: Row, *columns: str) -> str:
    """Return the first of these columns that holds a text or a number, stripped; empty without."""
    texts = (_text_of(row.get(one)) for one in columns)
    return next((text.strip() for text in texts if text and text.strip()), "")


def _text_of(value: object) -> str | None:
    """Return a text, also one in bytes, or a number as text; None of other values."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    is_plain = isinstance(value, str | int | float | Decimal | UUID) and not isinstance(value, bool)
    try:
        return str(value) if is_plain else None
    except ValueError:  # An integer of more digits than Python writes.
        return None


def number_in(row: Row, column: str) -> float | None:
    """Return a finite number; None without one."""
    value = row.get(column)
    try:
        number = float(value) if isinstance(value, int | float | str | Decimal) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def share_in(row: Row, column: str) -> float | None:
    """Return a number, cut to 0..1; None without one."""
    number = number_in(row, column)
    return None if number is None else min(max(number, 0.0), 1.0)


def whole_in(row: Row, column: str) -> int:
    """Return a whole number, cut to what a float can count; 0 without one."""
    return int(min(max(number_in(row, column) or 0, -_WHOLE_MAX), _WHOLE_MAX))


def flag_in(row: Row, column: str) -> bool:
    """Return a truth value, as databases and their dumps write it."""
    value = row.get(column)
    return value.lower() in {"t", "true", "1"} if isinstance(value, str) else bool(value)


def time_in(row: Row, *columns: str) -> datetime | None:
    """Return the first of these times that can be parsed; one without a zone is in UTC."""
    for column in columns:
        value = row.get(column)
        time = to_utc(value) if isinstance(value, datetime) else parse_time(value)
        if time is not None:
            return time
    return None


def json_in(row: Row, column: str) -> object:
    """Return the value of a column with JSON; None if it is not JSON."""
    value = row.get(column)
    if not isinstance(value, str | bytes):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def names_in(given: object) -> tuple[str, ...]:
    """Return the names in a list, or in a text with a JSON list or one name; each once."""
    return tuple(dict.fromkeys(map(name, ids_in(given))))


def ids_in(given: object) -> tuple[str, ...]:
    """Return what `names_in` does, but whole and all of them."""
    if isinstance(given, str):
        parsed = json_in({"given": given}, "given")
        given = cast("object", parsed) if isinstance(parsed, list) else (given,)
    if not isinstance(given, list | tuple):
        return ()
    words = (_text_of(one) for one in cast("Sequence[object]", given))
    return tuple(dict.fromkeys(word.strip() for word in words if word and word.strip()))


def one_name(text: str) -> str | None:
    """Return a text as a name of an agent, project or label; None if it is empty."""
    return name(text) if text else None


def fitted(draft: Draft) -> Iterator[Draft]:
    """Return a draft, or its parts if it is too long, as the write gate accepts them.

    What does not pass as one statement of its kind becomes an event, so that no text is lost. The
    event keeps the name of the kind as its label.
    """
    if draft.expires_at and draft.occurred_at and draft.expires_at <= draft.occurred_at:
        # The gate refuses what ends before it begins, and without an end it would be current.
        draft = replace(draft, occurred_at=draft.expires_at - _SHORTEST)
    if len(draft.body.encode("utf-8", "replace")) <= TEXT_BYTES_MAX:
        yield _accepted(draft)
        return
    for number, part in enumerate(split_text(draft.body), 1):
        yield _accepted(replace(draft, body=part, part=number))


def _accepted(draft: Draft) -> Draft:
    if isinstance(validate(draft), Rejection) and draft.headline is not None:
        draft = replace(draft, headline=None)
    if isinstance(validate(draft), Rejection):
        label = draft.label or draft.kind
        return replace(draft, kind=Kind.EVENT, label=label, severity=None, detail=None)
    return draft


def ruled(draft: Draft) -> Draft:
    """Return a rule with the severity that its words give it."""
    return replace(draft, severity=severity_of(draft.body))
