"""Copy a store to another one, of any engine: in pages, resumable, verified.

The source is only read, each tenant in one snapshot. Rows that the destination already has must
equal those of the source; nothing is overwritten.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NoReturn

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    Table,
    exc,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from commonbrain.embeddings.interface import SpaceState
from commonbrain.model.errors import RejectedError, StoreCorruptError
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.model.timestamps import to_millis
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.storage.schema.activity import page_sessions
from commonbrain.storage.schema.memories import memories, spaces, tenants
from commonbrain.storage.schema.types import METADATA
from commonbrain.storage.sql.context import cause_of, known_spaces
from commonbrain.storage.store import Store, Transaction

Row = dict[str, Any]
Key = tuple[Any, ...]

AT_ONCE: Final = 500
"""Rows of a page: other writers of the destination wait for some hundredths of a second."""
TIES: Final = ("superseded_by", "superseded_at", "source_message_id")
"""Columns that may refer to a later memory, written when all memories are there."""
_NUMBER: Final = "seq"
"""Sequence numbers for readers with in-memory vectors; each store has its own."""
_DERIVED: Final = frozenset({_NUMBER, "reading"})
"""What a store may write again at any time."""
_SPACE: Final = "space_id"
_NO_SPACE: Final = -1
_ALL: Final = 1 << 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """One table of one tenant in the source of a copy."""

    tenant: str
    table: str
    rows: int
    there: int
    """Rows already in the destination, left by an interrupted copy."""
    digest: str | None = None
    """Digest of the rows in both stores, independent of order; None before a copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCopy:
    """A planned copy of a store or, with digests, a verified one."""

    source: str
    destination: str
    tables: tuple[CopiedTable, ...]

    @property
    def rows(self) -> int:
        """Total number of rows."""
        return sum(one.rows for one in self.tables)

    @property
    def there(self) -> int:
        """Number of rows already in the destination."""
        return sum(one.there for one in self.tables)


@dataclass(slots=True)
class CopyCounts:
    """The number and content of rows in any order, because engines sort differently."""

    rows: int = 0
    sum: int = 0

    def add(self, row: Row) -> None:
        """Add a row."""
        written = json.dumps(comparable(row), default=_written, sort_keys=True)
        digest = hashlib.sha256(written.encode()).digest()
        self.rows += 1
        # A sum, because two equal rows would cancel each other in an exclusive or.
        self.sum = (self.sum + int.from_bytes(digest)) % _ALL

    @property
    def digest(self) -> str:
        """Return the sum of the rows' SHA-256 in hexadecimal."""
        return f"{self.sum:064x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """One table of one tenant in a transaction of one of the two stores."""

    tx: Transaction
    table: Table
    spaces: Mapping[int, str]

    @classmethod
    def of(cls, tx: Transaction, table: Table) -> "Rows":
        """Set up the table for its engine."""
        stored_table = tx.work.dialect.stored_table(table)
        return cls(
            tx=tx, table=stored_table, spaces=spaces_of(tx) if _SPACE in stored_table.c else {}
        )

    @property
    def key(self) -> list[Column[Any]]:
        """The primary key within a tenant."""
        return [one for one in self.table.primary_key if one.name != "tenant_id"]

    def count(self) -> int:
        """Count the rows."""
        statement = select(func.count()).select_from(self.table).where(self._own)
        return self.tx.work.connection.execute(statement).scalar_one()

    def pages(self, *only: ColumnElement[bool]) -> Iterator[list[Row]]:
        """Yield all rows in key order, in pages."""
        key = self.key
        statement = select(self.table).where(self._own, *only).order_by(*key).limit(AT_ONCE)
        page = self._read(statement)
        while page:
            yield [self._named(row) for row in page]
            reached = [literal(page[-1][one.name], one.type) for one in key]
            page = self._read(statement.where(tuple_(*key) > tuple_(*reached)))

    def at(self, keys: Sequence[Key]) -> dict[Key, Row]:
        """Return the existing rows with these keys."""
        ids = {name: id_ for id_, name in self.spaces.items()}
        names = [one.name for one in self.key]
        own = [
            tuple(
                ids.get(value, _NO_SPACE) if name == _SPACE else value
                for name, value in zip(names, key, strict=True)
            )
            for key in keys
        ]
        statement = select(self.table).where(self._own, tuple_(*self.key).in_(own))
        rows = map(self._named, self._read(statement))
        return {self.key_of(row): row for row in rows}

    def key_of(self, row: Row) -> Key:
        """Return the key of a row."""
        return tuple(row[one.name] for one in self.key)

    def put(self, page: Sequence[Row], *, number: int) -> int:
        """Insert missing rows; return the last number assigned."""
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
            raise StoreCorruptError(
                f"A row of {self.table.name} of tenant {work.tenant} does not fit into "
                f"{work.dialect.location}: {cause_of(error)}.",
                code="copy_unfit",
                hint="Its page was not written; what was copied before stays. Fix the row in the "
                "source, where `brain doctor` may know it, and run the copy again.",
            ) from error
        return number

    def last_number(self) -> int:
        """Return the highest number of the table, if it has numbers."""
        if _NUMBER not in self.table.c:
            return 0
        statement = select(func.coalesce(func.max(self.table.c[_NUMBER]), 0)).where(self._own)
        return self.tx.work.connection.execute(statement).scalar_one()

    def tie(self, page: Sequence[Row]) -> None:
        """Write the references of memories, now that all are there."""
        for row in page:
            own = memories.c.tenant_id == self.tx.work.tenant, memories.c.id == row["id"]
            values = {name: row[name] for name in TIES}
            self.tx.work.connection.execute(update(memories).where(*own).values(values))

    def _read(self, statement: Select[Any]) -> list[Row]:
        return [dict(row) for row in self.tx.work.connection.execute(statement).mappings()]

    def _named(self, row: Row) -> Row:
        """Replace the id of an embedding space, which differs between stores."""
        return row | {_SPACE: self.spaces[row[_SPACE]]} if _SPACE in row else row

    @property
    def _own(self) -> ColumnElement[bool]:
        return self.table.c.tenant_id == self.tx.work.tenant


def spaces_of(tx: Transaction) -> dict[int, str]:
    """Return the embedding spaces by id; ids differ between stores, names do not."""
    statement = select(spaces.c.id, spaces.c.name)
    return {row.id: row.name for row in tx.work.connection.execute(statement)}


def comparable(row: Row) -> Row:
    """Return the part of a row that is the same in every store."""
    return {name: value for name, value in row.items() if name not in _DERIVED}


def loose(memory: Row) -> Row:
    """Return a memory without its references."""
    return memory | dict.fromkeys(TIES)


def _written(value: object) -> object:
    match value:
        case datetime():
            return to_millis(value)
        case bytes():
            return value.hex()
        case _:
            raise TypeError(type(value).__name__)


TABLES: Final = tuple(
    one for one in METADATA.sorted_tables if one not in {tenants, spaces, page_sessions}
)
"""The tables whose rows are copied, referenced tables first.

People log in again at the copy: the source may go on, and its sessions must not be valid in both.
"""
_EMPTY: Final = (
    "Nothing was changed. Copy into a store that is new: a file that is not there yet, or a "
    "database after `brain store upgrade` without any other data. To go on with an interrupted "
    "copy, the source must be unchanged: let no program write to it meanwhile."
)
_IS_TIED: Final = or_(*(memories.c[name].is_not(None) for name in TIES))


@dataclass(slots=True)
class _Way:
    """The progress of a copy: every row is written and read again, every text indexed."""

    rows: int
    texts: int
    on_progress: Progress
    done: int = 0

    def go(self, rows: int) -> None:
        """Report rows that were written or verified."""
        self.done += rows
        self.report_text(0.0)

    def report_text(self, fraction: float) -> None:
        """Report the progress of the full text."""
        whole = 2 * self.rows + self.texts
        self.on_progress(min((self.done + fraction * self.texts) / max(whole, 1), 1.0))


def plan_copy(source: Store, destination: Store | None) -> StoreCopy:
    """Count what a copy would add and what exists; change nothing.

    Args:
        source: the store to copy.
        destination: the target; None if it does not exist yet.

    Raises:
        RejectedError: `copy_other_data`, the destination has rows that the source does not have.

    """
    owners = source.tenants()
    planned: list[CopiedTable] = []
    for owner in owners:
        planned += _plan_tenant(source, destination, owner=owner)
    if destination is not None:
        for other in sorted({*destination.tenants()} - {*owners}):
            with destination.snapshot(other) as there:
                if not _is_new(there):
                    _refuse(destination, f"tenant {other}, which {source.location} has not")
    location = "" if destination is None else destination.location
    return StoreCopy(source=source.location, destination=location, tables=tuple(planned))


def copy_rows(
    source: Store, destination: Store, *, on_progress: Progress = ignore_progress
) -> StoreCopy:
    """Copy every row of every tenant, rebuild the full text, and verify everything.

    An interrupted copy leaves complete pages, from which the next one continues.

    Args:
        source: the store to copy; only read.
        destination: the target, under the role of a program.
        on_progress: called with the progress, 0..1, between transactions.

    Raises:
        RejectedError: `copy_other_data`, the destination has rows that the source does not have.
        StoreCorruptError: `copy_unfit`, a row cannot be stored there; `copy_differs`, what was
            written is not what was read.

    """
    plan = plan_copy(source, destination)
    texts = sum(one.rows for one in plan.tables if one.table == memories.name)
    run = _Copy(source, destination, _Way(plan.rows, texts, on_progress))
    run.add_spaces()
    tallies: dict[tuple[str, str], CopyCounts] = {}
    for owner in source.tenants():
        with source.snapshot(owner) as here:
            tallies |= {(owner, name): tally for name, tally in run.copy(here).items()}
    destination.rebuild_text(run.way.report_text)
    run.way.done += texts
    run.verify(tallies)
    known = {(one.tenant, one.table): one.there for one in plan.tables}
    copied = (
        CopiedTable(tenant=owner, table=name, rows=tally.rows, there=known.get((owner, name), 0))
        for (owner, name), tally in tallies.items()
    )
    done = (
        replace(one, digest=tallies[one.tenant, one.table].digest) for one in copied if one.rows
    )
    return replace(plan, tables=tuple(done))


@dataclass(frozen=True, slots=True)
class _Copy:
    source: Store
    destination: Store
    way: _Way

    def add_spaces(self) -> None:
        """Add the embedding spaces that the destination lacks."""
        with self.source.snapshot(LOCAL_TENANT) as here:
            known = known_spaces(here.work.connection)
        with self.destination.begin(LOCAL_TENANT) as there:
            connection = there.work.connection
            has = {*connection.execute(select(spaces.c.name)).scalars()}
            for one in known:
                if one.name not in has:
                    # The destination was created with the serving space.
                    is_other = one.state is SpaceState.CURRENT
                    state = SpaceState.RETIRED if is_other else one.state
                    row = {"name": one.name, "dimensions": one.dimensions, "state": state}
                    connection.execute(insert(spaces).values(row))

    def copy(self, here: Transaction) -> dict[str, CopyCounts]:
        """Copy a tenant; return the tallies of its tables."""
        tallies = {tenants.name: self._copy_tenant(here)}
        for table in TABLES:
            tallies[table.name] = self._copy_table(here, table)
        return tallies

    def verify(self, tallies: dict[tuple[str, str], CopyCounts]) -> None:
        """Read everything in the destination again.

        Raises:
            StoreCorruptError: it differs from the source.

        """
        named = {table.name: table for table in TABLES}
        for (owner, name), read in tallies.items():
            with self.destination.snapshot(owner) as there:
                has = CopyCounts()
                if name == tenants.name:
                    has.add(_tenant(there) or {})
                    self.way.go(1)
                for page in Rows.of(there, named[name]).pages() if name in named else ():
                    for row in page:
                        has.add(row)
                    self.way.go(len(page))
            if has != read:
                raise StoreCorruptError(
                    f"{self.destination.location} has {has.rows} rows of {name} of tenant {owner} "
                    f"with digest {has.digest[:16]}, the source {read.rows} with "
                    f"{read.digest[:16]}.",
                    code="copy_differs",
                    hint="The destination was changed meanwhile, or lost rows. Do not use it. "
                    "Close it in all programs and run the copy again: it adds missing rows and "
                    "rejects different ones.",
                )

    def _copy_tenant(self, here: Transaction) -> CopyCounts:
        """Write the tenant's row, with the key that its audit digests use."""
        tally = CopyCounts()
        own = _tenant(here)
        assert own is not None  # noqa: S101 its name came from this table
        tally.add(own)
        self.way.go(1)
        with self.destination.begin(here.work.tenant) as there:
            known = _tenant(there)
            if known is None:
                there.work.connection.execute(insert(tenants).values(own))
            elif known != own:
                if not _is_new(there):
                    _refuse(self.destination, f"another tenant {here.work.tenant}")
                is_own = tenants.c.id == here.work.tenant
                there.work.connection.execute(update(tenants).where(is_own).values(own))
        return tally

    def _copy_table(self, here: Transaction, table: Table) -> CopyCounts:
        tally = CopyCounts()
        owner = here.work.tenant
        rows = Rows.of(here, table)
        with self.destination.snapshot(owner) as there:
            target = Rows.of(there, table)
            number, has = target.last_number(), target.count()
        # The existing rows are the source's own, so equal counts mean equal rows.
        is_whole = has == rows.count()
        for page in rows.pages():
            for row in page:
                tally.add(row)
            if not is_whole:
                with self.destination.begin(owner) as there:
                    number = Rows.of(there, table).put(page, number=number)
            self.way.go(len(page))
        if table is memories:
            self._tie(rows)
        return tally

    def _tie(self, rows: Rows) -> None:
        for page in rows.pages(_IS_TIED):
            with self.destination.begin(rows.tx.work.tenant) as there:
                Rows.of(there, memories).tie(page)
            self.way.go(0)


def _plan_tenant(source: Store, destination: Store | None, *, owner: str) -> Iterator[CopiedTable]:
    with source.snapshot(owner) as here:
        rows = {table: Rows.of(here, table).count() for table in TABLES}
        existing = dict.fromkeys(TABLES, 0)
        own = CopiedTable(tenant=owner, table=tenants.name, rows=1, there=0)
        if destination is not None:
            with destination.snapshot(owner) as there:
                existing = {table: Rows.of(there, table).count() for table in TABLES}
                _compare(here, there, destination=destination)
                own = replace(own, there=int(_tenant(there) == _tenant(here)))
        yield own
        for table in TABLES:
            if rows[table]:
                yield CopiedTable(
                    tenant=owner, table=table.name, rows=rows[table], there=existing[table]
                )


def _compare(here: Transaction, there: Transaction, *, destination: Store) -> None:
    """Check that the destination has only what an interrupted copy left, or nothing.

    Raises:
        RejectedError: another tenant has the same name, or has rows that the source does not have.

    """
    if _tenant(there) != _tenant(here) and not _is_new(there):
        _refuse(destination, f"another tenant {here.work.tenant}")
    for table in TABLES:
        theirs, ours = Rows.of(there, table), Rows.of(here, table)
        for page in theirs.pages():
            known = ours.at([theirs.key_of(row) for row in page])
            foreign = sum(not _is_of(row, known.get(theirs.key_of(row))) for row in page)
            if foreign:
                what = f"{foreign} rows of {table.name} of tenant {here.work.tenant}"
                _refuse(destination, f"{what} (or more) that the source has not, or otherwise")


def _is_of(row: Row, own: Row | None) -> bool:
    """Return whether a row is the source's own, or a memory without its references yet."""
    if own is None:
        return False
    row, own = comparable(row), comparable(own)
    return row == own or ("superseded_by" in own and row == loose(own))


def _tenant(tx: Transaction) -> Row | None:
    own = select(tenants).where(tenants.c.id == tx.work.tenant)
    row: Any = tx.work.connection.execute(own).mappings().first()
    return None if row is None else dict(row)


def _is_new(tx: Transaction) -> bool:
    """Return whether a tenant is as opening the store created it."""
    own = _tenant(tx)
    if own is not None and (own["policy"] or own["suspended_at"]):
        return False
    return not any(Rows.of(tx, table).count() for table in TABLES)


def _refuse(destination: Store, what: str) -> NoReturn:
    raise RejectedError(
        f"{destination.location} holds other data: {what}.", code="copy_other_data", hint=_EMPTY
    )
