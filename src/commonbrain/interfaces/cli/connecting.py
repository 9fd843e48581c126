"""`brain connect`: tell a client how to start the memory; every change is shown first."""

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from commonbrain.interfaces.cli.render import Inert
from commonbrain.interfaces.cli.state import State
from commonbrain.interfaces.clients import (
    Change,
    Entry,
    apply,
    brain_command,
    connect,
    diff,
    disconnect,
)


def plan(state: State, client: str, *, scope: str, force: bool, remove: bool) -> Change:
    """Compute the change to a client's file; it starts the store and agent that this call names."""
    if remove:
        return disconnect(client, scope=scope)
    command, *arguments = brain_command()
    if state.store is not None:
        arguments += ["--store", str(state.store.expanduser().absolute())]
    if state.agent is not None:
        arguments += ["--agent", state.agent]
    entry = Entry(command=command, args=(*arguments, "mcp"))
    return connect(client, entry, scope=scope, force=force)


def show(client: str, change: Change, *, is_rehearsal: bool) -> None:
    """Print a change and make it, unless it is only to be seen."""
    console = Console()
    if not change.is_needed:
        console.print(Inert(Text(f"{client}: nothing to change in {change.path}.")))
        return
    shown = Syntax(diff(change), "diff", background_color="default", word_wrap=True)
    console.print(Inert(shown))
    if is_rehearsal:
        console.print(Text("Nothing was written. Run it again without --dry-run."))
        return
    apply(change)
    kept = "" if change.is_new else f" What was there before is in {change.backup}."
    console.print(Inert(Text(f"Wrote {change.path}.{kept} Start {client} anew to use it.")))
