"""The command `brain connect`."""

import inspect
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any, Final
from urllib.parse import SplitResult

import typer
from platformdirs import user_config_path
from rich.console import Console
from rich.syntax import Syntax

from commonbrain.cli.commands import client_scopes, clients, complete_from
from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.terminal import Sanitized, print_line, short_path
from commonbrain.hooks.remote import RemoteMemory
from commonbrain.hosts import is_local_host, is_url
from commonbrain.integrations import (
    CLIENTS,
    ConfigEdit,
    HookCommand,
    Remote,
    ServerEntry,
    ServerTarget,
    add_status_line,
    apply,
    brain_command,
    connect,
    diff,
    disconnect,
    install_tool,
    proxy_entry,
    read,
    with_hooks,
    without_hooks,
)
from commonbrain.model.errors import InvalidInputError
from commonbrain.observability.hook_runs import HookRuns, state_folder
from commonbrain.runtime.remote import (
    KEY_VARIABLE,
    endpoint,
    exchange_invitation,
    expand_home,
    read_key,
    split_invitation,
    validate_key,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """How to connect or disconnect a client."""

    client: Annotated[
        str,
        typer.Argument(
            help=", ".join(sorted(CLIENTS)),
            autocompletion=complete_from(clients),
        ),
    ]
    scope: Annotated[
        str,
        typer.Option(
            help="user: every project; project: this folder.",
            autocompletion=complete_from(client_scopes),
        ),
    ] = "user"
    url: Annotated[
        str | None, typer.Option(help="URL of a server to use instead of a local store.")
    ] = None
    key_file: Annotated[
        Path | None,
        typer.Option(help="File with the server's key; default: COMMONBRAIN_KEY."),
    ] = None
    no_key: Annotated[
        bool, typer.Option("--no-key", help="The server needs no key from this machine.")
    ] = False
    force: Annotated[
        bool, typer.Option("--force", help="Replace an entry that points elsewhere.")
    ] = False
    hooks: Annotated[
        bool, typer.Option("--hooks", help="Also boot, recall and capture by the client's hooks.")
    ] = False
    status_line: Annotated[
        bool,
        typer.Option("--status-line", help="Show in Claude Code's status line what was shown."),
    ] = False
    remove: Annotated[bool, typer.Option("--remove", help="Remove the entry.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change only.")] = False
    diff: Annotated[bool, typer.Option("--diff", help="Show the changed lines too.")] = False
    print_instructions: Annotated[
        bool,
        typer.Option(
            "--print-instructions", help="Print what to put into AGENTS.md; change nothing."
        ),
    ] = False


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def _command(**options: Any) -> None:  # noqa: ANN401 the signature below types it
    """Add this memory to a client's MCP servers; everything else in its file stays unchanged."""
    context: typer.Context = options.pop("typer_context")
    connect_options = ConnectOptions(**options)
    if connect_options.print_instructions:
        # The MCP library takes half a second to load.
        from commonbrain.mcp.server import INSTRUCTIONS  # noqa: PLC0415

        typer.echo(f"## Shared memory\n\n{INSTRUCTIONS}")
    else:
        connect_client(context.obj, connect_options)


_command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter(
            "typer_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        ),
        *(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=field.type,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
            )
            for field in fields(ConnectOptions)
        ),
    ]
)
app.command("connect")(_command)


def connect_client(state: GlobalOptions, connect_options: ConnectOptions) -> None:
    """Ask for a key if needed, show the changes, and apply them.

    Raises:
        InvalidInputError: there is no such client or scope, options contradict each other, or a
            file is not valid; no file is changed.
        RejectedError: an entry of the same name reaches something else.
        UnavailableError: a file cannot be read or written.

    """
    if connect_options.key_file is not None:
        connect_options = replace(connect_options, key_file=expand_home(connect_options.key_file))
    connect_options, invitation = _read_invitation(connect_options)
    typed_key = invitation or _prompt_for_key(connect_options)
    if typed_key is not None:
        connect_options = replace(connect_options, key_file=typed_key.path)
    changes = plan_changes(state, connect_options)
    if typed_key is not None:
        _save_key(typed_key, is_dry_run=connect_options.dry_run)
    if not connect_options.dry_run and not connect_options.remove:
        install_for_good()
    needed = [one for one in changes if one.is_needed]
    for change in needed or changes:
        apply_change(connect_options, change)
    if needed:
        _print_what_next(connect_options)
    if not connect_options.dry_run:
        mark_hooks(connect_options)
    if connect_options.remove:
        _print_remaining_keys(changes)
    elif connect_options.url is not None:
        _print_next_steps(connect_options, endpoint(connect_options.url))


def install_for_good() -> None:
    """Install the program that the entry starts, if uvx runs this one from its cache."""
    installed = install_tool()
    if installed is not None:
        print_line(f"Installed {installed} as a tool of uv.")


def mark_hooks(connect_options: ConnectOptions) -> None:
    """Record which clients have hooks, so that silent ones are reported."""
    runs = HookRuns(state_folder(os.environ))
    if connect_options.remove:
        runs.disconnected(connect_options.client)
    elif connect_options.hooks:
        runs.connected(connect_options.client)


def plan_changes(state: GlobalOptions, connect_options: ConnectOptions) -> list[ConfigEdit]:
    """Compute the changes to a client's files; the entry reaches the store or the given server.

    Raises:
        InvalidInputError: there is no such client or scope, options contradict each other, or a
            file is not valid; no file is changed.
        RejectedError: an entry of the same name reaches something else.
        UnavailableError: a file cannot be read.

    """
    if connect_options.remove:
        change = disconnect(connect_options.client, scope=connect_options.scope)
        return without_hooks(change, connect_options.client, scope=connect_options.scope)
    if connect_options.url is not None:
        target = _remote(state, connect_options, url=connect_options.url)
        server = RemoteMemory(
            url=endpoint(connect_options.url).geturl(),
            key_file=connect_options.key_file and connect_options.key_file.absolute(),
            has_key=not connect_options.no_key,
        )
        return _plan(connect_options, target, hook_options=server.words)
    if connect_options.key_file is not None or connect_options.no_key:
        raise InvalidInputError("Only a server takes a key.", hint="Give its --url too.")
    command, *arguments = brain_command()
    options = _entry_options(state)
    entry = ServerEntry(command=command, args=(*arguments, *options, "mcp"))
    return _plan(connect_options, entry, hook_options=options)


def _plan(
    connect_options: ConnectOptions, target: ServerTarget, *, hook_options: Sequence[str]
) -> list[ConfigEdit]:
    client, scope = connect_options.client, connect_options.scope
    brain, force = brain_command(), connect_options.force
    changes = [connect(client, target, scope=scope, force=force)]
    if connect_options.hooks:
        command = HookCommand(brain=brain, options=hook_options)
        changes = with_hooks(changes[0], client, scope=scope, command=command)
    if connect_options.status_line:
        if isinstance(target, ServerEntry) and connect_options.url is None:
            brain = (target.command, *target.args[:-1])
        changes = add_status_line(changes, client, scope=scope, brain=brain, force=force)
    return changes


def _entry_options(state: GlobalOptions) -> list[str]:
    """Return the options of this call that become part of the entry."""
    options: list[str] = []
    if is_url(state.store):
        raise InvalidInputError(
            "A store's URL is not written into a client's file: it may hold a password.",
            hint="Give the client COMMONBRAIN_STORE in its environment, and connect without it.",
        )
    if state.store is not None:
        options += ["--store", str(Path(state.store).expanduser().absolute())]
    if state.agent is not None:
        options += ["--agent", state.agent]
    return options


def _remote(state: GlobalOptions, connect_options: ConnectOptions, *, url: str) -> ServerTarget:
    """Describe how the client reaches a server: directly, or over the proxy, which reads a file."""
    # The environment is about this machine's own memory, and is not copied.
    configured = {"COMMONBRAIN_STORE": state.store, "COMMONBRAIN_AGENT": state.agent}
    if any(
        value is not None and os.environ.get(name) != value for name, value in configured.items()
    ):
        raise InvalidInputError(
            "The server has its own store, and the key says which agent calls.",
            hint="Leave out --store and --agent.",
        )
    if connect_options.no_key and connect_options.key_file is not None:
        raise InvalidInputError(
            "There is a key, or there is none.", hint="Leave one of the two out."
        )
    at = endpoint(url).geturl()
    if connect_options.key_file is not None:
        return proxy_entry(at, key_file=connect_options.key_file.absolute())
    return Remote(url=at, variable=None if connect_options.no_key else KEY_VARIABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRequest:
    """A key that was typed in, or an invitation to exchange for it, and where to store it."""

    path: Path
    key: str
    invited_to: str | None = None
    """The server that the invitation is from; None for a key."""


def _read_invitation(options: ConnectOptions) -> tuple[ConnectOptions, ConnectRequest | None]:
    """Split the link of an invitation, which is exchanged once all else is known to be right."""
    url, invitation = split_invitation(options.url or "")
    if invitation is None and url.endswith("/join"):
        raise InvalidInputError(
            "The link of the invitation is not whole.",
            hint="Give all of it, with what follows the #, in quotation marks.",
        )
    if invitation is None or options.remove:
        return replace(options, url=options.url and url), None
    if options.no_key or options.key_file is not None:
        raise InvalidInputError(
            "The link gives a key of its own.", hint="Leave out --key-file and --no-key."
        )
    # A file of its own: other clients of this user may call the same server as other agents.
    of_invitation = sha256(invitation.encode()).hexdigest()[:_DIGITS]
    path = _key_path(endpoint(url), of_invitation)
    return replace(options, url=url), ConnectRequest(path=path, key=invitation, invited_to=url)


def _prompt_for_key(connect_options: ConnectOptions) -> ConnectRequest | None:
    """Ask for a key at the terminal, unless it is given in another way."""
    key_file, url = connect_options.key_file, connect_options.url
    if connect_options.remove:
        return None
    if key_file is not None and read_key(key_file) is None:
        raise InvalidInputError(f"{key_file} is empty.", hint="Give a file with the key in it.")
    is_given = connect_options.no_key or key_file is not None or KEY_VARIABLE in os.environ
    if url is None or is_given or not sys.stdin.isatty():
        return None
    at = endpoint(url)
    question = f"Key for {at.netloc} (none: {KEY_VARIABLE} will hold it)"
    key = validate_key(typer.prompt(question, default="", show_default=False, hide_input=True))
    if key is None:
        return None
    return ConnectRequest(path=_key_path(at), key=key)


_DIGITS: Final = 8
_KEY_CHARS_MAX: Final = 128
"""The longest key with its end of line: of a tenant of 63 characters."""


def _key_path(at: SplitResult, *parts: str) -> Path:
    return _keys_folder() / "_".join((at.netloc.replace(":", "_"), *parts))


def _keys_folder() -> Path:
    """Return the folder of keys that were typed in."""
    return user_config_path("commonbrain", appauthor=False) / "keys"


def _save_key(typed_key: ConnectRequest, *, is_dry_run: bool) -> None:
    """Write a key to its file, which only its owner can read; it is never shown."""
    path, server = typed_key.path, typed_key.invited_to
    if is_dry_run:
        print_line(f"The key would go to {path}.")
        return
    before = read(path)
    if server is None:
        apply(ConfigEdit(path=path, before=before, after=f"{typed_key.key}\n"))
    elif before and not before.isspace():
        print_line(f"The link was exchanged before: the key is in {path}.")
        return
    else:
        _exchange(typed_key.key, server, path=path)
    print_line(f"The key is in {path}.")


def _exchange(invitation: str, server: str, *, path: Path) -> None:
    """Exchange an invitation for a key, and write it; another run may try the same meanwhile."""
    # The link works once: be certain first that its key can be written.
    place = path.with_name(f".{path.name}.{token_hex(_DIGITS)}")
    reserved = " " * _KEY_CHARS_MAX
    apply(ConfigEdit(path=place, before=None, after=reserved))
    try:
        written = f"{exchange_invitation(server, invitation)}\n"
        apply(ConfigEdit(path=place, before=reserved, after=written, has_backup=True))
        place.replace(path)
    finally:
        place.unlink(missing_ok=True)


def _print_remaining_keys(changes: Sequence[ConfigEdit]) -> None:
    """Name the key files of removed entries that remain; others may use them too."""
    for path in sorted(_keys_folder().glob("*")):
        quoted_path = json.dumps(str(path), ensure_ascii=False)
        if any(
            quoted_path in (one.before or "") and quoted_path not in (one.after or "")
            for one in changes
        ):
            print_line(f"The key stays in {path}. Delete it when no other client uses it.")


def _print_next_steps(connect_options: ConnectOptions, at: SplitResult) -> None:
    """Print the next steps, and a warning if the connection is not encrypted."""
    if connect_options.key_file is None and not connect_options.no_key:
        print_line(f"Put the key into {KEY_VARIABLE} where {connect_options.client} starts.")
    if at.scheme == "http" and not is_local_host(at.hostname or ""):
        print_line("Over http others can read the key on its way: use https.")


def apply_change(connect_options: ConnectOptions, change: ConfigEdit) -> None:
    """Make a change and say what it did; a dry run and `--diff` show its lines."""
    if not change.is_needed:
        print_line(f"{connect_options.client}: nothing to change in {short_path(change.path)}.")
        return
    if connect_options.dry_run or connect_options.diff:
        shown = Syntax(diff(change), "diff", background_color="default", word_wrap=True)
        Console().print(Sanitized(shown))
    if connect_options.dry_run:
        return
    apply(change)
    backup_note = "" if change.is_new else f" (backup: {short_path(change.backup)})"
    for step in change.steps:
        print_line(f"{step} {short_path(change.path)}{backup_note}.")


def _print_what_next(connect_options: ConnectOptions) -> None:
    """Say what to do after the changes, which are in one or several files."""
    client = connect_options.client
    if connect_options.dry_run:
        print_line("Nothing was written. Run it again without --dry-run.")
    elif connect_options.remove:
        print_line(f"Restart {client}.")
    else:
        scope = "" if connect_options.scope == "user" else f" --scope {connect_options.scope}"
        print_line(f"Restart {client} to use it. To undo: brain connect {client}{scope} --remove")
        print_line('Try it: say "remember that we deploy on Mondays", and ask in a new session.')
