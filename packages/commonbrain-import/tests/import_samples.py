"""Sources of other systems, as their own programs made them."""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Content, ImportItem, OmittedContent
from commonbrain.transfer.importers import InstalledImporters

SAMPLES = Path(__file__).parent / "samples"
IMPORTERS = InstalledImporters()
Part = TypeVar("Part", bound=Content)


def load(dump: Path, database: Path) -> Path:
    """Make a SQLite database of a dump."""
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(dump.read_text("utf-8"))
        connection.commit()
    return database


def read(format_: str, source: Path | str) -> list[ImportItem]:
    return list(IMPORTERS[format_].read(Path(source)))


def only(sort: type[Part], pieces: Iterable[ImportItem]) -> list[Part]:
    return [one.content for one in pieces if isinstance(one.content, sort)]


def by_ref(pieces: Iterable[ImportItem]) -> dict[str, Draft]:
    """Return the drafts by what their references end with; the rest names the system."""
    drafts = only(Draft, pieces)
    return {(one.source_ref or "").partition("#")[2]: one for one in drafts}


def by_body(pieces: Iterable[ImportItem]) -> dict[str, Draft]:
    return {one.body: one for one in only(Draft, pieces)}


def kinds(pieces: Iterable[ImportItem]) -> Counter[str]:
    return Counter(str(one.kind) for one in only(Draft, pieces))


def omitted(pieces: Iterable[ImportItem]) -> dict[str, int]:
    counts = Counter[str]()
    for one in only(OmittedContent, pieces):
        counts[one.what] += one.count
    return dict(counts)
