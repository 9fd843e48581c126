"""OpenBrain: the knowledge that agents share, in a dump of its MariaDB table `brain_memories`.

Written by `php/Services/BrainService.php` of https://github.com/dAppCore/agent, schema in
`php/Migrations/0001_01_01_000008_create_brain_memories_table.php` and what follows it; design in
its `docs/php-agent/RFC.openbrain-design.md`. Its vectors are in Qdrant and are computed anew.

A dump holds one or several workspaces, who must not see each other's memories; the source then
names one: `dump.sql#7`. `brain:seed-memory`, which fills it from MEMORY.md, has its counterpart in
the importer `markdown`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, kind_and_label
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import (
    Importer,
    ImportItem,
    Meter,
    SourceRelation,
    Unreadable,
    name_or_none,
    shorten_name,
    source_reference,
    split_part,
)
from commonbrain.transfer.importers.chats import Tally
from commonbrain_import.databases import check_part
from commonbrain_import.rows import Row, fitted, names_in, share_in, text_in, time_in

_TABLE: Final = "brain_memories"
_HINT: Final = f"Make it by mariadb-dump DATABASE {_TABLE} > dump.sql."
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A line is a statement at most, which mariadb-dump limits to 16 MB."""
_STARTS: Final = tuple(
    f"{verb} INTO `{_TABLE}`".encode() for verb in ("INSERT", "INSERT IGNORE", "REPLACE")
)
_CREATE: Final = f"CREATE TABLE `{_TABLE}`".encode()
_COLUMNS: Final = frozenset(
    {
        *("id", "workspace_id", "org", "agent_id", "type", "content", "tags", "project"),
        *("confidence", "source", "supersedes_id", "expires_at", "created_at", "deleted_at"),
    }
)
_OMITTED: Final = {"indexed_at": "times of the vectors", "updated_at": "times of the last change"}
_KINDS: Final = {"procedure": Kind.RULE}
"""Its types that are no kind of ours; the others are facts."""


class OpenBrainDump(Importer):
    """Reads a dump that mariadb-dump or mysqldump made."""

    name = "openbrain"
    purpose = "OpenBrain (php-agent): a MariaDB dump of brain_memories"
    has_relations = True
    reads_part = True

    def read(self, source: Path) -> Iterator[ImportItem]:
        """Yield the memories of a workspace in the order of the dump, then their corrections.

        Raises:
            InvalidInputError: the file is missing or no dump of the table, or it holds several
                workspaces and the source does not name one; raised before the first piece.

        """
        # There may be a file of that very name.
        file, workspace = (source, None) if source.exists() else split_part(source)
        overview = _survey(file)
        chosen = check_part(
            overview.workspaces, str(file), part=workspace, called="workspace", format_=self.name
        )
        meter = Meter(total=max(file.stat().st_size, 1))
        tally = Tally()
        for row in _rows(file, meter, tally=tally):
            if isinstance(row, Unreadable):
                yield meter.piece(row)
            elif text_in(row, "workspace_id") != chosen:
                tally["memories of other workspaces"] += 1
            elif not overview.is_carried(text_in(row, "id")):
                tally["deleted memories"] += 1
            else:
                tally.update(_omissions(row))
                yield from map(meter.piece, fitted(_contents(row)))
        yield from map(meter.piece, overview.relations(chosen))
        yield from tally.pieces()


@dataclass(slots=True, kw_only=True)
class _Overview:
    """What must be known before the first memory: who is there, and what corrects what."""

    workspaces: set[str] = field(default_factory=set[str])
    deleted: dict[str, datetime | None] = field(default_factory=dict[str, "datetime | None"])
    """When each one was deleted; a correction deletes what it corrects."""
    newer: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    """The memories that correct each one."""
    corrections: list[tuple[datetime | None, str, str, str]] = field(
        default_factory=list[tuple["datetime | None", str, str, str]]
    )
    """Time and workspace of the newer one, and both."""

    def add(self, row: Row) -> None:
        """Take note of a row."""
        id_, older = text_in(row, "id"), text_in(row, "supersedes_id")
        workspace = text_in(row, "workspace_id")
        self.workspaces.add(workspace)
        if row.get("deleted_at") is not None:
            self.deleted[id_] = time_in(row, "deleted_at")
        if older:
            self.newer.setdefault(older, []).append(id_)
            self.corrections.append((time_in(row, "created_at"), workspace, id_, older))

    def is_carried(self, id_: str) -> bool:
        """Return whether a memory is current, or was deleted because a carried one corrects it."""
        seen: set[str] = set()
        waiting = [id_]
        while waiting:
            one = waiting.pop()
            if one not in self.deleted:
                return True
            if one not in seen:
                seen.add(one)
                waiting += self.newer.get(one, [])
        return False

    def relations(self, workspace: str) -> Iterator[SourceRelation]:
        """Yield the corrections among carried memories, the oldest first."""
        first = datetime.min.replace(tzinfo=UTC)
        by_time = sorted(self.corrections, key=lambda correction: correction[0] or first)
        for created_at, own, newer, older in by_time:
            if own == workspace and self.is_carried(newer) and self.is_carried(older):
                at = self.deleted.get(older) or created_at
                yield SourceRelation(first=_ref(newer), second=_ref(older), type=None, at=at)


def _survey(file: Path) -> _Overview:
    """Read the dump once for what must be known before its first memory."""
    if not file.is_file():
        raise InvalidInputError(f"There is no file {file}.", hint=_HINT)
    overview = _Overview()
    is_empty = True
    try:
        for row in _rows(file, Meter(total=1), tally=Counter()):
            is_empty = False
            if not isinstance(row, Unreadable):
                overview.add(row)
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}.", hint=_HINT) from error
    if is_empty:
        raise InvalidInputError(f"{file} has no rows of {_TABLE}.", hint=_HINT)
    return overview


def _contents(row: Row) -> Iterator[Draft | Unreadable]:
    sort = text_in(row, "type") or "observation"
    kind, label = kind_and_label(sort) or (_KINDS.get(sort, Kind.FACT), sort)
    origin, org = text_in(row, "source"), text_in(row, "org")
    further = (f"source:{origin}" if origin else "", f"org:{org}" if org else "")
    yield Draft(
        body=text_in(row, "content"),
        kind=kind,
        label=name_or_none(label),
        project=name_or_none(text_in(row, "project")),
        confidence=share_in(row, "confidence"),
        tags=names_in([*names_in(row.get("tags")), *further]),
        source_ref=_ref(text_in(row, "id")),
        occurred_at=time_in(row, "created_at"),
        believed_since=time_in(row, "created_at"),
        expires_at=time_in(row, "expires_at"),
        author=name_or_none(text_in(row, "agent_id")),
    )


def _omissions(row: Row) -> Iterator[str]:
    """Name the values of a row that are not carried over."""
    for column, value in row.items():
        if value is not None and column not in _COLUMNS:
            yield _OMITTED.get(column, f"values of the unknown column {shorten_name(column)}")


def _ref(id_: str) -> str:
    return source_reference("openbrain", id_)


# The dump. A newline in a text is written as \n, so a line is a statement, a part of CREATE TABLE,
# or one row of an INSERT.


def _rows(file: Path, meter: Meter, *, tally: Counter[str]) -> Iterator[Row | Unreadable]:
    """Yield the rows of the table, parsed one line at a time."""
    columns: Sequence[str] = ()
    begun = b""
    with file.open("rb") as stream:
        for number, line in _lines(stream):
            meter.done = stream.tell()
            if line.startswith(_CREATE):
                columns = _columns(line, stream)
            elif line.startswith(_STARTS):
                head, values, rest = line.partition(b" VALUES")
                begun = head + values + b" "
                if rest.strip():
                    yield from _parsed(begun + rest, columns, where=f"line {number}")
            elif begun and line.startswith(b"("):
                yield from _parsed(begun + line, columns, where=f"line {number}")
            elif line.startswith((b"INSERT ", b"REPLACE ")):
                begun = b""
                tally["statements for other tables"] += 1
            elif not line.startswith(b"("):
                begun = b""


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines; the rest of one that is too long for a statement is left out."""
    number = 0
    while line := stream.readline(_LINE_BYTES_MAX):
        number += 1
        yield number, line
        while not line.endswith(b"\n") and (line := stream.readline(_LINE_BYTES_MAX)):
            pass


def _columns(line: bytes, stream: BinaryIO) -> Sequence[str]:
    """Return the columns of the table that begins on this line."""
    statement = line
    while not statement.rstrip().endswith(b";") and (more := stream.readline(_LINE_BYTES_MAX)):
        statement += more
    sqlglot = _sqlglot()
    try:
        parsed = sqlglot.parse_one(_text(statement), dialect="mysql")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return ()
    return tuple(one.name for one in parsed.find_all(sqlglot.exp.ColumnDef))


def _parsed(statement: bytes, columns: Sequence[str], *, where: str) -> Iterator[Row | Unreadable]:
    sqlglot = _sqlglot()
    try:
        parsed = sqlglot.parse_one(_text(statement.rstrip(b",; \r\n")), dialect="mysql")
        rows = [
            [_value(one) for one in row.expressions]
            for row in (parsed.expression.expressions if parsed.expression else ())
        ]
    except (sqlglot.errors.SqlglotError, ValueError, RecursionError) as error:
        reason = f"It is no SQL: {str(error).partition(chr(10))[0][:200]}"
        yield Unreadable(where=where, reason=reason)
        return
    named = [one.name for one in getattr(parsed.this, "expressions", ())] or columns
    for values in rows:
        if len(values) == len(named):
            yield dict(zip(named, values, strict=True))
        else:
            reason = f"It has {len(values)} values; the table has {len(named)} columns."
            yield Unreadable(where=where, reason=reason)


def _text(statement: bytes) -> str:
    return statement.decode("utf-8", "replace")


def _value(expression: Any) -> str | None:  # noqa: ANN401 of a module of an extra
    """Return a value as text; None for NULL."""
    exp = _sqlglot().exp
    match expression:
        case exp.Null():
            return None
        case exp.HexString():
            return bytes.fromhex(str(expression.this)).decode("utf-8", "replace")
        case exp.Introducer():
            return _value(expression.expression)
        case exp.Literal():
            return str(expression.this)
        case _:
            return str(expression.sql(dialect="mysql"))


def _sqlglot() -> Any:  # noqa: ANN401 its values are of any type
    import_module("sqlglot.errors")
    return import_module("sqlglot")  # It takes long to import.


IMPORTER: Final = OpenBrainDump()
