"""Reports on the terminal, as JSON and in files."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import escaped


def print_report(report: Any, show: Callable[[Any], object], *, as_json: bool) -> None:  # noqa: ANN401 each has a report of its own
    """Print a report, a dataclass, as JSON or with the function that shows it to people."""
    if as_json:
        print_json(asdict(report))
    else:
        show(report)


def print_json(value: object) -> None:
    """Print a value as one line of JSON without control characters."""
    typer.echo(escaped(json.dumps(value, ensure_ascii=False, default=str)))


def write_text(path: Path, text: str) -> None:
    """Write a file.

    Raises:
        InvalidInputError: it cannot be written.

    """
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}.") from error
