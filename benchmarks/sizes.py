"""`python -m benchmarks sizes`: what a memory takes, table by table, in a file and in Postgres."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import psycopg
import typer
from commonbrain_server.dev_servers import login, postgres_server
from commonbrain_server.stores import copy_store, upgrade_store

import commonbrain
from benchmarks.corpus import questions
from benchmarks.large_stores import Filling

app = typer.Typer()
_SHOWN: Final = 12
_ASKED: Final = 300
_PROGRAM: Final = "sizes_program"
_PAGES: Final = "SELECT name, sum(pgsize) FROM dbstat GROUP BY 1 ORDER BY 2 DESC"
# Partitions count for what they are parts of; tables and indexes stand apart.
_RELATIONS: Final = """
SELECT CASE WHEN c.relkind = 'i' THEN 'index ' ELSE '' END
    || regexp_replace(c.relname, '(vectors|field_vectors|memory_text|atom_text)_[0-9]+', '\\1'),
    sum(pg_table_size(c.oid))
FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'i')
GROUP BY 1 ORDER BY 2 DESC
"""


@app.command()
def sizes(
    memories: Annotated[
        int, typer.Argument(help="The number of memories to store first.")
    ] = 20_000,
    *,
    folder: Annotated[
        Path | None, typer.Option(help="Measure this store of `load fill` instead.")
    ] = None,
) -> None:
    """Print the bytes of a memory by table, in a file and in Postgres."""
    if folder is not None:
        with postgres_server(folder / "postgres") as url:
            _print_postgres(url)
        return
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "brain.db"
        with commonbrain.open(file) as brain:
            Filling.of(brain)(0, until=memories)
            for question in questions(_ASKED, of=memories):
                brain.recall(question)
        # Python's own SQLite lists the pages of each table; the one that stores are opened with
        # was built without that.
        with closing(sqlite3.connect(file)) as opened:
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            pages = dict(opened.execute(_PAGES).fetchall())
        _print("a file", pages, memories=memories)
        traces = sum(size for name, size in pages.items() if "recall_traces" in name)
        print(f"  a recall left {traces / _ASKED:,.0f} bytes of trace, which is among the others")
        with postgres_server() as url:
            program = login(url, _PROGRAM)
            upgrade_store(url, role=_PROGRAM)
            copy_store(file, program)
            _print_postgres(url)


def _print_postgres(url: str) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as opened:
        opened.execute("VACUUM ANALYZE")
        [(memories,)] = opened.execute("SELECT count(*) FROM memories").fetchall()
        rows = opened.execute(_RELATIONS).fetchall()
        log = opened.execute("SELECT sum(size) FROM pg_ls_waldir()").fetchone() or (0,)
    _print("Postgres", {name: int(size) for name, size in rows}, memories=memories)
    print(f"  and its log of what was written: {int(log[0]) / 1e6:,.0f} MB")


def _print(where: str, held: Mapping[str, int], *, memories: int) -> None:
    total = sum(held.values())
    each = f"{total / memories:,.0f} bytes each"
    print(f"\n{where}: {memories:,} memories, {total / 1e6:,.1f} MB, {each}")
    shown = list(held.items())
    rest = sum(size for _, size in shown[_SHOWN:])
    for name, size in (*shown[:_SHOWN], ("all others", rest)):
        print(f"  {name:<40} {size / memories:8,.0f} bytes  {size / total:5.1%}")
