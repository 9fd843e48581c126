"""Stores as files: `brain backup`, `restore` and `export`, and the group `brain store`."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from commonbrain.cli.commands import Json
from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.groups import CommandGroup
from commonbrain.cli.terminal import (
    Sanitized,
    check_may_ask,
    make_table,
    print_line,
    print_table,
    print_value,
    progress_bar,
)
from commonbrain.model.escaping import pluralize
from commonbrain.model.timestamps import show_instant
from commonbrain.storage.interface import (
    Backup,
    DistributeResult,
    Holdings,
    Replacement,
    StoreCopy,
)

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Upgrade a store on Postgres, distribute or copy one.",
)


@app.command()
def upgrade(
    context: typer.Context,
    *,
    grant: Annotated[
        str | None, typer.Option(metavar="ROLE", help="Who may open the store from now on.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Upgrade a store in Postgres to this version, as its owner; others can keep working."""
    # The adapters take long to load; help and completion do without.
    from commonbrain.runtime.stores import upgrade_store  # noqa: PLC0415

    state: GlobalOptions = context.obj
    done = upgrade_store(state.store, role=grant)
    if as_json:
        print_value(done)
        return
    typer.echo(f"{done.store} has schema version {done.schema_version}.")
    roles = ", ".join(done.roles)
    typer.echo(
        f"It may be opened by {roles}." if roles else "No role may open it: use --grant ROLE."
    )


@app.command()
def distribute(
    context: typer.Context,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the statements and change nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Distribute a store in Postgres by tenant over the machines of Citus.

    Stop all other processes first.

    Run it as the owner; a second run continues an interrupted one. --dry-run prints a script for
    psql.
    """
    from commonbrain.runtime.stores import distribute_store, preview_distribute  # noqa: PLC0415

    state: GlobalOptions = context.obj
    done = preview_distribute(state.store) if dry_run else distribute_store(state.store)
    if as_json:
        print_value(done)
    elif dry_run:
        typer.echo("\n".join(_render_sql(done)))
    else:
        count = len(done.flat) + len(done.spread)
        typer.echo(
            f"{done.store} was distributed already; the functions were distributed again."
            if done.was_complete
            else f"{done.store} is distributed by tenant; {count} statements were run."
        )


def _render_sql(plan: DistributeResult) -> Iterator[str]:
    """Render statements in psql's syntax."""
    if plan.was_complete:
        yield "-- It is already distributed: this only installs the functions again."
        yield from (f"{one};" for one in plan.spread)
        return
    if plan.flat:
        yield "-- Plain Postgres: tables in partitions become plain ones, together or not at all."
        yield from ("BEGIN;", *(f"{one};" for one in plan.flat), "COMMIT;")
    yield "-- Citus: what a tenant has goes to one place."
    yield from (f"{one};" for one in plan.spread)
    yield "-- Then brain store upgrade builds the index by nearness where the vectors are."


@app.command()
def copy(
    *,
    source: Annotated[str, typer.Argument(metavar="FROM", help="A file, or a URL; only read.")],
    destination: Annotated[
        str, typer.Argument(metavar="TO", help="A new file, or the URL of an upgraded database.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only.")] = False,
    as_json: Json = False,
) -> None:
    """Copy all tenants of a store into a new one and verify it; a second run continues."""
    from commonbrain.runtime.stores import copy_store, preview_copy  # noqa: PLC0415

    if dry_run:
        done = preview_copy(source, destination)
    else:
        with progress_bar("copying", is_shown=not as_json) as move:
            done = copy_store(source, destination, on_progress=move)
    if as_json:
        print_value(done)
        return
    print_table(*("tenant", "table", "rows", "there before"), rows=_count_rows(done))
    there = f", of which {done.there:,} were there" if done.there else ""
    message = f"{done.rows:,} rows of {done.source} to {done.destination}{there}"
    if dry_run:
        message = f"Would copy {message}. Nothing was changed. Run it again without --dry-run."
    else:
        message = f"Copied {message}. Every table has the same count and digest in both."
    print_line(message)


def _count_rows(done: StoreCopy) -> Iterator[tuple[str, ...]]:
    """Yield the number of rows by tenant and table; a tenant is named once."""
    for tenant, tables in groupby(done.tables, key=lambda table: table.tenant):
        for number, table in enumerate(tables):
            yield "" if number else tenant, table.table, f"{table.rows:,}", f"{table.there:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOptions:
    """What to restore, and whether it is confirmed or only previewed."""

    file: Path
    digest: str | None
    is_confirmed: bool
    is_dry_run: bool


def run_backup(state: GlobalOptions, destination: Path, *, replace: bool, as_json: bool) -> None:
    """Write a backup and print its size, memories and digest."""
    with state.open() as brain, progress_bar("backing up", is_shown=not as_json) as move:
        done = brain.backup(destination, replace=replace, on_progress=move)
    if as_json:
        print_value(done)
    else:
        Console().print(Sanitized(_render_backup(done)))


def run_restore(state: GlobalOptions, options: BackupOptions, *, as_json: bool) -> None:
    """Show what would be replaced, ask for confirmation, and replace it.

    Raises:
        InvalidInputError: `--json` without `--yes`: a program cannot confirm.

    """
    # The adapters take long to load; help and completion do without.
    from commonbrain.runtime.callers import check_command_is_of_person  # noqa: PLC0415
    from commonbrain.runtime.stores import preview_restore, restore  # noqa: PLC0415

    check_may_ask(as_json=as_json, is_confirmed=options.is_confirmed, is_dry_run=options.is_dry_run)
    plan = preview_restore(options.file, state.store)
    if options.is_dry_run and as_json:
        print_value(plan)
        return
    if not as_json:
        Console().print(Sanitized(_render_replacement(plan)))
    if options.is_dry_run:
        typer.echo("Nothing was changed. Run it again without --dry-run.")
        return
    check_command_is_of_person("Replacing a store by a backup")
    if not options.is_confirmed:
        typer.confirm("Replace the store with the backup?", abort=True)
    with progress_bar("restoring", is_shown=not as_json) as move:
        done = restore(options.file, state.store, digest=options.digest, on_progress=move)
    if as_json:
        print_value(done)
    else:
        previous = f" The previous store is in {done.kept}." if done.kept else ""
        print_line(f"{done.store} holds {_memories(done.memories)}.{previous}")


def _render_backup(done: Backup) -> RenderableType:
    contents = (
        f"{_memories(done.memories)}, {done.size_bytes:,} bytes, schema {done.schema_version}"
    )
    return Group(
        Text(f"Wrote and verified {done.path}", overflow="fold"),
        Text(contents),
        Text(f"sha256 {done.digest}", style="dim"),
    )


def _render_replacement(plan: Replacement) -> RenderableType:
    table = make_table(
        *("", "memories", "newest", "file"),
        rows=(
            ("comes", *_holdings_row(plan.comes), Text(plan.file)),
            ("goes", *_holdings_row(plan.goes), Text(plan.store)),
        ),
    )
    unseals = "The store is sealed, and will be readable without a key." if plan.unseals else None
    trouble = [Text(one, style="yellow") for one in (plan.trouble, unseals) if one]
    return Group(table, *trouble)


def _memories(count: int) -> str:
    return pluralize(count, "memory", many="memories")


def _holdings_row(held: Holdings | None) -> tuple[str, str]:
    if held is None:
        return "none that can be read", ""
    return f"{held.memories:,}", show_instant(held.newest_at) if held.newest_at else ""


def run_export(state: GlobalOptions, target: Path, *, as_json: bool) -> None:
    """Export everything to a file and print a summary; progress goes to stderr."""
    from commonbrain.runtime.stores import is_sealed  # noqa: PLC0415 see `upgrade`

    with state.open() as brain, progress_bar("exporting", is_shown=not as_json) as move:
        exported = brain.export(target, on_progress=move)
    if as_json:
        print_value(exported)
    else:
        summary = f"{exported.memories:,} memories, {exported.records:,} records in all"
        print_line(f"{exported.path}: {summary}")
        if is_sealed(state.store):
            print_line("The store is sealed, this file is not: whoever reads it reads everything.")
