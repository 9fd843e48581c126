"""The output of a command: the streams of this process, or text for another process."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TextIO

import typer

from commonbrain.api.errors import describe_error
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.escaping import escaped
from commonbrain.model.values import dataclass

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerTerminal:
    """The terminal of another process."""

    columns: int
    lines: int
    shows_out: bool
    """Whether its stdout is a terminal."""
    shows_err: bool
    environment: Mapping[str, str]
    """The variables that choose colours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Prints for people and for programs."""

    out: TextIO | None = None
    """None: stdout of this process, at the time of printing."""
    err: TextIO | None = None
    terminal: CallerTerminal | None = None
    """Where `out` and `err` are shown later; None for the terminal of this process."""

    @property
    def is_interactive(self) -> bool:
        """Whether a person at this process's own terminal can answer."""
        return self.terminal is None and sys.stdin.isatty() and sys.stdout.isatty()

    def console(self, *, stderr: bool = False) -> "Console":
        """Return a console for tables and colours."""
        # Tables take long to load, and programs read JSON.
        from rich.console import Console  # noqa: PLC0415

        if self.terminal is None:
            return Console(stderr=stderr)
        return Console(
            file=self.err if stderr else self.out,
            # Where there is no terminal, variables may still ask for colours.
            force_terminal=(self.terminal.shows_err if stderr else self.terminal.shows_out) or None,
            width=self.terminal.columns,
            height=self.terminal.lines,
            _environ=self.terminal.environment,
        )

    def print_json(self, value: object) -> None:
        """Print one line of JSON, without control characters."""
        typer.echo(escaped(json.dumps(value, ensure_ascii=False)), file=self.out)

    def print_text(self, text: str) -> None:
        """Print text for programs as it is."""
        typer.echo(text, file=self.out, nl=False)

    def print_error(self, error: CommonbrainError, *, as_json: bool) -> None:
        """Print an error with its next step: as JSON to stdout, or as text to stderr."""
        if as_json:
            self.print_json({"error": describe_error(error)})
            return
        from commonbrain.cli.terminal import print_error  # noqa: PLC0415 see console

        print_error(error, self.console(stderr=True))


STREAMS: Final = Output()
"""Stdout and stderr of this process."""
