"""How long work is shown to move: a bar on stderr, so that the answer alone is on stdout."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(label: str, *, is_shown: bool) -> Generator[Callable[[float], None]]:
    """Show a progress bar; yields a function that takes the fraction done, 0..1."""
    with progress(is_shown=is_shown) as shown:
        # Hidden until something moves: what is refused at once never showed a bar.
        task = shown.add_task(label, total=1.0, visible=False)
        yield lambda fraction: shown.update(task, completed=fraction, visible=True)


def progress(*, is_shown: bool) -> Progress:
    """Make the display that all long work shares; a log gets none."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not (is_shown and console.is_terminal),
    )
