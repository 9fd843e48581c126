"""A report as tables for people."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from commonbrain_evals.duplicates import Findings, Report
from commonbrain_evals.measures import CheckedAgreement, Interval

_EVERY = 5
"""The grid is chosen from in hundredths and shown in steps of five."""


def show(report: Report) -> None:
    """Print a report."""
    console = Console(highlight=False)
    console.print(f"space {report.space}", markup=False)
    console.print(_spreads(report))
    console.print(_grid(report))
    console.print(f"Criterion: {report.criterion}", markup=False)
    console.print(
        f"chosen: similar_threshold {report.similar_threshold}; configured: "
        f"{report.configured_similar_threshold}"
    )
    console.print(_findings(report))
    for half in report.findings:
        console.print(
            f"{half.half}: of {half.duplicate.agreement.predicted} taken for duplicates"
            f" {half.updates_refused} are updates, {half.unlike_refused} near misses or unrelated"
        )
    console.print("Conflicts are judged on facts, recurrences on events.")
    console.print("Without an error the interval says nothing; 3 in n may still be wrong (95%).")


def _spreads(report: Report) -> Table:
    table = Table("label", "pairs", "p5", "p50", "p95", title="Similarity")
    for one in report.spreads:
        table.add_row(one.label, str(one.pairs), *(f"{q:.3f}" for q in (one.p5, one.p50, one.p95)))
    return table


def _grid(report: Report) -> Table:
    table = Table("at", "similar P R F1")
    table.title = "Threshold, on the half that is chosen by"
    for step in report.steps:
        is_chosen = step.threshold == report.similar_threshold
        if round(step.threshold * 100) % _EVERY == 0 or is_chosen:
            one = step.similar
            figures = f"{one.precision:.3f} {one.recall:.3f} {one.f1:.3f}"
            table.add_row(f"{step.threshold:.2f}", figures, style="bold" if is_chosen else None)
    return table


def _findings(report: Report) -> Table:
    table = Table("half", "judged", "said/so", "precision", "95%", "recall", "95%")
    table.title = "The chosen threshold and the rules"
    for half in report.findings:
        for name, one in _render_half(half):
            table.add_row(half.half, name, *_interval_cells(one))
    return table


def _render_half(half: Findings) -> Iterator[tuple[str, CheckedAgreement]]:
    yield "duplicate", half.duplicate
    yield "similar", half.similar
    yield "conflict", half.conflict
    yield "recurs", half.recurrence


def _interval_cells(one: CheckedAgreement) -> Iterator[str]:
    yield f"{one.agreement.predicted}/{one.agreement.expected}"
    yield f"{one.agreement.precision:.3f}"
    yield _span(one.precision)
    yield f"{one.agreement.recall:.3f}"
    yield _span(one.recall)


def _span(interval: Interval) -> str:
    return f"{interval.low:.0%}-{interval.high:.0%}"
