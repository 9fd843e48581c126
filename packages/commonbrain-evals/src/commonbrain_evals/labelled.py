"""Labelled rows that ship with the package, the stores in which they live, and their reports.

A row belongs to one half: rules are tuned on `calibrate`, whose failures are listed, and measured
on `check`, whose failures are not.
"""

import hashlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from commonbrain_models.calibration import CalibrationSplit
from rich.console import Console
from rich.table import Table

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.testing.builders import FakeClock, a_brain
from commonbrain_evals.measures import CheckedAgreement, checked
from commonbrain_evals.retrieval.data_files import read_json_lines

Shape = TypeVar("Shape")
Figure = Mapping[str, Any]
"""Values by the name of their column: a share is a float, a count an int, None is unknown."""

_FOLDER: Final = Path(__file__).parent


def read_rows(shape: type[Shape], *names: str) -> list[Shape]:
    """Read files of JSON lines of this package as values of one shape, in their order."""
    return [row for name in names for row in read_json_lines(shape, _FOLDER / name)]


def digest_of(*names: str) -> str:
    """Return the SHA-256 of files of this package, one after the other."""
    content = b"".join(_FOLDER.joinpath(name).read_bytes() for name in names)
    return hashlib.sha256(content).hexdigest()


@contextmanager
def open_scratch_brain(embedder: Embedder, clock: FakeClock) -> Generator[Brain]:
    """Open an empty store; it is deleted afterwards."""
    with (
        TemporaryDirectory() as folder,
        a_brain(Path(folder) / "brain.db", clock=clock, embedder=embedder) as brain,
    ):
        yield brain


def advance(clock: FakeClock, to: datetime, *, least: timedelta = timedelta(seconds=1)) -> None:
    """Move a clock to a time, or by the least step if that has passed."""
    clock.move(max(to - clock.now(), least))


class LabelledRow(Protocol):
    """A result of one labelled row."""

    @property
    def half(self) -> CalibrationSplit:
        """The half that the row belongs to."""
        ...

    @property
    def sort(self) -> str:
        """What its writer called it."""
        ...


RowT = TypeVar("RowT", bound=LabelledRow)


def group_rows(rows: Sequence[RowT]) -> Iterator[tuple[dict[str, str], list[RowT]]]:
    """Yield the rows of each half and sort, in the order of the sorts, with their names."""
    for half in CalibrationSplit:
        for sort in dict.fromkeys(row.sort for row in rows):
            group = [row for row in rows if row.half is half and row.sort == sort]
            if group:
                yield {"half": str(half), "sort": sort}, group


def share(flags: Iterable[bool | None]) -> float | None:
    """Return the share of the flags that are true, among those that are not None."""
    known = [flag for flag in flags if flag is not None]
    return sum(known) / len(known) if known else None


def show_figures(
    title: str, figures: Iterable[Figure], *, columns: Sequence[str], digits: int = 0
) -> None:
    """Print figures as a table; shares are percentages with so many digits."""
    table = Table(*(name.replace("_", " ") for name in columns), title=title)
    for figure in figures:
        table.add_row(*(_format_cell(figure[name], digits=digits) for name in columns))
    Console(highlight=False).print(table)


def _format_cell(value: object, *, digits: int) -> str:
    if value is None:
        return ""
    return f"{100 * value:.{digits}f}%" if isinstance(value, float) else str(value)


def show_lines(lines: Iterable[str]) -> None:
    """Print lines as they are, without markup."""
    console = Console(highlight=False)
    for line in lines:
        console.print(line, markup=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a rule says of a row, and what its label says."""

    sort: str
    half: CalibrationSplit
    text: str
    predicted: bool
    expected: bool
    result: str = ""
    """The output of the rule, if there is any."""
    file: str = ""
    """The file of the row, if the data has several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The agreement of the rows of one half, file or sort."""

    name: str
    rows: int
    checked: CheckedAgreement


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledReport:
    """The agreement of a rule with labels."""

    title: str
    data: str
    """Description and origin of the data."""
    halves: tuple[Rate, ...]
    files: tuple[Rate, ...]
    """Each file by half; empty if the data has one file."""
    sorts: tuple[Rate, ...]
    failures: tuple[Prediction, ...]
    """Those of the half calibrate: rules that are tuned on the other are measured by none."""


def report(predictions: Sequence[Prediction], *, title: str, data: str) -> LabelledReport:
    """Count predictions by half, by file and half, and by sort."""
    halves = [(str(half), {"half": half}) for half in CalibrationSplit]
    files = [file for file in dict.fromkeys(row.file for row in predictions) if file]
    return LabelledReport(
        title=title,
        data=data,
        halves=tuple(_rate(name, predictions, where=where) for name, where in halves),
        files=tuple(
            _rate(f"{file} {name}", predictions, where={**where, "file": file})
            for file in files
            for name, where in halves
        ),
        sorts=tuple(
            _rate(sort, predictions, where={"sort": sort})
            for sort in dict.fromkeys(row.sort for row in predictions)
        ),
        failures=tuple(
            row
            for row in predictions
            if row.half is CalibrationSplit.CALIBRATE and row.predicted is not row.expected
        ),
    )


def _rate(name: str, predictions: Sequence[Prediction], *, where: Mapping[str, str]) -> Rate:
    rows = [
        row
        for row in predictions
        if all(getattr(row, field) == value for field, value in where.items())
    ]
    predicted = np.array([row.predicted for row in rows], np.bool_)
    expected = np.array([row.expected for row in rows], np.bool_)
    return Rate(name=name, rows=len(rows), checked=checked(predicted, expected))


def show_labelled(report: LabelledReport) -> None:
    """Print figures by half, file and sort, and the failures of the half calibrate."""
    console = Console(highlight=False)
    console.print(report.data, markup=False)
    groups = (("half", report.halves), ("file and half", report.files), ("sort", report.sorts))
    for group, rates in groups:
        if rates:
            table = Table(group, "rows", *AGREEMENT_COLUMNS)
            table.title = f"{report.title}, by {group}"
            for rate in rates:
                table.add_row(rate.name, str(rate.rows), *agreement_cells(rate.checked))
            console.print(table)
    console.print(INTERVAL_NOTE)
    for row in report.failures:
        wrong = f"wrong: {row.result}" if row.predicted else "missed"
        console.print(f"{row.half} {row.sort}: {row.text} [{wrong}]", markup=False)


AGREEMENT_COLUMNS: Final = ("said/so", "precision", "95%", "recall", "95%")
INTERVAL_NOTE: Final = (
    "Without an error the interval says nothing; 3 in n may still be wrong (95%)."
)


def agreement_cells(checked: CheckedAgreement) -> Iterator[str]:
    """Yield the cells of `AGREEMENT_COLUMNS`."""
    counts = checked.agreement
    yield f"{counts.predicted}/{counts.expected}"
    # Without a prediction no precision is known, without an expected one no recall.
    for count, value, interval in (
        (counts.predicted, counts.precision, checked.precision),
        (counts.expected, counts.recall, checked.recall),
    ):
        yield f"{value:.3f}" if count else ""
        yield f"{interval.low:.0%}-{interval.high:.0%}" if count else ""
