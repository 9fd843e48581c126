"""Draws the picture of a session in the README, with the real command on a store of its own.

`python docs/images/make.py docs/images/first-light.svg` writes it; `just pictures` makes all.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
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


def main(picture: Path) -> None:
    """Run the session and draw what the terminal shows."""
    with Path(os.devnull).open("w") as nowhere, tempfile.TemporaryDirectory() as folder:
        console = Console(record=True, width=_COLUMNS, file=nowhere, force_terminal=True)
        for line in SESSION:
            console.print(Text.assemble(("$ ", "bold green"), line))
            console.print(Text.from_ansi(_run(line, store=Path(folder) / "brain.db")))
        svg = console.export_svg(title="two agents, one memory", unique_id="first-light")
    # The picture asks no other host for a font; a reader without Fira Code sees another monospace.
    picture.write_text(_WEB_FONT.sub("", svg))


def _run(line: str, *, store: Path) -> str:
    """Run a command as in a terminal, and return its output, in colour."""
    program, *arguments = shlex.split(line)
    shown = subprocess.run(  # noqa: S603 the session above
        [Path(sys.executable).with_name(program), *arguments],
        env=os.environ
        | {"COMMONBRAIN_STORE": str(store), "COLUMNS": str(_COLUMNS), "FORCE_COLOR": "1"},
        capture_output=True,
        check=False,
        text=True,
    )
    return shown.stdout + shown.stderr


if __name__ == "__main__":
    main(Path(sys.argv[1]))
