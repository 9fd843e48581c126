"""`brain connect`: tell a client how to start the memory, showing every change before it is made."""

from typing import Annotated

import typer
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from commonbrain.interfaces.cli.state import State
from commonbrain.interfaces.clients import (
    CLIENTS,
    Change,
    Entry,
    apply,
    brain_command,
    connect,
    diff,
    disconnect,
)


def connect_client(
    context: typer.Context,
    *,
    client: Annotated[str, typer.Argument(help=f"One of {', '.join(CLIENTS)}.")],
    scope: Annotated[str, typer.Option(help="user: every project; project: this folder.")] = "user",
    force: Annotated[
        bool, typer.Option("--force", help="Replace an entry that starts something else.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the entry out again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change only.")] = False,
) -> None:
    """Add this memory to a client's servers; everything else in its file stays as it is."""
    if remove:
        change = disconnect(client, scope=scope)
    else:
        change = connect(client, _entry(context.obj), scope=scope, force=force)
    console = Console()
    if not change.is_needed:
        console.print(Text(f"{client}: nothing to change in {change.path}."))
        return
    console.print(Syntax(diff(change), "diff", background_color="default", word_wrap=True))
    if dry_run:
        console.print(Text("Nothing was written. Run it again without --dry-run."))
        return
    apply(change)
    console.print(Text(_next_step(client, change)))


def _entry(state: State) -> Entry:
    """Start the server with the store and agent of this call, where it names any."""
    command, *arguments = brain_command()
    if state.store is not None:
        arguments += ["--store", str(state.store.expanduser().absolute())]
    if state.agent is not None:
        arguments += ["--agent", state.agent]
    return Entry(command=command, args=(*arguments, "mcp"))


def _next_step(client: str, change: Change) -> str:
    kept = "" if change.is_new else f" What was there before is in {change.backup}."
    return f"Wrote {change.path}.{kept} Start {client} anew to use it."
