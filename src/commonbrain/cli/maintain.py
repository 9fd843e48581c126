"""`brain maintain`: runs maintenance now, in this process, or previews it."""

import typer
from pydantic import TypeAdapter
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from commonbrain.api.operations.job import describe_result
from commonbrain.cli.context import State
from commonbrain.cli.terminal import Sanitized, progress_bar
from commonbrain.consolidation.maintenance import MaintenancePreview
from commonbrain.jobs.service import JobView
from commonbrain.jobs.worker import JobEvent, Worker, make_worker_name
from commonbrain.model import ids
from commonbrain.model.errors import UnavailableError
from commonbrain.model.jobs import Job, JobState
from commonbrain.storage.job_queue import MAINTAIN, QueueMessage


def run_maintain(state: State, *, dry_run: bool, as_json: bool) -> None:
    """Run maintenance and print what was done, or would be done.

    Raises:
        RejectedError: the caller is not an admin.
        UnavailableError: `job_unfinished`, another worker runs it, or it failed and will be
            retried.

    """
    if dry_run:
        with state.open() as brain:
            preview = brain.maintain.preview()
        if as_json:
            typer.echo(TypeAdapter(MaintenancePreview).dump_json(preview).decode())
        else:
            Console().print(Sanitized(_preview(preview)))
        return
    done = _run_maintenance(state, is_shown=not as_json)
    if as_json:
        typer.echo(TypeAdapter(JobView).dump_json(done).decode())
    else:
        Console().print(Sanitized(Text(describe_result(MAINTAIN, done.result or {}))))


def _run_maintenance(state: State, *, is_shown: bool) -> JobView:
    with state.open() as brain, progress_bar("keeping", is_shown=is_shown) as move:
        queued = brain.jobs.run(MAINTAIN)

        def report(_what: JobEvent, job: Job) -> None:
            move(job.progress)

        worker = Worker(
            services=brain.services,
            name=make_worker_name(brain.services),
            kinds=(MAINTAIN,),
            on_event=report,
        )
        ticket = QueueMessage(tenant=brain.caller.tenant, job=ids.parse(ids.JOB, queued.id))
        is_ours = worker.handle_ticket(ticket)
        done = brain.jobs.show(queued.id)
    if done.state is JobState.DONE:
        return done
    reason = f"it is {done.state}: {done.reason}" if is_ours else "another worker is at it"
    raise UnavailableError(
        f"{done.id} has not ended, {reason}.",
        code="job_unfinished",
        hint="What it did so far stays; brain job list --kind maintain shows how it goes on.",
    )


def _preview(told: MaintenancePreview) -> RenderableType:
    if not told.counts:
        return Text("Nothing is due.")
    table = Table()
    for name in ("becomes", "count", "such as", "because"):
        table.add_column(name, overflow="fold")
    for name, count in told.counts.items():
        shown = told.examples.get(name, ())
        first = shown[0] if shown else None
        such = f"{first.id} {first.headline}" if first else ""
        table.add_row(name, f"{count:,}", such, first.reason if first else "")
        for one in shown[1:]:
            table.add_row("", "", f"{one.id} {one.headline}", one.reason)
    return Group(table, Text("Nothing was changed. Run it without --dry-run."))
