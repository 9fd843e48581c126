"""Every operation as a command: under its own name, or in a group of commands about one thing.

A command whose name has two words, `skill list`, stands in the group of the first. An operation
whose name is that of a group has no command but those in it.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group

from commonbrain.api.operations import Operation, Transport
from commonbrain.cli.commands import build_command
from commonbrain.cli.examples import EXAMPLES

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


FIRST_SCREEN: Final[Mapping[str, tuple[str, ...]]] = {
    "Everyday": ("remember", "recall", "get"),
    "Review and correct": ("review", "revise", "forget"),
    "Agents at work": ("boot", "session", "message"),
    "Serve and operate": ("connect", "serve"),
    "Evaluate": ("eval",),
}
"""The commands that `brain --help` explains; it only names the others."""


class CommandGroup(TyperGroup):
    """Commands whose help ends with an example."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 Typer ships its own Click
        """Find a command and give it its example."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            path = [*ctx.command_path.split()[1:], cmd_name]
            example = EXAMPLES.get(" ".join(path))
            command.epilog = f"Example: {example}" if example else command.epilog
        return command


class MainGroup(CommandGroup):
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
        app = next((point.load() for point in points), _MISSING)
        command = get_group(app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Explain the commands of the first screen by group, and name the others."""
        listed = [name for names in FIRST_SCREEN.values() for name in names]
        width = max(len(name) for name in listed)
        for title, names in FIRST_SCREEN.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (
                            name.ljust(width),
                            self.get_command(ctx, name).get_short_help_str(76 - width),
                        )
                        for name in names
                    ]
                )
        others = [name for name in self.list_commands(ctx) if name not in listed]
        with formatter.section("More (brain COMMAND --help explains each)"):
            formatter.write_text(", ".join(others))


_MISSING: Final = typer.Typer(help="Measure this memory; install 'commonbrain[eval]' first.")


@_MISSING.callback(invoke_without_command=True)
def _missing() -> None:
    raise typer.BadParameter("Evaluations are not installed: pip install 'commonbrain[eval]'")


def add_operations(app: typer.Typer, operations: Iterable[Operation[Any, Any]]) -> None:
    """Add the commands of every operation that has this door."""
    groups = {
        name: typer.Typer(cls=CommandGroup, no_args_is_help=True, help=help_)
        for name, help_ in GROUPS.items()
    }
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
