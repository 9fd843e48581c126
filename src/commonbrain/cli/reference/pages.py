"""The pages of the reference, and how they are written into a folder.

`PAGES` is the table: a file name and the function that draws it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from commonbrain.cli.reference.calls import commands_page, operations_page, rest_page
from commonbrain.cli.reference.tables import errors_page, kinds_page, limits_page, settings_page

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "operations.md": operations_page,
    "commands.md": commands_page,
    "rest.md": rest_page,
    "kinds.md": kinds_page,
    "settings.md": settings_page,
    "errors.md": errors_page,
    "limits.md": limits_page,
}


def write(folder: Annotated[Path, typer.Argument(help="Where the pages go.")]) -> None:
    """Write every page of the reference into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, render in PAGES.items():
        (folder / name).write_text(render() + "\n", encoding="utf-8")
        typer.echo(folder / name)
