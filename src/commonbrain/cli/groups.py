"""Every operation as a command: under its own name, or in a group of commands about one thing.

A command whose name has two words, `skill list`, stands in the group of the first. An operation
whose name is that of a group has no command but those in it.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from commonbrain.api.operations import OPERATIONS, OperationRow
from commonbrain.cli.commands import build_command
from commonbrain.cli.examples import EXAMPLES

GROUPS: Final[Mapping[str, str]] = {
    "session": "Sessions: current tasks, notes and handoffs.",
    "message": "Messages between agents, and delegated tasks.",
    "task": "Tasks: add, claim, acknowledge and complete them.",
    "trace": "Traces: causes, effects and provenance of a memory.",
    "job": "Background jobs and their results.",
    "model": "Models trained from use: roll out, watch and roll back.",
    "skill": "Skills: rules that recall returns when a query has their keywords.",
    "tenant": "Tenants of a shared store, with their limits.",
    "agent": "Agents of a tenant, with their role and trust.",
    "key": "API keys for a shared server.",
}
"""What each group is about."""


IMPORTED: Final[Mapping[str, str]] = {
    "connect": "Add this memory to a client's MCP servers.",
    "store": "Copy, upgrade and distribute stores.",
    "embeddings": "Show, compare and change embedding models.",
}
"""Commands of the modules of those names, imported when they are used; all need tables."""

FIRST_SCREEN: Final[Mapping[str, tuple[str, ...]]] = {
    "Everyday": ("remember", "recall", "get"),
    "Review and correct": ("review", "revise", "forget"),
    "Agents at work": ("boot", "session", "message"),
    "Serve and operate": ("connect", "serve"),
    "Evaluate": ("eval",),
}
"""The commands that `brain --help` explains; it only names the others."""


def operation_commands(group: str = "") -> dict[str, OperationRow]:
    """Map the commands of a group, by default those of no group, to their operations."""
    return {
        name: row
        for row in OPERATIONS
        for prefix, _, name in (command.rpartition(" ") for command in row.commands)
        if prefix == group
    }


class CommandGroup(TyperGroup):
    """Commands whose help ends with an example; those of operations are built when used."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 Typer ships its own Click
        """List the commands of operations first."""
        return [*operation_commands(self.path), *super().list_commands(ctx)]

    @property
    def path(self) -> str:
        """What is typed between `brain` and the command."""
        return self.name or ""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Find a command and give it its example."""
        row = operation_commands(self.path).get(cmd_name)
        path = f"{self.path} {cmd_name}".strip()
        command = super().get_command(ctx, cmd_name)
        if command is None and row is not None:
            command = _command_of(row, path)
        if command is not None:
            example = EXAMPLES.get(path)
            command.epilog = f"Example: {example}" if example else command.epilog
        return command


@cache
def _command_of(row: OperationRow, path: str) -> Any:  # noqa: ANN401
    operation = row.load()
    subcommand = next((one for one in operation.commands if one.name == path), None)
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(path.rpartition(" ")[2])(build_command(operation, subcommand))
    return get_command(app)


class MainGroup(CommandGroup):
    """The commands of `brain`, and those that other packages add under `commonbrain.cli`."""

    @property
    def path(self) -> str:
        """Empty, whatever the program is called."""
        return ""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401
        """List every command, those of other packages last."""
        return [*super().list_commands(ctx), *IMPORTED, "eval"]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Find a command; where its package is not installed, say which one to install."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in {*IMPORTED, "eval"}:
            return own
        if cmd_name in IMPORTED:
            app = import_module(f"commonbrain.cli.{_MODULES.get(cmd_name, cmd_name)}").app
        else:
            points = entry_points(group="commonbrain.cli", name=cmd_name)
            app = next((point.load() for point in points), _MISSING)
        command = get_command(app)
        command.name = cmd_name
        example = EXAMPLES.get(cmd_name)
        command.epilog = f"Example: {example}" if example else command.epilog
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Explain the commands of the first screen by group, and name the others."""
        listed = [name for names in FIRST_SCREEN.values() for name in names]
        width = max(len(name) for name in listed)
        summaries = {**GROUPS, **IMPORTED} | {row.name: row.summary for row in OPERATIONS}
        for title, names in FIRST_SCREEN.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (
                            name.ljust(width),
                            summaries.get(name)
                            or self.get_command(ctx, name).get_short_help_str(76 - width),
                        )
                        for name in names
                    ]
                )
        others = [name for name in self.list_commands(ctx) if name not in listed]
        with formatter.section("More (brain COMMAND --help explains each)"):
            formatter.write_text(", ".join(others))


_MODULES: Final = {"store": "stores"}
_MISSING: Final = typer.Typer(help="Evaluate this memory; install 'commonbrain[eval]' first.")


@_MISSING.callback(invoke_without_command=True)
def _missing() -> None:
    raise typer.BadParameter("Evaluations are not installed: pip install 'commonbrain[eval]'")


def add_groups(app: typer.Typer) -> None:
    """Add the groups of operations' commands."""
    for name, help_ in GROUPS.items():
        app.add_typer(typer.Typer(cls=CommandGroup, no_args_is_help=True, help=help_), name=name)
