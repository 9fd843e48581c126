"""Every operation as a command: under its own name, or in a group of commands.

A command whose name has two words, `skill list`, belongs to the group of the first. An operation
with the name of a group has only the commands in it.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import Any, Final, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from commonbrain.api.operations import OPERATIONS, Operation, OperationRow
from commonbrain.cli.commands import build_command, clients
from commonbrain.extras import load_row
from commonbrain.model.errors import InvalidInputError

EXAMPLES: Final[Mapping[str, str]] = {
    "boot": 'brain boot --task "upgrade the staging database"',
    "remember": 'brain remember "Staging runs Postgres 16." --kind fact --tag staging',
    "recall": 'brain recall "which database does staging run?"',
    "why-failed": 'brain why-failed "KeyError: orders_open"',
    "timeline": "brain timeline --since yesterday",
    "bulk": "brain bulk retag mem_06f8v2k1m0q4t mem_06f8v2k1m0q4v --tag database",
    "list": "brain list --project shop --kind rule --facets",
    "get": "brain get mem_06f8v2k1m0q4t --view history",
    "revise": 'brain revise supersede mem_06f8v2k1m0q4t "It runs Postgres 17." --reason upgraded',
    "forget": 'brain forget mem_06f8v2k1m0q4t --reason "it was a guess"',
    "undo": 'brain undo --agent codex --since "an hour ago" --reason "wrong branch"',
    "erase": 'brain erase mem_06f8v2k1m0q4t --reason "a customer asked for it"',
    "prune": 'brain prune --days 90 --reason "old events"',
    "status": "brain status --health",
    "recalls": "brain recalls --limit 5",
    "review": "brain review --limit 5",
    "doctor": "brain doctor --repair",
    "atomize": "brain atomize --project shop",
    "reflect": "brain reflect --window-hours 24 --dry-run",
    "mcp": "brain mcp --url https://memory.example.com --key-file ~/.config/brain.key",
    "serve": "brain serve --port 8377",
    "ui": "brain ui --no-browser",
    "dev": "brain dev ./demo",
    "import": "brain import markdown ~/notes --dry-run",
    "export": "brain export memories.jsonl",
    "backup": "brain backup brain-backup.db",
    "restore": "brain restore brain-backup.db --dry-run",
    "seal": "brain seal --key-file brain.key --dry-run",
    "unseal": "brain unseal --dry-run",
    "worker": "brain worker --concurrency 2",
    "maintain": "brain maintain --dry-run",
    "connect": "brain connect claude-code --hooks",
    "setup": "brain setup --dry-run",
    "hook": "brain hook status",
    "pause": "brain pause --for 1h",
    "statusline": "brain statusline < session.json",
    "session list": "brain session list --project shop",
    "session task": 'brain session task "fix the failing build"',
    "session handoff": 'brain session handoff "The build is green." --next "merge it"',
    "session end": 'brain session end "Merged." --next "tag a release"',
    "session note": 'brain session note branch "fix/build" --pinned',
    "session checkpoint": 'brain session checkpoint "drop the staging database"',
    "message send": 'brain message send "The build is red." --to codex --priority urgent',
    "message reply": 'brain message reply mem_06f8v2k1m0q4t "I am on it."',
    "message read": "brain message read mem_06f8v2k1m0q4t",
    "message ack": 'brain message ack mem_06f8v2k1m0q4t "Done."',
    "message history": "brain message history --agent codex",
    "message thread": "brain message thread thr_38G0FM4BXXFX7 --status closed --tag release",
    "message delegate": 'brain message delegate "Fix the build." --to codex --due-at tomorrow',
    "task add": 'brain task add "Renew the certificate." --due-at 2026-12-01 --priority high',
    "task done": "brain task done mem_06f8v2k1m0q4t",
    "task block": 'brain task block mem_06f8v2k1m0q4t --reason "no access"',
    "task open": "brain task open mem_06f8v2k1m0q4t",
    "task ack": "brain task ack mem_06f8v2k1m0q4t will_execute",
    "task list": "brain task list --project shop",
    "task claim": "brain task claim mem_06f8v2k1m0q4t --minutes 30",
    "task release": "brain task release mem_06f8v2k1m0q4t",
    "trace causes": "brain trace causes mem_06f8v2k1m0q4t",
    "trace effects": "brain trace effects mem_06f8v2k1m0q4t",
    "trace before": 'brain trace before "the build failed" --hours 4',
    "trace patterns": 'brain trace patterns "the build failed"',
    "trace deepen": 'brain trace deepen "the build failed"',
    "trace dependents": "brain trace dependents mem_06f8v2k1m0q4t",
    "trace provenance": "brain trace provenance mem_06f8v2k1m0q4t",
    "job list": "brain job list --state dead",
    "job show": "brain job show job_06f8v2k1m0q4t",
    "job run": "brain job run maintain --wait",
    "job retry": "brain job retry job_06f8v2k1m0q4t",
    "job cancel": "brain job cancel job_06f8v2k1m0q4t",
    "model show": "brain model show mdl_06f8v2k1m0q4t",
    "model canary": "brain model canary mdl_06f8v2k1m0q4t --percent 5",
    "model promote": 'brain model promote mdl_06f8v2k1m0q4t --reason "better for a week"',
    "model rollback": 'brain model rollback mdl_06f8v2k1m0q4t --reason "slower"',
    "model retire": "brain model retire mdl_06f8v2k1m0q4t --reason unused",
    "model guards": "brain model guards mdl_06f8v2k1m0q4t",
    "model train": "brain model train --role reranker",
    "skill add": 'brain skill add deploy "Run the smoke tests first." --keyword deploy',
    "skill show": "brain skill show deploy",
    "skill test": 'brain skill test "how do I deploy?"',
    "audit": "brain audit --agent codex --since yesterday",
    "tenant refusals": "brain tenant refusals --limit 10",
    "tenant create": "brain tenant create acme",
    "tenant show": "brain tenant show acme",
    "tenant suspend": "brain tenant suspend acme",
    "tenant resume": "brain tenant resume acme",
    "tenant policy": "brain tenant policy acme --memories-max 100000",
    "agent set": "brain agent set codex --role writer",
    "agent disable": "brain agent disable codex",
    "agent enable": "brain agent enable codex",
    "key list": "brain key list --agent codex",
    "key create": "brain key create codex --days 90",
    "key invite": "brain key invite ann --role writer",
    "key rotate": "brain key rotate cb_acme_1a2b3c4d --minutes 60",
    "key revoke": "brain key revoke cb_acme_1a2b3c4d",
    "store distribute": "brain store distribute --dry-run",
    "store copy": "brain store copy brain.db postgresql://localhost/brain --dry-run",
    "embeddings switch": "brain embeddings switch --dry-run",
    "embeddings drop": "brain embeddings drop minilm",
    "eval run": "brain eval run locomo ./locomo-dev.json",
    "eval compare": "brain eval compare before.json after.json",
    "eval learn": "brain eval learn locomo ./locomo-dev.json",
    "eval misses": "brain eval misses run.json",
    "eval parts": "brain eval parts run.json",
    "eval refusals": "brain eval refusals ./locomo-dev.json",
    "eval report": "brain eval report run.json",
}
"""Those of the other commands are their names, which need no argument."""


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
"""The help of each group."""


IMPORTED: Final[Mapping[str, str]] = {
    "connect": "Connect Claude Code, Codex or another client to this memory.",
    "embeddings": "Show, compare and change embedding models.",
}
"""Commands of the modules of those names, imported when they are used; all need tables."""

PACKAGED: Final[Mapping[str, str]] = {
    "dev": "server",
    "eval": "eval",
    "serve": "server",
    "store": "server",
}
"""Commands of other packages, which add them as entry points, with the extras that install them."""

FIRST_SCREEN: Final[Mapping[str, tuple[str, ...]]] = {
    "Set up": ("setup", "import"),
    "Everyday": ("remember", "recall", "get", "ui"),
    "Review and correct": ("review", "revise", "forget"),
    "Agents at work": ("boot", "session", "message"),
}
"""The commands that `brain --help` explains; it only names the others."""

CONTEXT_SETTINGS: Final = {"help_option_names": ["--help", "-h"]}
"""A command keeps the option of its first context, which a served one gets without a parent."""
WORDS_OF_OTHERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("add", "create", "new", "note", "put", "save", "write"), "remember"),
    **dict.fromkeys(("ask", "find", "grep", "query", "search"), "recall"),
    **dict.fromkeys(("cat", "open", "read", "show", "view"), "get"),
    **dict.fromkeys(("dir", "ls"), "list"),
    **dict.fromkeys(("del", "delete", "drop", "remove", "rm"), "forget"),
    **dict.fromkeys(("change", "edit", "fix", "mv", "pin", "set", "tag", "update"), "revise"),
    **dict.fromkeys(("check", "health", "verify"), "doctor"),
    **dict.fromkeys(("count", "info", "ps", "stats", "usage", "whoami"), "status"),
    **dict.fromkeys(("init", "install"), "setup"),
    **dict.fromkeys(("off", "disable", "stop"), "pause"),
    **dict.fromkeys(("on", "enable", "start"), "resume"),
    **dict.fromkeys(("browse", "dashboard", "page", "web"), "ui"),
    **dict.fromkeys(("cleanup", "gc", "vacuum"), "maintain"),
    **dict.fromkeys(("diff", "history"), "get ID --view history"),
    **dict.fromkeys(("log", "logs"), "timeline"),
    **dict.fromkeys(("deinit", "uninstall"), "setup --undo"),
    **dict.fromkeys(("conflicts", "todo", "todos"), "review"),
    "claude": "connect claude-code",
    "disconnect": "connect CLIENT --remove",
    "encrypt": "seal",
    "decrypt": "unseal",
    "dump": "export",
    "inbox": "message inbox",
    "invite": "key invite",
    "load": "import",
    "login": "connect CLIENT --url URL",
    "migrate": "store copy",
    "revert": "undo",
    "rollback": "undo",
    "run": "worker",
    "send": "message send",
    "server": "serve",
}
"""Words of other programs, and the command here that does the same."""


def operation_commands(group: str = "") -> dict[str, OperationRow]:
    """Map the commands of a group, by default those of no group, to their operations."""
    return {
        name: row
        for row in OPERATIONS
        for prefix, _, name in (command.rpartition(" ") for command in row.commands)
        if prefix == group
    }


class SectionedCommand(TyperCommand):
    """A command that lists the options of one kind or verb after those of every call."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 see CommandGroup
        """Write the arguments and options in sections."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is None:
                continue
            term, help_ = record
            is_option = one.param_type_name == "option"
            of = _ONLY_FOR.fullmatch(help_) if is_option else None
            title = f"For {of[1]}" if of else "Options" if is_option else "Arguments"
            sections.setdefault(title, []).append((term, of[2] if of else help_))
        for title in sorted(sections, key=lambda title: title.startswith("For ")):
            with formatter.section(title):
                formatter.write_dl(sections[title])


_ONLY_FOR: Final = re.compile(r"(?!.*; [a-z]+: )([a-z]+(?:, [a-z]+)*): (.+)")
"""The help of an option for some kinds or verbs, which it begins with, and not with several."""


class CommandGroup(TyperGroup):
    """Commands whose help ends with an example; those of operations are built when used."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 Typer ships its own Click
        """List the commands of operations first."""
        return [*operation_commands(self.path), *super().list_commands(ctx)]

    @property
    def path(self) -> str:
        """The words between `brain` and the command."""
        return self.name or ""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Find a command and add its example."""
        row = operation_commands(self.path).get(cmd_name)
        path = f"{self.path} {cmd_name}".strip()
        command = super().get_command(ctx, cmd_name)
        if command is None and row is not None:
            command = _command_of(row, path)
        if command is not None:
            _add_example(command, path)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401
        """Find the command that was typed; for a mistyped one, suggest those with similar names.

        Typer's own suggestions leave out commands that are built when used.
        """
        typed = args[0]
        command = self.get_command(ctx, typed)
        if command is not None:
            return typed, command, args[1:]
        # While words are completed, a name that is not known yet is no error.
        if not ctx.resilient_parsing and not typed.startswith("-"):
            similar = " or ".join(map(repr, self._similar(typed, self.list_commands(ctx))))
            if similar:
                ctx.fail(f"No such command {typed!r}. Did you mean {similar}?")
        return super().resolve_command(ctx, args)

    @staticmethod
    def _similar(typed: str, names: Sequence[str]) -> Sequence[str]:
        """Return the command for a word of other programs, or names similar to the word."""
        meant = f"connect {typed}" if typed in clients() else WORDS_OF_OTHERS.get(typed, "")
        return [meant] if meant.partition(" ")[0] in names else get_close_matches(typed, names)


def find_operation_command(
    words: Sequence[str],
) -> tuple[Operation[Any, Any], Any, Sequence[str]] | None:
    """Find the operation and the command that words begin with, and return the other words.

    None as well if the operation's package is not installed.
    """
    for length in (2, 1):
        group, _, name = " ".join(words[:length]).rpartition(" ")
        row = operation_commands(group).get(name)
        if row is not None and row.is_installed:
            return row.load(), _command_of(row, f"{group} {name}".strip()), words[length:]
    return None


@cache
def _command_of(row: OperationRow, path: str) -> Any:  # noqa: ANN401
    """Build the command of an operation; without its package, one that says what to install."""
    try:
        operation = row.load()
    except InvalidInputError as missing:
        return get_command(_refusing(missing))
    subcommand = next((one for one in operation.commands if one.name == path), None)
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    name = path.rpartition(" ")[2]
    # The command of one kind or verb has options for no other.
    shape = SectionedCommand if subcommand is None else None
    command = app.command(name, cls=shape, context_settings=CONTEXT_SETTINGS)
    command(build_command(operation, subcommand))
    return get_command(app)


class MainGroup(CommandGroup):
    """The commands of `brain`, and those that other packages add under `commonbrain.cli`."""

    @property
    def path(self) -> str:
        """Empty, whatever the program is called."""
        return ""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401
        """List every command, those of other packages last."""
        return [*super().list_commands(ctx), *IMPORTED, *PACKAGED]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401
        """Find a command; if its package is not installed, say which one to install."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in {*IMPORTED, *PACKAGED}:
            return own
        if cmd_name in IMPORTED:
            app = import_module(f"commonbrain.cli.{cmd_name}").app
        else:
            app = _packaged(cmd_name)
        command = get_command(app)
        command.name = cmd_name
        _add_example(command, cmd_name)
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Explain the commands of the first screen by group, and name the others."""
        listed = [name for names in FIRST_SCREEN.values() for name in names]
        width = max(len(name) for name in listed)
        described = {**GROUPS, **IMPORTED}
        summaries = described | {row.name: row.summary for row in OPERATIONS}
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


def _add_example(command: Any, path: str) -> None:  # noqa: ANN401 Typer ships its own Click
    """End the help of a command, but for a group, with its example."""
    if not hasattr(command, "list_commands"):
        command.epilog = f"Example: {EXAMPLES.get(path, f'brain {path}')}"


def _packaged(command: str) -> typer.Typer:
    """Load a command of another package; without it, one that says what to install."""
    try:
        return cast("typer.Typer", load_row("cli", command, extra=PACKAGED[command]))
    except InvalidInputError as missing:
        return _refusing(missing)


def _refusing(missing: InvalidInputError) -> typer.Typer:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command(
        help=f"{missing.hint}.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def refuse() -> None:
        raise missing

    return app


def add_groups(app: typer.Typer) -> None:
    """Add the groups of operations' commands."""
    for name, help_ in GROUPS.items():
        app.add_typer(typer.Typer(cls=CommandGroup, no_args_is_help=True, help=help_), name=name)
