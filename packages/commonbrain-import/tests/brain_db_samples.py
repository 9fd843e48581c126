"""Databases with the tables of brain-db, whose ids may have another form."""

import re
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from import_samples import SAMPLES

_LATER = """
CREATE TABLE atom_links (
    id TEXT PRIMARY KEY, from_atom_id TEXT, to_atom_id TEXT, link_type TEXT, strength REAL,
    observation_count INTEGER, last_observed TEXT, created_at TEXT
);
CREATE TABLE session_states (id TEXT PRIMARY KEY, start_time TEXT NOT NULL);
ALTER TABLE stm ADD COLUMN confidence REAL;
ALTER TABLE stm ADD COLUMN last_accessed TEXT;
"""


@contextmanager
def make_brain_db(database: Path, *, has_integers: bool) -> Generator[sqlite3.Connection]:
    """Make an empty brain.db, with ids of text or integers, and commit what is written to it."""
    schema = (SAMPLES / "brain-db" / "brain.sql").read_text("utf-8")
    tables = "\n".join(re.findall(r"CREATE TABLE .*?\n\s*\);", schema, re.DOTALL)) + _LATER
    if has_integers:
        tables = re.sub(r"\b((?:\w+_)?id) TEXT", r"\1 INTEGER", tables)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(tables)
        yield connection


def insert(connection: sqlite3.Connection, table: str, **values: object) -> None:
    marks = ", ".join("?" * len(values))
    statement = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"  # noqa: S608 ours
    connection.execute(statement, tuple(values.values()))
