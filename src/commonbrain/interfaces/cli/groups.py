"""Every operation as a command: under its own name, or in a group of commands about one thing.

A command whose name has two words, `skill list`, stands in the group of the first. An operation
whose name is that of a group has no command but those in it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import typer

from commonbrain.interfaces.cli.drawing import draw
from commonbrain.interfaces.operations import Door, Operation

GROUPS: Final[Mapping[str, str]] = {
    "session": "Sessions: who is at work on what, what was noted, and what is handed over.",
    "message": "Messages: what agents write to each other, and what they ask each other to do.",
    "task": "Tasks: what is to be done, who does it, and what must be answered first.",
    "trace": "Traces: why something came about, what came of it, and what it rests on.",
    "job": "Jobs: what workers do behind the calls, and what became of it.",
    "model": "Models: what was learnt from use, what of it serves whom, and how that goes.",
    "skill": "Skills: rules that come up by themselves where their keywords are named.",
    "tenant": "Tenants of a shared store: who is kept apart from whom, and what each may use.",
    "agent": "Agents of a tenant: who may call a shared server, and with what authority.",
    "key": "API keys: what agents call a shared server with.",
}
"""What each group is about."""


def add_operations(app: typer.Typer, operations: Iterable[Operation[Any, Any]]) -> None:
    """Add the commands of every operation that has this door."""
    groups = {name: typer.Typer(no_args_is_help=True, help=help_) for name, help_ in GROUPS.items()}
    for operation in operations:
        if Door.CLI not in operation.doors:
            continue
        if operation.has_own_command and operation.name not in groups:
            app.command(operation.name)(draw(operation))
        for special in operation.commands:
            group, _, own = special.name.rpartition(" ")
            place = groups[group] if group else app
            place.command(own)(draw(operation, special))
    for name, group in groups.items():
        app.add_typer(group, name=name)
