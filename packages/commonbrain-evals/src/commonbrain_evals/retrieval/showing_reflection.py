"""What a reflection keeps, as a table for people."""

from rich import box
from rich.console import Console
from rich.table import Table

from commonbrain_evals.retrieval.episodes import Report
from commonbrain_evals.retrieval.intervals import Figure


def show_reflected(report: Report) -> None:
    """Print a report."""
    console = Console(highlight=False)
    fraction = report.tokens_of_episodes / max(report.tokens_of_sources, 1)
    console.print(
        f"{report.corpora} stores, {report.memories:,} memories, {report.questions:,} questions: "
        f"{report.episodes:,} episodes that take {fraction:.0%} of the tokens of their sources, "
        f"{report.candidates:,} proposals",
        markup=False,
    )
    table = Table(box=box.SIMPLE)
    for name in ("what", "mean", "95%"):
        table.add_column(name)
    rows = [
        ("all evidence is among the sources of episodes", report.covered),
        *((f"words of the evidence kept: {name}", one) for name, one in report.kept.items()),
        *((f"answering sentences kept: {name}", one) for name, one in report.whole.items()),
        *((f"words kept more than by {name}", one) for name, one in report.gained.items()),
        *report.recalled.items(),
    ]
    for name, one in rows:
        table.add_row(name, *_format_figure(one))
    console.print(table)


def _format_figure(one: Figure) -> tuple[str, str]:
    return f"{one.mean:.1%}", f"{one.low:.1%} to {one.high:.1%}"
