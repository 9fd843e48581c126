"""A hundred ways to damage the file of a store, each the same in every run."""

# ruff: noqa: S311, S608 nothing here is secret, and the statements are constants

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from commonbrain.storage.sqlite.driver import driver

PAGE = 4096
SEED = 27
INDEXES = 5
TABLES = ("memories", "facts", "rules", "tenants", "spaces", "changes", "vectors", "entities")
Damage = Callable[[Path], None]
Named = Iterator[tuple[str, Damage]]

SCHEMA = (
    "sql = CAST(x'ff435245415445fe' AS TEXT) WHERE name = 'memories'",
    "sql = CAST(replace(CAST(sql AS BLOB), x'626f6479', x'ff') AS TEXT) WHERE name = 'facts'",
    "name = CAST(x'ff41fe' AS TEXT), tbl_name = CAST(x'ff41fe' AS TEXT) WHERE name = 'facts'",
    "sql = substr(sql, 1, 40) WHERE name = 'facts'",
    "type = 'tale' WHERE name = 'memories'",
    "rootpage = 99999 WHERE name = 'memories'",
    "rootpage = 1 WHERE name = 'facts'",
    "rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'facts') WHERE name = 'memories'",
)
VALUES = (
    ("tenants", "policy", "'{\"audit_reads\": tr'"),
    ("rules", "skill", "'{bad'"),
    ("changes", "before", "'[1, 2'"),
    ("memories", "kind", "'fakt'"),
    ("memories", "state", "'aktive'"),
    ("memories", "scope", "'taem'"),
    ("memories", "recorded_at", "'noon'"),
    ("memories", "recorded_at", "9e17"),
)
TEXTS = (
    ("memories", "headline"),
    ("memories", "state"),
    ("memories", "kind"),
    ("memories", "scope"),
    ("facts", "body"),
    ("rules", "skill"),
    ("tenants", "policy"),
    ("tenants", "id"),
    ("spaces", "name"),
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the file of a store has what."""

    pages: int
    roots: dict[str, int]
    """The first page of tables and indexes, by name, from 1."""

    @property
    def indexes(self) -> list[str]:
        return sorted(name for name in self.roots if name.startswith(("ix_", "sqlite_auto")))


def layout(path: Path) -> Layout:
    with closing(driver().connect(str(path))) as raw:
        (pages,) = raw.execute("PRAGMA page_count").fetchone()
        roots = dict(raw.execute("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0"))
    return Layout(pages=pages, roots=roots)


def damages(of: Layout) -> dict[str, dict[str, Damage]]:
    """Return every damage by its part of the file and its name."""
    return {
        "header": dict(_header()),
        "tables": dict(_pages(of, TABLES)),
        "indexes": dict(_pages(of, Random(SEED).sample(of.indexes, INDEXES))),
        "cuts": dict(_cuts(of)),
        "schema": dict(_schema()),
        "values": dict(_values()),
    }


def _header() -> Named:
    for at in (0, 15, 16, 18, 19, 20, 24, 28, 40, 44, 47, 52, 56, 59, 64, 92, 96):
        yield f"header at {at}", flipped(at, 2)


def _schema() -> Named:
    draw = Random(SEED)
    for at in (100, 103, 105, 107, *(draw.randrange(108, PAGE - 16) for _ in range(8))):
        yield f"schema page at {at}", flipped(at, 8)
    for number, change in enumerate(SCHEMA):
        yield f"schema row {number}", changed(f"UPDATE sqlite_schema SET {change}")


def _pages(of: Layout, names: Sequence[str]) -> Named:
    draw = Random(SEED)
    for name in names:
        page = (of.roots[name] - 1) * PAGE
        for at, length in ((0, 1), (5, 3), (draw.randrange(16, PAGE - 64), 48)):
            yield f"{name} at {at}", flipped(page + at, length)


def _cuts(of: Layout) -> Named:
    for share in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99):
        end = round(of.pages * share) * PAGE
        yield f"cut at the end of page {end // PAGE}", cut(end)
        yield f"cut in page {end // PAGE + 1}", cut(end + 1234)
    yield "cut to a stump", cut(50)
    yield "cut to nothing", emptied


def _values() -> Named:
    for table, column, value in VALUES:
        yield f"{table}.{column} is {value}", changed(f"UPDATE {table} SET {column} = {value}")
    for table, column in TEXTS:
        text = f"UPDATE {table} SET {column} = CAST(x'41ff42' AS TEXT)"
        yield f"{table}.{column} is not UTF-8", changed(text)


def wal_damages() -> Named:
    """Yield damages of a store whose newest changes are in its -wal file."""
    for at in (0, 4, 8, 16, 24, 40, 32 + 24 + 100, 32 + 5 * (24 + PAGE)):
        yield f"wal at {at}", of_wal(flipped(at, 4))
    for at in (0, 20, 32, 32 + 24 + PAGE, 40_000):
        yield f"wal cut at {at}", of_wal(cut(at))
    yield "empty with a wal", emptied


def flipped(at: int, length: int) -> Damage:
    """Invert every bit of some bytes."""

    def damage(path: Path) -> None:
        whole = bytearray(path.read_bytes())
        whole[at : at + length] = bytes(byte ^ 0xFF for byte in whole[at : at + length])
        path.write_bytes(whole)

    return damage


def cut(at: int) -> Damage:
    """Cut the file at a place."""

    def damage(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:at])

    return damage


def emptied(path: Path) -> None:
    """Empty the file, long ago: one that was emptied just now may be about to be filled."""
    path.write_bytes(b"")
    os.utime(path, (0, 0))


def changed(statement: str) -> Damage:
    """Write what no program of this project writes."""

    def damage(path: Path) -> None:
        with closing(driver().connect(str(path), isolation_level=None)) as raw:
            raw.execute("PRAGMA ignore_check_constraints = ON")
            raw.execute("PRAGMA writable_schema = ON")
            raw.execute(statement)

    return damage


def of_wal(damage: Damage) -> Damage:
    """Damage the -wal file instead."""
    return lambda path: damage(path.with_name(f"{path.name}-wal"))
