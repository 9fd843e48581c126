"""`brain import`: a progress bar while it runs, the fidelity report when it is done."""

import typer
from pydantic import TypeAdapter
from rich.console import Console

from commonbrain.flows.importing import Report
from commonbrain.interfaces.cli.progress import progress
from commonbrain.interfaces.cli.render import Inert
from commonbrain.interfaces.cli.render import report as rendered
from commonbrain.interfaces.cli.state import Source, State


def run_import(state: State, source: Source, *, as_json: bool) -> None:
    """Import a source and print its report; progress goes to stderr."""
    with state.open() as brain, progress(is_shown=not as_json) as shown:
        task = shown.add_task("importing", total=1.0)

        def move(report: Report) -> None:
            counts = f"{report.read:,} read, {report.stored:,} stored"
            shown.update(task, completed=report.progress, description=counts)

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
