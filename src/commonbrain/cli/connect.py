"""What `brain connect` takes: a field is an option."""

import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import SplitResult

import typer
from platformdirs import user_config_path
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from commonbrain.cli import choices
from commonbrain.cli.context import State
from commonbrain.cli.render import Inert
from commonbrain.integrations import (
    KEY_VARIABLE,
    Change,
    Entry,
    HookCommand,
    Reach,
    Remote,
    apply,
    brain_command,
    bridge,
    connect,
    diff,
    disconnect,
    with_hooks,
    without_hooks,
)
from commonbrain.integrations.change import read
from commonbrain.mcp.proxy import at_home, checked_key, endpoint, read_key
from commonbrain.model.errors import InvalidInputError
from commonbrain.text.locations import is_here, is_url

_WishT = TypeVar("_WishT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """What is to be done with a client."""

    client: Annotated[
        str,
        typer.Argument(
            help="claude-code, codex, cursor, gemini, opencode or vscode",
            autocompletion=choices.of(choices.clients),
        ),
    ]
    scope: Annotated[
        str,
        typer.Option(
            help="user: every project; project: this folder.",
            autocompletion=choices.of(choices.client_scopes),
        ),
    ] = "user"
    url: Annotated[str | None, typer.Option(help="Of a running server that holds the memory.")] = (
        None
    )
    key_file: Annotated[
        Path | None,
        typer.Option(help="Holds the key for it; otherwise COMMONBRAIN_KEY does."),
    ] = None
    no_key: Annotated[
        bool, typer.Option("--no-key", help="The server lets this machine in without one.")
    ] = False
    force: Annotated[
        bool, typer.Option("--force", help="Replace an entry that reaches something else.")
    ] = False
    hooks: Annotated[
        bool, typer.Option("--hooks", help="Also boot, recall and capture by the client's hooks.")
    ] = False
    remove: Annotated[bool, typer.Option("--remove", help="Take the entry out again.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the change only.")] = False


def build_parameters(wish: type[_WishT], run: Callable[[_WishT], None]) -> Callable[..., None]:
    """Make a command whose options are the fields of a wish."""

    def command(**given: Any) -> None:  # noqa: ANN401 the signature below types it
        run(wish(**given))

    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=field.type,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
            )
            for field in fields(wish)  # type: ignore[arg-type]
        ]
    )
    command.__doc__ = run.__doc__
    return command


def connect_client(state: State, wish: ConnectOptions) -> None:
    """Ask for a key where one is wanted, show the changes, and make them.

    Raises:
        InvalidInputError: there is no such client or scope, what is wished does not go together, or
            a file is not valid; all are left alone.
        RejectedError: an entry of the same name reaches something else.
        UnavailableError: a file cannot be read or written.

    """
    if wish.key_file is not None:
        wish = replace(wish, key_file=at_home(wish.key_file))
    asked = _ask_for_key(wish)
    if asked is not None:
        wish = replace(wish, key_file=asked.path)
    changes = plan(state, wish)
    if asked is not None:
        _keep(asked, is_dry_run=wish.dry_run)
    for change in changes:
        show(wish.client, change, is_dry_run=wish.dry_run)
    if wish.remove:
        _tell_kept(changes)
    elif wish.url is not None:
        _tell_next(wish, endpoint(wish.url))


def plan(state: State, wish: ConnectOptions) -> list[Change]:
    """Compute the changes to a client's files; it reaches the store or the server that is named.

    Raises:
        InvalidInputError: there is no such client or scope, what is wished does not go together, or
            a file is not valid; all are left alone.
        RejectedError: an entry of the same name reaches something else.
        UnavailableError: a file cannot be read.

    """
    if wish.remove:
        change = disconnect(wish.client, scope=wish.scope)
        return without_hooks(change, wish.client, scope=wish.scope)
    if wish.url is not None:
        reach = _remote(state, wish, url=wish.url)
        return [connect(wish.client, reach, scope=wish.scope, force=wish.force)]
    if wish.key_file is not None or wish.no_key:
        raise InvalidInputError("Only a server takes a key.", hint="Give its --url too.")
    command, *arguments = brain_command()
    options = _options(state)
    entry = Entry(command=command, args=(*arguments, *options, "mcp"))
    change = connect(wish.client, entry, scope=wish.scope, force=wish.force)
    if not wish.hooks:
        return [change]
    started = HookCommand(brain=(command, *arguments), options=options)
    return with_hooks(change, wish.client, scope=wish.scope, command=started)


def _options(state: State) -> list[str]:
    """Give the options of this call that become part of the entry."""
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


def _remote(state: State, wish: ConnectOptions, *, url: str) -> Reach:
    """Say how the client reaches a server: by itself, or over a bridge that reads a file."""
    # What the environment says is of this machine's own memory, and stays as it is.
    told = {"COMMONBRAIN_STORE": state.store, "COMMONBRAIN_AGENT": state.agent}
    if any(value is not None and os.environ.get(name) != value for name, value in told.items()):
        raise InvalidInputError(
            "The server has its own store, and the key says which agent calls.",
            hint="Leave out --store and --agent.",
        )
    if wish.hooks:
        raise InvalidInputError("Hooks act on a store of this machine.", hint="Leave out --hooks.")
    if wish.no_key and wish.key_file is not None:
        raise InvalidInputError(
            "There is a key, or there is none.", hint="Leave one of the two out."
        )
    at = endpoint(url).geturl()
    if wish.key_file is not None:
        return bridge(at, key_file=wish.key_file.absolute())
    return Remote(url=at, variable=None if wish.no_key else KEY_VARIABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRequest:
    """A key that was typed in, and the file that is to hold it."""

    path: Path
    key: str


def _ask_for_key(wish: ConnectOptions) -> ConnectRequest | None:
    """Ask who sits at the terminal for a key, where none is told in another way."""
    is_wanted = wish.url is not None and not (wish.remove or wish.no_key or wish.key_file)
    if wish.key_file is not None and not wish.remove and read_key(wish.key_file) is None:
        raise InvalidInputError(
            f"{wish.key_file} is empty.", hint="Give a file with the key in it."
        )
    if wish.url is None or not is_wanted or KEY_VARIABLE in os.environ or not sys.stdin.isatty():
        return None
    at = endpoint(wish.url)
    question = f"Key for {at.netloc} (none: {KEY_VARIABLE} will hold it)"
    key = checked_key(typer.prompt(question, default="", show_default=False, hide_input=True))
    if key is None:
        return None
    name = at.netloc.replace(":", "_")
    return ConnectRequest(path=_keys() / name, key=key)


def _keys() -> Path:
    """Give the folder of keys that were typed in."""
    return user_config_path("commonbrain", appauthor=False) / "keys"


def _keep(asked: ConnectRequest, *, is_dry_run: bool) -> None:
    """Write a key to its file, which only its owner reads; it is never shown."""
    if is_dry_run:
        Console().print(Inert(Text(f"The key would go to {asked.path}.")))
        return
    apply(Change(path=asked.path, before=read(asked.path), after=f"{asked.key}\n"))
    Console().print(Inert(Text(f"The key is in {asked.path}.")))


def _tell_kept(changes: Sequence[Change]) -> None:
    """Say which typed keys are left that what is taken out has named; others may use them too."""
    for path in sorted(_keys().glob("*")):
        named = json.dumps(str(path), ensure_ascii=False)
        if any(named in (one.before or "") and named not in (one.after or "") for one in changes):
            told = f"The key stays in {path}. Delete it when no other client uses it."
            Console().print(Inert(Text(told)))


def _tell_next(wish: ConnectOptions, at: SplitResult) -> None:
    """Say what is left to do, and what somebody on the way could read."""
    console = Console()
    if wish.key_file is None and not wish.no_key:
        told = f"Put the key into {KEY_VARIABLE}, in the environment that {wish.client} starts in."
        console.print(Inert(Text(told)))
    if at.scheme == "http" and not is_here(at.hostname or ""):
        console.print(Inert(Text("Over http others can read the key on its way: use https.")))


def show(client: str, change: Change, *, is_dry_run: bool) -> None:
    """Print a change and make it, unless it is only to be seen."""
    console = Console()
    if not change.is_needed:
        console.print(Inert(Text(f"{client}: nothing to change in {change.path}.")))
        return
    shown = Syntax(diff(change), "diff", background_color="default", word_wrap=True)
    console.print(Inert(shown))
    if is_dry_run:
        console.print(Text("Nothing was written. Run it again without --dry-run."))
        return
    apply(change)
    kept = "" if change.is_new else f" What was there before is in {change.backup}."
    console.print(Inert(Text(f"Wrote {change.path}.{kept} Start {client} anew to use it.")))
