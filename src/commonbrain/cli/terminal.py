"""What every command prints: replies, errors, progress, without control characters."""

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from pydantic_core import to_json
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.highlighter import RegexHighlighter
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from commonbrain.api.operation import Operation
from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.model.escaping import inert
from commonbrain.model.recall_result import BINDING, HEADING

if TYPE_CHECKING:
    from rich.progress import Progress

_FOR_AGENTS: Final = frozenset({BINDING, HEADING})
"""Lines that only tell a model how to read what follows."""
_CALL: Final = re.compile(r"^  -> ")
"""What begins a line with a call that resolves an entry."""
_WITH_CALLS: Final = frozenset({"review", "status"})
"""Operations whose replies have such lines; in those of others they may be stored text."""
_WORD_CELLS: Final = 60
"""No word of prose is longer."""
_STYLES: Final = {
    "good": "bold green",
    "same": "bold cyan",
    "doubt": "bold yellow",
    "bad": "bold red",
    "head": "bold",
    "side": "dim",
    "note": "yellow",
}


class _Highlighter(RegexHighlighter):
    """Colours the lines of a reply's text by their first words, and its ids."""

    base_style = "reply."
    highlights = (
        r"(?m)^(?P<good>stored|done|sent|sound|left|proposed)\b",
        r"(?m)^(?P<same>exists|unchanged)\b",
        r"(?m)^(?P<doubt>duplicate|quarantined|look|conflict|contradicts|changes|proposal)\b",
        r"(?m)^(?P<bad>rejected|refused|UNSOUND|BLOCKERS|URGENT)\b",
        r"(?m)^(?P<head>[A-Z][A-Z, ]{3,}\b.*)$",
        r"(?m)^(?P<note>(?:No|Nothing|These|Skipped|Degraded|changed|gap|limit)\b.*)$",
        r"(?m)^(?P<side>\[\d+\] .*)$",
        r"(?m)^(?P<side>[a-z]{3}_[0-9A-Z]{13} \|.*?)(?=: |$)",
        r"(?m)^(?P<side>> )",
        r"(?P<side>\b[a-z]{3}_[0-9A-Z]{13}\b)",
        r"(?m)^(?P<side>  brain .*)$",
    )


def print_reply(operation: Operation[Any, Any], reply: Any, *, console: Console) -> None:  # noqa: ANN401
    """Print the text of a reply, as every transport gives it, with colours."""
    written = operation.render_text(reply).splitlines()
    lines = [line for line in written if line not in _FOR_AGENTS]
    if operation.name in _WITH_CALLS:
        lines = [_CALL.sub("  brain ", line) for line in lines]
    text = Text("\n".join(lines))
    with console.use_theme(Theme({f"reply.{name}": style for name, style in _STYLES.items()})):
        _print(_Highlighter()(text), console)


@dataclass(frozen=True, slots=True)
class Sanitized:
    """Wraps a renderable to remove control characters from its text."""

    shown: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the same segments with their styles, without control characters."""
        for segment in console.render(self.shown, options):
            plain = segment._replace(text=inert(segment.text))
            yield segment if segment.is_control else plain


def print_line(text: str) -> None:
    """Print one paragraph for people."""
    _print(Text(text), Console())


def print_table(*headings: str, rows: Iterable[Sequence[str | Text]]) -> None:
    """Print a table for people, whose cells are folded."""
    Console().print(Sanitized(make_table(*headings, rows=rows)))


def make_table(*headings: str, rows: Iterable[Sequence[str | Text]]) -> Table:
    """Make a table whose cells are folded."""
    table = Table()
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def short_path(path: Path) -> str:
    """Return a path with `~` for the home."""
    home = Path.home()
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)


def print_value(value: object) -> None:
    """Print a value of the library as JSON, for programs."""
    typer.echo(to_json(value).decode())


def print_error(error: CommonbrainError, console: Console) -> None:
    """Print an error and the next step."""
    _print(Text(f"{error.code}: {error.message}", style="bold red"), console)
    if error.hint:
        _print(Text(error.hint), console)


def _print(text: Text, console: Console) -> None:
    """Print lines; a file or a pipe gets them as they are, of any length.

    So does a terminal a line with a link, path or key: it shows such a line on several without the
    newlines that a copy of the command would contain.
    """
    for line in text.split(allow_blank=True):
        is_long = any(
            cell_len(word) > min(console.width, _WORD_CELLS) for word in line.plain.split()
        )
        is_whole = is_long or not console.is_terminal
        line.overflow = "ignore" if is_whole else "fold"
        console.print(Sanitized(line), soft_wrap=is_whole)


@contextmanager
def progress_bar(label: str, *, is_shown: bool) -> Generator[Callable[[float], None]]:
    """Show a progress bar; yields a function that takes the fraction done, 0..1."""
    with progress(is_shown=is_shown) as shown:
        # Hidden until there is progress, so that a call rejected at once shows no bar.
        task = shown.add_task(label, total=1.0, visible=False)
        yield lambda fraction: shown.update(task, completed=fraction, visible=True)


def progress(*, is_shown: bool) -> "Progress":
    """Build the progress display of all long tasks; none in a log."""
    # Most commands show none.
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not (is_shown and console.is_terminal),
    )


def check_may_ask(*, as_json: bool, is_confirmed: bool, is_dry_run: bool) -> None:
    """Check that a command which has to be confirmed is, or can ask for it.

    Raises:
        InvalidInputError: its output is JSON; nothing was done.

    """
    if as_json and not (is_confirmed or is_dry_run):
        raise InvalidInputError(
            "--json cannot ask for confirmation.", hint="Add --yes, or --dry-run for a preview."
        )
