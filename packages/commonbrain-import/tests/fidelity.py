"""Whether an import keeps what its source has: each column is in the store or in the report.

A test fills each column of a sample with a value of its own, imports it, and says of each column
what became of it. A column that a later version of the source adds has no fate, and fails the test.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from commonbrain.client import Brain
from commonbrain.transfer.imports import ImportReport


@dataclass(frozen=True, slots=True)
class CarriedOver:
    """The column's value came over: what the sample has there, and what the store has."""

    given: object
    stored: object


@dataclass(frozen=True, slots=True)
class Left:
    """The column is counted in the report, in a line of this name."""

    line: str


@dataclass(frozen=True, slots=True)
class Used:
    """The column says which rows are read or how, such as the tenant; nothing of it is stored."""

    how: str


Fate = CarriedOver | Left | Used


def check_fidelity(
    columns: Iterable[str], *, fates: Mapping[str, Fate], report: ImportReport
) -> None:
    """Check that each column, named `table.column`, has a fate, and that it is true."""
    assert set(columns) == set(fates), "each column of the source needs a fate"
    wrong = {name: fate for name, fate in fates.items() if not _holds(fate, report)}
    assert wrong == {}


def _holds(fate: Fate, report: ImportReport) -> bool:
    match fate:
        case CarriedOver(given=given, stored=stored):
            return given is not None and given != "" and given == stored
        case Left(line=line):
            return report.omitted.get(line, 0) > 0
        case Used(how=how):
            return bool(how)


def sqlite_columns(database: Path) -> set[str]:
    """Return the columns of all tables of a SQLite database."""
    with closing(sqlite3.connect(database)) as connection:
        names = connection.execute(
            "SELECT m.name || '.' || p.name FROM sqlite_master AS m, pragma_table_info(m.name) AS p"
            " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'"
        )
        return {name for (name,) in names}


def postgres_columns(url: str) -> set[str]:
    """Return the columns of all tables of a Postgres database that are not its own."""
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT table_name || '.' || column_name FROM information_schema.columns"
            " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
        )
        return {str(name) for (name,) in names}


class _InterruptedError(Exception):
    """The user ends an import."""


def begin_import(brain: Brain, format_: str, source: str | Path) -> int:
    """Import the first batch of a source, and return how many memories that stored."""

    def end(_: ImportReport) -> None:
        raise _InterruptedError

    with pytest.raises(_InterruptedError):
        brain.import_(format_, source, on_progress=end)
    return brain.status().memories


def import_interrupted(brain: Brain, format_: str, source: str | Path) -> ImportReport:
    """Import a source of more than one batch: ended after the first, continued, and repeated.

    Returns:
        The report of the continued import.

    """
    begun = begin_import(brain, format_, source)
    assert begun > 0
    continued = brain.import_(format_, source)
    assert continued.exists >= begun
    whole = brain.status().memories
    assert whole > begun, "the sample has one batch alone"
    repeated = brain.import_(format_, source)
    assert (repeated.stored, repeated.rejected) == (0, continued.rejected)
    assert brain.status().memories == whole
    return continued


Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exported:
    """The records of a store, as its export has them."""

    records: Sequence[tuple[str, Record]]

    def of(self, sort: str) -> Iterator[Record]:
        return (record for name, record in self.records if name == sort)

    def memory(self, source_ref: str) -> Record:
        """Return the memory that came from a place of the source."""
        (only,) = [one for one in self.of("memory") if one.get("source_ref") == source_ref]
        return only

    def by(self, sort: str, source_ref: str, *, named: str = "memory_id") -> list[Record]:
        """Return the records of a sort that name a memory in a field."""
        id_ = self.memory(source_ref)["id"]
        return [one for one in self.of(sort) if one[named] == id_]


def exported(brain: Brain, file: Path) -> Exported:
    """Export a store, and read what was written."""
    brain.export(file)
    return read_export(file)


def read_export(file: Path) -> Exported:
    """Read what an export has written."""
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return Exported([(name, record) for line in lines for name, record in line.items()])
