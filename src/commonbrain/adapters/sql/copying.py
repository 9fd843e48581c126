"""Copying a store into another, of the same engine or not: in pages, resumable, verified.

The source is only read, each tenant as of one moment. What the destination has already must be what
the source has; nothing there is ever overwritten.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from sqlalchemy import Table, insert, or_, select, update

from commonbrain.adapters.sql.copied_rows import TIES, Row, Rows, Tally, comparable, loose
from commonbrain.adapters.sql.metadata import METADATA
from commonbrain.adapters.sql.standing import known_spaces
from commonbrain.adapters.sql.store import SqlStore, SqlTransaction
from commonbrain.adapters.sql.tables import memories, spaces, tenants
from commonbrain.domain.errors import Corrupt, Refused
from commonbrain.domain.scope import LOCAL_TENANT
from commonbrain.domain.space import SpaceState
from commonbrain.ports.keeping import CopiedTable, Progress, StoreCopy, unwatched

TABLES: Final = tuple(one for one in METADATA.sorted_tables if one not in {tenants, spaces})
"""Every table of tenants' rows, those that others refer to first."""
_EMPTY: Final = (
    "Nothing was changed. Copy into a store that is new: a file that is not there yet, or a "
    "database after `brain store upgrade` that nobody has worked in. To go on with an interrupted "
    "copy, the source must be as it was: let nobody work in it meanwhile."
)
_IS_TIED: Final = or_(*(memories.c[name].is_not(None) for name in TIES))


@dataclass(slots=True)
class _Way:
    """How far a copy has come: every row is written and read again, every text indexed."""

    rows: int
    texts: int
    on_progress: Progress
    done: int = 0

    def go(self, rows: int) -> None:
        """Tell of rows that were written or verified."""
        self.done += rows
        self.tell(0.0)

    def tell(self, fraction: float) -> None:
        """Tell of the full text as well."""
        whole = 2 * self.rows + self.texts
        self.on_progress(min((self.done + fraction * self.texts) / max(whole, 1), 1.0))


def plan_copy(source: SqlStore, destination: SqlStore | None) -> StoreCopy:
    """Count what a copy brings and what is there already; change nothing.

    Args:
        source: what is copied.
        destination: where to; None where it is yet to be made.

    Raises:
        Refused: `copy_other_data`, the destination holds what the source does not.

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
    source: SqlStore, destination: SqlStore, *, on_progress: Progress = unwatched
) -> StoreCopy:
    """Copy every row of every tenant, write the full text anew, and verify all of it.

    An interrupted copy leaves whole pages, with which the next one goes on.

    Args:
        source: what is copied; only read.
        destination: where to, under the role of a program.
        on_progress: told how far it has come, 0..1, between transactions.

    Raises:
        Refused: `copy_other_data`, the destination holds what the source does not.
        Corrupt: `copy_unfit`, a row cannot be kept there; `copy_differs`, what was written is not
            what was read.

    """
    plan = plan_copy(source, destination)
    texts = sum(one.rows for one in plan.tables if one.table == memories.name)
    run = _Copy(source, destination, _Way(plan.rows, texts, on_progress))
    run.add_spaces()
    tallies: dict[tuple[str, str], Tally] = {}
    for owner in source.tenants():
        with source.snapshot(owner) as here:
            tallies |= {(owner, name): tally for name, tally in run.copy(here).items()}
    destination.rebuild_text(run.way.tell)
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
    source: SqlStore
    destination: SqlStore
    way: _Way

    def add_spaces(self) -> None:
        """Add the spaces that the destination lacks: vectors of several may be kept."""
        with self.source.snapshot(LOCAL_TENANT) as here:
            known = known_spaces(here.work.connection)
        with self.destination.begin(LOCAL_TENANT) as there:
            connection = there.work.connection
            has = {*connection.execute(select(spaces.c.name)).scalars()}
            for one in known:
                if one.name not in has:
                    # The destination was made with the space that serves there.
                    is_other = one.state is SpaceState.CURRENT
                    state = SpaceState.RETIRED if is_other else one.state
                    row = {"name": one.name, "dimensions": one.dimensions, "state": state}
                    connection.execute(insert(spaces).values(row))

    def copy(self, here: SqlTransaction) -> dict[str, Tally]:
        """Copy a tenant; give what was read of each of its tables."""
        tallies = {tenants.name: self._copy_tenant(here)}
        for table in TABLES:
            tallies[table.name] = self._copy_table(here, table)
        return tallies

    def verify(self, tallies: dict[tuple[str, str], Tally]) -> None:
        """Read the destination again, all of it.

        Raises:
            Corrupt: it has not what was read from the source.

        """
        named = {table.name: table for table in TABLES}
        for (owner, name), read in tallies.items():
            with self.destination.snapshot(owner) as there:
                has = Tally()
                if name == tenants.name:
                    has.add(_tenant(there) or {})
                    self.way.go(1)
                for page in Rows.of(there, named[name]).pages() if name in named else ():
                    for row in page:
                        has.add(row)
                    self.way.go(len(page))
            if has != read:
                raise Corrupt(
                    f"{self.destination.location} has {has.rows} rows of {name} of tenant {owner} "
                    f"with digest {has.digest[:16]}, the source {read.rows} with "
                    f"{read.digest[:16]}.",
                    code="copy_differs",
                    hint="Somebody worked in the destination, or it lost what it was given. Do not "
                    "use it. Run the copy again while nobody else has it open: it adds what is "
                    "missing, and refuses what is other than in the source.",
                )

    def _copy_tenant(self, here: SqlTransaction) -> Tally:
        """Write who a tenant is: its audit key above all, with which its audit was sealed."""
        tally = Tally()
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

    def _copy_table(self, here: SqlTransaction, table: Table) -> Tally:
        tally = Tally()
        owner = here.work.tenant
        rows = Rows.of(here, table)
        with self.destination.snapshot(owner) as there:
            target = Rows.of(there, table)
            number, has = target.last_number(), target.count()
        # What is there is the source's own, so that as many rows are all of them.
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


def _plan_tenant(
    source: SqlStore, destination: SqlStore | None, *, owner: str
) -> Iterator[CopiedTable]:
    with source.snapshot(owner) as here:
        counts = {table: Rows.of(here, table).count() for table in TABLES}
        found = dict.fromkeys(TABLES, 0)
        own = CopiedTable(tenant=owner, table=tenants.name, rows=1, there=0)
        if destination is not None:
            with destination.snapshot(owner) as there:
                found = {table: Rows.of(there, table).count() for table in TABLES}
                _compare(here, there, destination=destination)
                own = replace(own, there=int(_tenant(there) == _tenant(here)))
        yield own
        for table in TABLES:
            if counts[table]:
                yield CopiedTable(
                    tenant=owner, table=table.name, rows=counts[table], there=found[table]
                )


def _compare(here: SqlTransaction, there: SqlTransaction, *, destination: SqlStore) -> None:
    """Let pass what an interrupted copy left, or nothing.

    Raises:
        Refused: the tenant is another one of the same name, or has rows that the source has not.

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
    """Say whether a row is the source's own, or a memory of its that is yet to be tied."""
    if own is None:
        return False
    row, own = comparable(row), comparable(own)
    return row == own or ("superseded_by" in own and row == loose(own))


def _tenant(tx: SqlTransaction) -> Row | None:
    own = select(tenants).where(tenants.c.id == tx.work.tenant)
    row: Any = tx.work.connection.execute(own).mappings().first()
    return None if row is None else dict(row)


def _is_new(tx: SqlTransaction) -> bool:
    """Say whether a tenant is as opening or making it left it."""
    own = _tenant(tx)
    if own is not None and (own["policy"] or own["suspended_at"]):
        return False
    return not any(Rows.of(tx, table).count() for table in TABLES)


def _refuse(destination: SqlStore, what: str) -> NoReturn:
    raise Refused(
        f"{destination.location} holds other data: {what}.", code="copy_other_data", hint=_EMPTY
    )
