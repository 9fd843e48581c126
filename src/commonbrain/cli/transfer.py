"""`brain import` and `brain export`: a progress bar while they run, a report when it is done."""

from collections.abc import Callable
from pathlib import Path

import typer
from pydantic import TypeAdapter
from rich.console import Console

from commonbrain.api.operations.job import render_job
from commonbrain.cli.context import State, StoreOption
from commonbrain.cli.progress import progress
from commonbrain.cli.render import report as rendered
from commonbrain.cli.terminal import Sanitized
from commonbrain.client import Brain
from commonbrain.jobs.service import JobView
from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.export import ExportResult
from commonbrain.transfer.imports import ImportReport
from commonbrain.transfer.merge import OWN_FORMAT


def run_import(state: State, source: StoreOption, *, as_json: bool) -> None:
    """Import a source and print its report; progress goes to stderr."""
    if source.is_background:
        _enqueue_import(state, source, as_json=as_json)
        return
    with state.open() as brain, progress(is_shown=not as_json) as shown:
        task = shown.add_task("importing", total=1.0)

        def move(report: ImportReport) -> None:
            counts = f"{report.read:,} read, {report.stored:,} stored"
            shown.update(task, completed=report.progress, description=counts)

        report = _run_import(brain, source, on_progress=move)
    if as_json:
        typer.echo(TypeAdapter(ImportReport).dump_json(report).decode())
    else:
        Console().print(Sanitized(rendered(report)))


def _enqueue_import(state: State, source: StoreOption, *, as_json: bool) -> None:
    """Send a source to where workers find it, and print the job that reads it.

    Raises:
        InvalidInputError: nothing is to be stored, which needs no worker.

    """
    if source.is_dry_run:
        raise InvalidInputError(
            "--dry-run and --background exclude each other.", hint="Give one of them."
        )
    with state.open() as brain:
        job = brain.jobs.import_(source.format, source.path, project=source.project)
    if as_json:
        typer.echo(TypeAdapter(JobView).dump_json(job).decode())
    else:
        typer.echo(render_job(job))


def run_export(state: State, target: Path, *, as_json: bool) -> None:
    """Write everything to a file and say how much that was; progress goes to stderr."""
    with state.open() as brain, progress(is_shown=not as_json) as shown:
        task = shown.add_task("exporting", total=1.0)
        exported = brain.export(
            target, on_progress=lambda fraction: shown.update(task, completed=fraction)
        )
    if as_json:
        typer.echo(TypeAdapter(ExportResult).dump_json(exported).decode())
    else:
        summary = f"{exported.memories:,} memories, {exported.records:,} records in all"
        Console().print(Sanitized(f"{exported.path}: {summary}"))


def _run_import(
    brain: Brain, source: StoreOption, *, on_progress: Callable[[ImportReport], None]
) -> ImportReport:
    """Read the house's own format, which is merged, or a foreign one, which is remembered.

    Raises:
        InvalidInputError: another project is named for what was exported with its own.

    """
    if source.format != OWN_FORMAT:
        return brain.import_(
            source.format,
            source.path,
            project=source.project,
            dry_run=source.is_dry_run,
            on_progress=on_progress,
        )
    if source.project is not None:
        raise InvalidInputError("An export keeps its own projects.", hint="Leave --project out.")
    return brain.merge(source.path, dry_run=source.is_dry_run, on_progress=on_progress)
