"""Every operation as a command: under its own name, or in a group of commands about one thing.

A command whose name has two words, `skill list`, stands in the group of the first. An operation
whose name is that of a group has no command but those in it.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from commonbrain.api.operations import Operation, Transport
from commonbrain.cli.commands import build_command

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


class MainGroup(TyperGroup):
    """The commands of `brain`, and those that other packages add under `commonbrain.cli`.

    A package's commands are loaded when they are asked for: evaluations take half a second.
    """

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 Typer ships its own Click
        """List every command, those of other packages last."""
        return [*super().list_commands(ctx), "eval"]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Find a command; where its package is not installed, say which one to install."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name != "eval":
            return own
        points = entry_points(group="commonbrain.cli", name=cmd_name)
        for point in points:
            return get_command(point.load())
        return get_command(_MISSING)


_MISSING: Final = typer.Typer()


@_MISSING.command(help="Measure this memory; install 'commonbrain[eval]' first.")
def _missing() -> None:
    raise typer.BadParameter("Evaluations are not installed: pip install 'commonbrain[eval]'")


def add_operations(app: typer.Typer, operations: Iterable[Operation[Any, Any]]) -> None:
    """Add the commands of every operation that has this door."""
    groups = {name: typer.Typer(no_args_is_help=True, help=help_) for name, help_ in GROUPS.items()}
    for operation in operations:
        if Transport.CLI not in operation.transports:
            continue
        if operation.has_own_command and operation.name not in groups:
            app.command(operation.name)(build_command(operation))
        for subcommand in operation.commands:
            group, _, command_name = subcommand.name.rpartition(" ")
            target = groups[group] if group else app
            target.command(command_name)(build_command(operation, subcommand))
    for name, group in groups.items():
        app.add_typer(group, name=name)
