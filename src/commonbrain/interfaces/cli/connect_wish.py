"""What `brain connect` takes: a field is an option."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from commonbrain.interfaces.cli import choices

_WishT = TypeVar("_WishT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
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


def drawn_from(wish: type[_WishT], run: Callable[[_WishT], None]) -> Callable[..., None]:
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
