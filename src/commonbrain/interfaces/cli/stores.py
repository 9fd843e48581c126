"""`brain store`: what the owner of a store on a server does to it."""

from typing import Annotated

import typer
from pydantic import TypeAdapter

from commonbrain.interfaces.cli.drawing import Json
from commonbrain.interfaces.cli.state import State
from commonbrain.ports.keeping import Upgraded

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Look after a store on a Postgres server."
)


@app.callback()
def _before() -> None:
    """Make it a group, though it has but one command."""


@app.command()
def upgrade(
    context: typer.Context,
    *,
    grant: Annotated[
        str | None, typer.Option(metavar="ROLE", help="Who may open the store from now on.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Bring a store in Postgres to this version, as its owner; others may go on working."""
    # The adapters are what takes long to load; help and completion do without.
    from commonbrain.wiring import upgrade_store  # noqa: PLC0415

    state: State = context.obj
    done = upgrade_store(state.store, role=grant)
    if as_json:
        typer.echo(TypeAdapter(Upgraded).dump_json(done).decode())
        return
    typer.echo(f"{done.store} has schema version {done.schema_version}.")
    roles = ", ".join(done.roles)
    typer.echo(
        f"It may be opened by {roles}." if roles else "Nobody may open it: use --grant ROLE."
    )
