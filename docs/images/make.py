"""Draws the picture of a session in the README, with the real command on a store of its own.

`python docs/images/make.py docs/images/first-light.svg` writes it; `just pictures` makes all.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

SESSION: Final = (
    'brain --agent claude remember "We chose Postgres over MySQL for row-level security" '
    "--project api",
    'brain --agent codex recall "why Postgres and not MySQL?"',
    'brain --agent codex remember "Postgres was chosen over MySQL for its row-level security" '
    "--project api",
)
_COLUMNS: Final = 104
_WEB_FONT: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def main(picture: Path, *, run_words: Callable[[Sequence[str]], str] | None = None) -> None:
    """Run the session and draw what the terminal shows.

    Args:
        picture: the file to write.
        run_words: runs a command and returns its output; in a process of its own by default.

    """
    with Path(os.devnull).open("w") as nowhere, tempfile.TemporaryDirectory() as folder:
        console = Console(record=True, width=_COLUMNS, file=nowhere, force_terminal=True)
        for line in SESSION:
            console.print(Text.assemble(("$ ", "bold green"), line))
            with _terminal(store=Path(folder) / "brain.db"):
                console.print(Text.from_ansi((run_words or _run)(shlex.split(line))))
        svg = console.export_svg(title="two agents, one memory", unique_id="first-light")
    # The picture asks no other host for a font; a reader without Fira Code sees another monospace.
    picture.write_text(_WEB_FONT.sub("", svg))


@contextmanager
def _terminal(*, store: Path) -> Generator[None]:
    """Set what makes a command use this store and write as in a terminal, in colour."""
    before = dict(os.environ)
    colours = {"COLUMNS": str(_COLUMNS), "FORCE_COLOR": "1"}
    os.environ.update({"COMMONBRAIN_STORE": str(store), **colours})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _run(words: Sequence[str]) -> str:
    program, *arguments = words
    shown = subprocess.run(  # noqa: S603 the session above
        [Path(sys.executable).with_name(program), *arguments],
        capture_output=True,
        check=False,
        text=True,
    )
    return shown.stdout + shown.stderr


if __name__ == "__main__":
    main(Path(sys.argv[1]))
