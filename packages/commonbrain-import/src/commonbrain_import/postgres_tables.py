"""Tables of another program's Postgres database: from the server, or from a plain dump of it."""

import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import Unreadable, shown_source
from commonbrain_import.databases import ROWS_AT_ONCE, Tables
from commonbrain_import.rows import Row

_CONNECT_TIMEOUT_S: Final = 10
"""Enough for a server in another country; one that does not answer is reported."""
_TEXT_ARRAY: Final = 1009
"""The type of `text[]` (pg_type.dat of Postgres)."""


@contextmanager
def open_postgres(source: str | Path, *, hint: str) -> Generator[Tables]:
    """Open a server by its URL, in one read-only transaction, or a dump by its path.

    Raises:
        InvalidInputError: the server cannot be reached, or the file is no plain dump.

    """
    if isinstance(source, Path):
        yield _read_dump(source, hint=hint)
        return
    psycopg = _psycopg()
    try:
        connection = psycopg.connect(source, connect_timeout=_CONNECT_TIMEOUT_S)
    except psycopg.Error as error:
        raise _unreadable(source, error, hint=hint) from None
    try:
        connection.read_only = True
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        try:
            tables = _ServerTables(
                source=source, connection=connection, columns=_columns(connection)
            )
        except psycopg.Error as error:
            raise _unreadable(source, error, hint=hint) from None
        yield tables
    finally:
        connection.close()


def _psycopg() -> Any:  # noqa: ANN401 its values are of any type
    return import_module("psycopg")  # It takes long to import.


def _unreadable(source: str, error: Exception, *, hint: str) -> InvalidInputError:
    # The cause is left out, for a message of the driver may repeat the URL with its password.
    reason = str(error).strip().partition("\n")[0].replace(source, shown_source(source))
    if type(error) is _psycopg().ProgrammingError:  # The server's are of its subclasses.
        # It quotes what it cannot parse, such as a password with a bare `%`.
        reason = "it is malformed; in a URL, % is written %25"
    elif "@" in reason.replace(shown_source(source), "") or "password=" in reason:
        reason = "the server refused the connection"
    return InvalidInputError(f"{shown_source(source)} cannot be read: {reason}.", hint=hint)


def _columns(connection: Any) -> dict[str, Sequence[str]]:  # noqa: ANN401 of psycopg
    rows = connection.execute(
        "SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position) "
        "FROM information_schema.columns WHERE table_schema = ANY (current_schemas(false)) "
        # Of several schemas with a table of the same name, the first is read.
        "AND pg_table_is_visible(format('%I.%I', table_schema, table_name)::regclass) "
        "GROUP BY table_name ORDER BY table_name"
    )
    return {str(table): tuple(columns) for table, columns in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServerTables:
    """Tables that a server sends some hundred rows at a time."""

    source: str
    connection: Any
    columns: Mapping[str, Sequence[str]]

    def count(self, table: str, where: str | None = None) -> int:
        sql = import_module("psycopg.sql")
        statement = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
        if where is not None:
            # NULL is in none of them.
            condition = sql.SQL(" WHERE {}::text NOT IN ('', '0', 'false', '{{}}', '[]')")
            statement += condition.format(sql.Identifier(where))
        return int(self.connection.execute(statement).fetchone()[0])

    def count_unread(self, names: Iterable[str]) -> int:
        sql = import_module("psycopg.sql")
        hidden = self.connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_schema = ANY (current_schemas(false)) AND table_name = ANY (%s) "
            "AND NOT pg_table_is_visible(format('%%I.%%I', table_schema, table_name)::regclass)",
            [list(names)],
        ).fetchall()
        counts = (
            self.connection.execute(
                sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table))
            ).fetchone()[0]
            for schema, table in hidden
        )
        return sum(map(int, counts))

    def rows(self, table: str, columns: Sequence[str], *, order: str) -> Iterator[Row | Unreadable]:
        there = [column for column in columns if column in self.columns.get(table, ())]
        if not there:
            return
        psycopg, sql = _psycopg(), import_module("psycopg.sql")
        statement = sql.SQL("SELECT {} FROM {} ORDER BY {}").format(
            sql.SQL(", ").join(map(sql.Identifier, there)),
            sql.Identifier(table),
            sql.Identifier(order),
        )
        done = 0
        try:
            with self.connection.cursor(name=f"rows_of_{table}") as cursor:
                cursor.itersize = ROWS_AT_ONCE
                for values in cursor.execute(statement):
                    yield dict(zip(there, values, strict=True))
                    done += 1
        except psycopg.Error as error:
            reason = f"From here on the table cannot be read: {str(error).partition(chr(10))[0]}."
            yield Unreadable(where=f"{table}, after row {done}", reason=reason)


def names_of_array(value: object) -> object:
    """Return the list in an array, which a dump has as `{a,"b c"}`."""
    if not isinstance(value, str):
        return value
    psycopg = _psycopg()
    transformer = import_module("psycopg.adapt").Transformer()
    try:
        loader = transformer.get_loader(_TEXT_ARRAY, psycopg.pq.Format.TEXT)
        return loader.load(value.encode())
    except psycopg.Error:
        return None


_COPY: Final = re.compile(rb'COPY (?:"?(\w+)"?\.)?"?(\w+)"? \(([^)]*)\) FROM stdin;\r?\n')
"""How pg_dump begins the rows of a table."""
_PUBLIC: Final = b"public"
_END: Final = b"\\."
"""How it ends them."""
_ESCAPE: Final = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
"""The escapes of COPY's text format (https://www.postgresql.org/docs/current/sql-copy.html)."""
_LETTERS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CUSTOM: Final = b"PGDMP"
"""How dumps begin that only pg_restore reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowRange:
    """Where the rows of a table are in a dump."""

    offset: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _DumpTables:
    """Tables in a plain dump, in the order in which it has their rows."""

    path: Path
    columns: Mapping[str, Sequence[str]]
    places: Mapping[str, _RowRange]
    unread: Mapping[str, int]
    """Rows of tables in other schemas, by their names."""

    def count_unread(self, names: Iterable[str]) -> int:
        return sum(self.unread.get(name, 0) for name in names)

    def count(self, table: str, where: str | None = None) -> int:
        if where is None:
            return self.places[table].count
        rows = self.rows(table, (where,), order=where)
        values = (row.get(where) for row in rows if not isinstance(row, Unreadable))
        return sum(value not in {None, "", "0", "f", "{}", "[]"} for value in values)

    def rows(self, table: str, columns: Sequence[str], *, order: str) -> Iterator[Row | Unreadable]:
        del order  # The dump has an order of its own.
        place, known = self.places.get(table), self.columns.get(table, ())
        chosen = [(at, column) for at, column in enumerate(known) if column in columns]
        if place is None or not chosen:
            return
        with self.path.open("rb") as stream:
            stream.seek(place.offset)
            for number in range(1, place.count + 1):
                values = stream.readline().rstrip(b"\r\n").split(b"\t")
                if len(values) != len(known):
                    reason = f"It has {len(values)} values; the table has {len(known)} columns."
                    yield Unreadable(where=f"{table}, row {number}", reason=reason)
                    continue
                yield {column: _value(values[at]) for at, column in chosen}


def _value(given: bytes) -> str | None:
    if given == b"\\N":
        return None
    return _ESCAPE.sub(_unescaped, given.decode("utf-8", "replace"))


def _unescaped(match: re.Match[str]) -> str:
    octal, hexadecimal, letter = match.groups()
    if letter is not None:
        return _LETTERS.get(letter, letter)
    return chr(int(octal, 8) if octal else int(hexadecimal, 16))


def _read_dump(path: Path, *, hint: str) -> _DumpTables:
    """Find the tables of a dump.

    Raises:
        InvalidInputError: it is missing, or no plain dump with COPY.

    """
    if not path.is_file():
        raise InvalidInputError(f"There is no file {path}.", hint=hint)
    columns: dict[str, Sequence[str]] = {}
    places: dict[str, _RowRange] = {}
    unread = Counter[str]()
    try:
        with path.open("rb") as stream:
            if stream.read(len(_CUSTOM)) == _CUSTOM:
                raise InvalidInputError(
                    f"{path} is a custom dump.", hint="pg_restore -f plain.sql makes a plain one."
                )
            stream.seek(0)
            while line := stream.readline():
                begun = _COPY.fullmatch(line)
                if begun is None:
                    continue
                table = begun[2].decode()
                names = begun[3].decode("utf-8", "replace").split(",")
                offset, count = stream.tell(), 0
                while (line := stream.readline()) and line.rstrip(b"\r\n") != _END:
                    count += 1
                if table in places and begun[1] not in {None, _PUBLIC}:
                    unread[table] += count
                    continue  # Another schema has a table of that name, perhaps an old copy.
                unread[table] += places[table].count if table in places else 0
                columns[table] = tuple(one.strip().strip('"') for one in names)
                places[table] = _RowRange(offset=offset, count=count)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.", hint=hint) from error
    if not places:
        raise InvalidInputError(
            f"{path} holds no rows of a table.", hint=f"{hint} A dump must not use --inserts."
        )
    return _DumpTables(path=path, columns=columns, places=places, unread=unread)
