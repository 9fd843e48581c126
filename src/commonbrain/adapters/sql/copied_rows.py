"""Rows on their way from store to store: read in pages, alike on every engine, and digested."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    Table,
    exc,
    func,
    literal,
    select,
    tuple_,
    update,
)

from commonbrain.adapters.sql.store import SqlTransaction
from commonbrain.adapters.sql.tables import memories, spaces
from commonbrain.adapters.sql.translating import cause_of
from commonbrain.domain.errors import Corrupt
from commonbrain.domain.times import to_millis

Row = dict[str, Any]
Key = tuple[Any, ...]

AT_ONCE: Final = 500
"""Rows of a page: a destination's other writers wait for some hundredths of a second."""
TIES: Final = ("superseded_by", "superseded_at", "source_message_id")
"""What of a memory may name a memory that comes after it: written when all are there."""
_NUMBER: Final = "seq"
"""Numbers for readers that keep vectors in memory; each store counts its own."""
_SPACE: Final = "space_id"
_NO_SPACE: Final = -1
_ALL: Final = 1 << 256


@dataclass(slots=True)
class Tally:
    """How many rows there are and what they hold, whatever their order, for engines sort apart."""

    rows: int = 0
    sum: int = 0

    def add(self, row: Row) -> None:
        """Count a row in."""
        written = json.dumps(comparable(row), default=_written, sort_keys=True)
        digest = hashlib.sha256(written.encode()).digest()
        self.rows += 1
        # A sum, for two equal rows would cancel each other in an exclusive or.
        self.sum = (self.sum + int.from_bytes(digest)) % _ALL

    @property
    def digest(self) -> str:
        """Give the sum of the rows' SHA-256 as hexadecimal digits."""
        return f"{self.sum:064x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One table of one tenant in one transaction of one of the two stores."""

    tx: SqlTransaction
    table: Table
    spaces: Mapping[int, str]

    @classmethod
    def of(cls, tx: SqlTransaction, table: Table) -> "Rows":
        """Set up the table as its engine has it."""
        kept = tx.work.dialect.as_kept(table)
        return cls(tx=tx, table=kept, spaces=spaces_of(tx) if _SPACE in kept.c else {})

    @property
    def key(self) -> list[Column[Any]]:
        """What tells its rows of one tenant apart."""
        return [one for one in self.table.primary_key if one.name != "tenant_id"]

    def count(self) -> int:
        """Count them."""
        asked = select(func.count()).select_from(self.table).where(self._own)
        return self.tx.work.connection.execute(asked).scalar_one()

    def pages(self, *only: ColumnElement[bool]) -> Iterator[list[Row]]:
        """Give all rows in the order of their key, so many at a time."""
        key = self.key
        asked = select(self.table).where(self._own, *only).order_by(*key).limit(AT_ONCE)
        page = self._read(asked)
        while page:
            yield [self._named(row) for row in page]
            reached = [literal(page[-1][one.name], one.type) for one in key]
            page = self._read(asked.where(tuple_(*key) > tuple_(*reached)))

    def at(self, keys: Sequence[Key]) -> dict[Key, Row]:
        """Give the rows that are there of these keys."""
        ids = {name: id_ for id_, name in self.spaces.items()}
        names = [one.name for one in self.key]
        own = [
            tuple(
                ids.get(value, _NO_SPACE) if name == _SPACE else value
                for name, value in zip(names, key, strict=True)
            )
            for key in keys
        ]
        asked = select(self.table).where(self._own, tuple_(*self.key).in_(own))
        found = map(self._named, self._read(asked))
        return {self.key_of(row): row for row in found}

    def key_of(self, row: Row) -> Key:
        """Give what tells a row from the others."""
        return tuple(row[one.name] for one in self.key)

    def put(self, page: Sequence[Row], *, number: int) -> int:
        """Write the rows that are not there; give the last number that was given out."""
        ids = {name: id_ for id_, name in self.spaces.items()}
        written: list[Row] = []
        for one in page:
            row = {name: one[name] for name in self.table.c.keys() if name in one}  # noqa: SIM118
            if _SPACE in row:
                row[_SPACE] = ids[row[_SPACE]]
            if _NUMBER in self.table.c and _NUMBER not in row:
                number += 1
                row[_NUMBER] = number
            written.append(loose(row) if self.table is memories else row)
        work = self.tx.work
        try:
            work.connection.execute(work.dialect.insert_or_skip(self.table), written)
        except (exc.DataError, exc.IntegrityError) as error:
            raise Corrupt(
                f"A row of {self.table.name} of tenant {work.tenant} does not fit into "
                f"{work.dialect.location}: {cause_of(error)}.",
                code="copy_unfit",
                hint="Its page was not written; what was copied before stays. Mend the row in the "
                "source, where `brain doctor` may know it, and run the copy again.",
            ) from error
        return number

    def last_number(self) -> int:
        """Give the highest number of the table, where it has any."""
        if _NUMBER not in self.table.c:
            return 0
        asked = select(func.coalesce(func.max(self.table.c[_NUMBER]), 0)).where(self._own)
        return self.tx.work.connection.execute(asked).scalar_one()

    def tie(self, page: Sequence[Row]) -> None:
        """Write what these memories say of others, which are all there now."""
        for row in page:
            own = memories.c.tenant_id == self.tx.work.tenant, memories.c.id == row["id"]
            values = {name: row[name] for name in TIES}
            self.tx.work.connection.execute(update(memories).where(*own).values(values))

    def _read(self, asked: Select[Any]) -> list[Row]:
        return [dict(row) for row in self.tx.work.connection.execute(asked).mappings()]

    def _named(self, row: Row) -> Row:
        """Name the space of a vector, whose number differs between stores."""
        return row | {_SPACE: self.spaces[row[_SPACE]]} if _SPACE in row else row

    @property
    def _own(self) -> ColumnElement[bool]:
        return self.table.c.tenant_id == self.tx.work.tenant


def spaces_of(tx: SqlTransaction) -> dict[int, str]:
    """Give the spaces of a store by their rows; numbers differ between stores, names do not."""
    asked = select(spaces.c.id, spaces.c.name)
    return {row.id: row.name for row in tx.work.connection.execute(asked)}


def comparable(row: Row) -> Row:
    """Give what of a row is the same in every store."""
    return {name: value for name, value in row.items() if name != _NUMBER}


def loose(memory: Row) -> Row:
    """Give a memory as it is before it is tied to others."""
    return memory | dict.fromkeys(TIES)


def _written(value: object) -> object:
    match value:
        case datetime():
            return to_millis(value)
        case bytes():
            return value.hex()
        case _:
            raise TypeError(type(value).__name__)
