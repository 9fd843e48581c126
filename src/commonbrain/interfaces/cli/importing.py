"""`brain import`: a progress bar while it runs, the fidelity report when it is done."""

import typer
from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from commonbrain.flows.importing import Report
from commonbrain.interfaces.cli.render import Inert
from commonbrain.interfaces.cli.render import report as rendered
from commonbrain.interfaces.cli.state import Source, State


def run_import(state: State, source: Source, *, as_json: bool) -> None:
    """Import a source and print its report; progress goes to stderr."""
    with state.open() as brain, _progress(is_shown=not as_json) as progress:
        task = progress.add_task("importing", total=1.0)

        def move(report: Report) -> None:
            counts = f"{report.read:,} read, {report.stored:,} stored"
            progress.update(task, completed=report.progress, description=counts)

        report = brain.import_(
            source.format,
            source.path,
            project=source.project,
            dry_run=source.is_rehearsal,
            on_progress=move,
        )
    if as_json:
        typer.echo(TypeAdapter(Report).dump_json(report).decode())
    else:
        Console().print(Inert(rendered(report)))


def _progress(*, is_shown: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not is_shown,
    )
