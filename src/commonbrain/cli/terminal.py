"""What every command prints: replies, errors, progress, without control characters."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from commonbrain.ingestion.result import ItemResult, ItemStatus, RememberResult
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.escaping import inert

if TYPE_CHECKING:
    from rich.progress import Progress

_COLOURS: Final = {
    ItemStatus.STORED: "green",
    ItemStatus.EXISTS: "cyan",
    ItemStatus.DUPLICATE: "yellow",
    ItemStatus.QUARANTINED: "yellow",
    ItemStatus.REJECTED: "red",
}


def print_remembered(reply: RememberResult, console: Console) -> None:
    """Print the result of each item."""
    console.print(Sanitized(_render_remember(reply)))


@dataclass(frozen=True, slots=True)
class Sanitized:
    """Wraps a renderable to remove control characters from its text."""

    shown: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the same segments with their styles, without control characters."""
        for segment in console.render(self.shown, options):
            plain = segment._replace(text=inert(segment.text))
            yield segment if segment.is_control else plain


def print_error(error: CommonbrainError, console: Console) -> None:
    """Print an error and the next step."""
    console.print(Sanitized(Text(f"{error.code}: {error.message}", style="bold red")))
    if error.hint:
        console.print(Sanitized(Text(error.hint)))


def render_item_result(one: ItemResult) -> RenderableType:
    """Render the result of one item."""
    line = Text.assemble(
        (f"{one.status}", f"bold {_COLOURS[one.status]}"), f"  {one.id or ''}  {one.headline or ''}"
    )
    more = [one.reason, one.hint, *one.warnings]
    against = [f"conflict  {near.id}  {near.headline}" for near in one.conflicts]
    contested = {near.id for near in (*one.conflicts, *one.changes)}
    similar_items = [near for near in one.similar if near.id not in contested]
    near = against + [f"similar  {near.id}  {near.headline}" for near in similar_items]
    is_stored = one.status is ItemStatus.STORED
    lines = [text for text in more if text] + (near if is_stored else [])
    lines += [line for change in one.changes for line in change.lines()]
    for suggestion in one.suggestions:
        lines += [
            f"may rest on  {suggestion.id}  {suggestion.headline}  ({suggestion.how})",
            f"  if so: {suggestion.accept}",
        ]
    lines += [one.affected.line()] if one.affected else []
    if one.embedding_pending:
        lines.append("Found by its words only until it is embedded.")
    return Group(line, *(Text(f"  {text}", style="dim") for text in lines))


def _render_remember(reply: RememberResult) -> RenderableType:
    affected = [Text(reply.affected.line(), style="yellow")] if reply.affected else []
    return Group(*(render_item_result(one) for one in reply.items), *affected)


def render_counts(count: int, one: str, *, many: str) -> str:
    """Format a count with its noun."""
    return f"{count:,} {one if count == 1 else many}"


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
