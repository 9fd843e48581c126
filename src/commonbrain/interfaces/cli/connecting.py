"""`brain connect`: tell a client how to start the memory; every change is shown first."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from commonbrain.domain.errors import Invalid
from commonbrain.domain.locations import is_url
from commonbrain.interfaces.cli.render import Inert
from commonbrain.interfaces.cli.state import State
from commonbrain.interfaces.clients import (
    Change,
    Entry,
    HookCommand,
    apply,
    brain_command,
    connect,
    diff,
    disconnect,
    with_hooks,
    without_hooks,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be done with a client."""

    client: str
    scope: str
    force: bool
    remove: bool
    hooks: bool


def plan(state: State, wish: Wish) -> list[Change]:
    """Compute the changes to a client's files; it starts the store and agent that this call names.

    Raises:
        Invalid: there is no such client or scope, or a file is not valid; all are left alone.
        Refused: an entry of the same name starts something else.
        Unavailable: a file cannot be read.

    """
    if wish.remove:
        change = disconnect(wish.client, scope=wish.scope)
        return without_hooks(change, wish.client, scope=wish.scope)
    command, *arguments = brain_command()
    options: list[str] = []
    if is_url(state.store):
        raise Invalid(
            "A store's URL is not written into a client's file: it may hold a password.",
            hint="Give the client COMMONBRAIN_STORE in its environment, and connect without it.",
        )
    if state.store is not None:
        options += ["--store", str(Path(state.store).expanduser().absolute())]
    if state.agent is not None:
        options += ["--agent", state.agent]
    entry = Entry(command=command, args=(*arguments, *options, "mcp"))
    change = connect(wish.client, entry, scope=wish.scope, force=wish.force)
    if not wish.hooks:
        return [change]
    started = HookCommand(brain=(command, *arguments), options=options)
    return with_hooks(change, wish.client, scope=wish.scope, command=started)


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
