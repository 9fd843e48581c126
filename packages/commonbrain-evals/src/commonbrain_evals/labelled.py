"""What a rule says of labelled rows, counted by half and by sort, with failures of one half."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from commonbrain_models.calibration import CalibrationSplit
from rich.console import Console
from rich.table import Table

from commonbrain_evals.measures import CheckedAgreement, checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One yes that was said, or should have been, or neither."""

    sort: str
    """What its writer called the row."""
    half: CalibrationSplit
    text: str
    predicted: bool
    expected: bool
    result: str = ""
    """What was said, where it was."""
    file: str = ""
    """The file of the row, if the data has several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How the rows of one half, or of one sort, came out."""

    name: str
    rows: int
    checked: CheckedAgreement


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledReport:
    """The whole evaluation."""

    title: str
    data: str
    """What it ran on, and whose work that is."""
    halves: tuple[Rate, ...]
    files: tuple[Rate, ...]
    """Each file by half; empty if the data has one file."""
    sorts: tuple[Rate, ...]
    failures: tuple[Prediction, ...]
    """Those of the half calibrate: rules that are tuned on the other are measured by none."""


def report(predictions: Sequence[Prediction], *, title: str, data: str) -> LabelledReport:
    """Count verdicts by half and by sort."""
    sorts = dict.fromkeys(one.sort for one in predictions)
    return LabelledReport(
        title=title,
        data=data,
        halves=tuple(
            _rate(half, [one for one in predictions if one.half is half])
            for half in CalibrationSplit
        ),
        files=tuple(_rates_of_files(predictions)),
        sorts=tuple(
            _rate(sort, [one for one in predictions if one.sort == sort]) for sort in sorts
        ),
        failures=tuple(
            one
            for one in predictions
            if one.half is CalibrationSplit.CALIBRATE and one.predicted is not one.expected
        ),
    )


def show_labelled(report: LabelledReport) -> None:
    """Print a report: figures by half and by sort, and the failures of the half calibrate."""
    console = Console(highlight=False)
    console.print(report.data, markup=False)
    groups = (("half", report.halves), ("file and half", report.files), ("sort", report.sorts))
    for group, rates in (one for one in groups if one[1]):
        table = Table(group, "rows", "said/so", "precision", "95%", "recall", "95%")
        table.title = f"{report.title}, by {group}"
        for rate in rates:
            table.add_row(*_cells(rate))
        console.print(table)
    console.print("Without an error the interval says nothing; 3 in n may still be wrong (95%).")
    for one in report.failures:
        wrong = f"wrong: {one.result}" if one.predicted else "missed"
        console.print(f"{one.half} {one.sort}: {one.text} [{wrong}]", markup=False)


def _rates_of_files(predictions: Sequence[Prediction]) -> Iterator[Rate]:
    for file in dict.fromkeys(one.file for one in predictions if one.file):
        for half in CalibrationSplit:
            rows = [one for one in predictions if one.file == file and one.half is half]
            yield _rate(f"{file} {half}", rows)


def _rate(name: str, predictions: Sequence[Prediction]) -> Rate:
    predicted = np.array([one.predicted for one in predictions], np.bool_)
    expected = np.array([one.expected for one in predictions], np.bool_)
    return Rate(name=name, rows=len(predictions), checked=checked(predicted, expected))


def _cells(rate: Rate) -> Iterator[str]:
    one = rate.checked
    yield rate.name
    yield str(rate.rows)
    yield f"{one.agreement.predicted}/{one.agreement.expected}"
    # Of nothing said no precision is known, of nothing to be said no recall.
    yield f"{one.agreement.precision:.3f}" if one.agreement.predicted else ""
    yield f"{one.precision.low:.0%}-{one.precision.high:.0%}" if one.agreement.predicted else ""
    yield f"{one.agreement.recall:.3f}" if one.agreement.expected else ""
    yield f"{one.recall.low:.0%}-{one.recall.high:.0%}" if one.agreement.expected else ""
