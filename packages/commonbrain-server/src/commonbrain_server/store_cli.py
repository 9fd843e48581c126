"""`brain store`: upgrade a store in Postgres, distribute or copy one."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

import typer

from commonbrain.cli.commands import Json
from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.groups import CommandGroup
from commonbrain.cli.terminal import print_line, print_table, print_value, progress_bar

if TYPE_CHECKING:
    from commonbrain_server.copying import StoreCopy
    from commonbrain_server.postgres.opening import DistributeResult

store_app: Final = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Upgrade a store on Postgres, distribute or copy one.",
)


@store_app.command()
def upgrade(
    context: typer.Context,
    *,
    grant: Annotated[
        str | None, typer.Option(metavar="ROLE", help="Who may open the store from now on.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Upgrade a store in Postgres to this version, as its owner; others can keep working."""
    # Engines take long to load; help and completion do without.
    from commonbrain_server.stores import upgrade_store  # noqa: PLC0415

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


@store_app.command()
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
    from commonbrain_server.stores import distribute_store, preview_distribute  # noqa: PLC0415

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


def _render_sql(plan: "DistributeResult") -> Iterator[str]:
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


@store_app.command()
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
    from commonbrain_server.stores import copy_store, preview_copy  # noqa: PLC0415

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


def _count_rows(done: "StoreCopy") -> Iterator[tuple[str, ...]]:
    """Yield the number of rows by tenant and table; a tenant is named once."""
    for tenant, tables in groupby(done.tables, key=lambda table: table.tenant):
        for number, table in enumerate(tables):
            yield "" if number else tenant, table.table, f"{table.rows:,}", f"{table.there:,}"
